"""Hostile files that go with a source: labels, subgoals, calibration maps; and models' hostile answers."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

from tests.hostile import mutations as m
from tests.hostile.case import Case
from tests.hostile.good_inputs import SERVED
from tests.hostile.kinds.sources import damage


def make_labels(rng: Random, here: Path, good: Path) -> Case:
    """Make an odd labels file in one of its formats, for the commands that take one."""
    path = Path(shutil.copy(good / "made" / f"labels.{rng.choice(('csv', 'jsonl', 'parquet'))}", here))
    suffix = path.suffix
    if rng.random() < 0.08:
        path = path.rename(here / rng.choice(("labels", "labels.txt", "labels.json", "x" * 200)))
    what = damage(path, rng, suffix)
    source, labels = str(good / "jsonl" / "list.jsonl"), ["--labels", str(path)]
    run, linear = str(here / "run"), str(good / "made" / "runs" / "linear")
    commands = [
        ["judge", source, "--judge", "linear-time", "-o", run, *labels],
        ["inspect", source, *labels],
        ["calibrate", linear, "-o", str(here / "map.json"), *labels],
        ["metrics", linear, *labels],
        ["progress-labels", source, "--method", "linear", "-o", str(here / "l.parquet"), *labels],
    ]
    return Case(f"labels {what}", rng.sample(commands, 2), unprivileged=what.endswith("unreadable"))


def make_subgoals(rng: Random, here: Path, good: Path) -> Case:
    """Make an odd subgoals file."""
    path = Path(shutil.copy(good / "made" / "subgoals.yaml", here))
    what = damage(path, rng)
    arguments = [
        "judge",
        str(good / "jsonl" / "list.jsonl"),
        "--subgoals",
        str(path),
        "-o",
        str(here / "run"),
        "-E",
        "cache=false",
    ]
    judge = rng.choice(
        (["--judge", "stepeval", "--model", 'mock/{"answer": "yes"}'], ["--judge", "linear-time"])
    )
    commands = [[*arguments, *judge], ["metrics", str(here / "run")]]
    return Case(f"subgoals {what}", commands, unprivileged=what.endswith("unreadable"))


def make_pair_file(rng: Random, here: Path, good: Path) -> Case:
    """Make an odd file of pairs of images, or an odd mapping of its columns, archive or folder of images."""
    image = good / "videos" / "close_the_box" / "goal.png"
    for name in ("a.png", "b.png"):
        shutil.copy(image, here / name)
    paths = ["a.png", "b.png", *["a.png"] * 3, *["b.png"] * 3]
    rows: object = [{"image": paths, "answer": sign, "bin": "small"} for sign in ("Progress", "Regression")]
    columns, what, images = "images=image,label=answer,span=bin", "", []
    how = rng.choice(("content", "content", "bytes", "columns", "images"))
    if how == "content":
        rows, what = m.odd_json(rows, rng)
    path = here / "pairs.json"
    path.write_text(m.dump_json(rows), encoding="utf-8", errors="replace")
    if how == "bytes":
        what = damage(path, rng)
    elif how == "columns":
        columns = what = rng.choice((*m.ODD_TEXTS, "images=" + "x." * 5000, "a=b", "=", "x.yaml", ",,,"))
        columns = columns.replace("\0", "?")
    elif how == "images":
        what = rng.choice(("/dev/zero", "", " ", "x" * 5000, str(path), "~nobody", "/", str(image)))
        images = ["--images", what]
    judge = ["--judge", "hop", "--model", "mock/<score>+10%</score>", "-E", "cache=false"]
    line = ["pairs", "score", str(path), f"--columns={columns}", "-o", str(here / "run"), *judge, *images]
    return Case(f"pair file {how} {what[:60]}", [line], unprivileged=what.endswith("unreadable"))


def make_board_file(rng: Random, here: Path, good: Path) -> Case:
    """Make an odd row of a board, list of entries, file of questions or benchmark.json."""
    labelled = [str(good / "jsonl" / "list.jsonl"), "--limit", "1"]
    what = rng.choice(("--rows", "--check", "--entries", "--questions", "benchmark.json"))
    path = here / ("entries.yaml" if what == "--entries" else what.strip("-"))
    rows: dict[str, object] = {
        "--rows": _ROW,
        "--check": _ROW,
        "--entries": [{"judge": "constant", "options": {"value": 0.2}, "label": "x"}],
        "--questions": {"id": "q", "kind": "next", "episode": "e", "to_s": 1, "steps": ["a"], "answer": "a"},
        "benchmark.json": {"format": 1, "name": "x", "source": "sim", "labels": "l.csv", "seed": 1},
    }
    content, how = m.odd_json(rows[what], rng)
    path.write_text(m.dump_json(content), encoding="utf-8", errors="replace")
    if rng.random() < 0.3:
        how = damage(path, rng)
    source, given = ([str(here)], []) if what == "benchmark.json" else (labelled, [what, str(path)])
    line = ["bench", *source, "--judges", "linear-time", "-o", str(here / "BOARD"), *given]
    return Case(f"board file {what} {how[:60]}", [line], unprivileged=how.endswith("unreadable"))


_ROW = {
    "format": 1,
    "benchmark": {"name": "x", "fingerprint": "0" * 32, "seed": None, "episodes": 1},
    "label": "theirs",
    "judge": "linear-time",
    "model": None,
    "options": {"points": 3},
    "protocol_hash": "44136fa355b3678a",
    "protocol": {},
    "cost": {"videos": 1, "calls": 0, "cost": 0.0},
    "estimates": {"voc": {"value": 1.0, "lo": None, "hi": None, "n": 1, "clusters": 1, "coverage": 1.0}},
    "curves": {"e": {"time_s": [0.0, 1.0], "progress": [0.0, None], "verdicts": {"a": "yes"}}},
}


def make_goal(rng: Random, here: Path, good: Path) -> Case:
    """Make an odd goal image, an odd folder of them, or a choice that no label supports."""
    folder = here / "goals"
    folder.mkdir()
    image = Path(shutil.copy(good / "videos" / "close_the_box" / "goal.png", folder / "drawer.png"))
    how = rng.choice(("file", "file", "folder", "names", "last-success", "odd"))
    goal, what = str(folder), how
    if how in ("file", "folder"):
        what, goal = damage(image, rng), str(image if how == "file" else folder)
    elif how == "names":
        for name in ("Drawer.jpg", "....png", "x" * 200 + ".png", ".png", "open_the_drawer.PNG"):
            shutil.copy(image, folder / name)
        if rng.random() < 0.5:
            image.unlink()
    elif how == "last-success":
        goal = how
    else:
        goal = rng.choice(
            ("/dev/zero", "/etc/passwd", "", " ", "x" * 5000, "~nobody/x.png", "a/../..", "last_success")
        )
    judge = rng.choice(
        (
            [
                "--judge",
                "hop",
                "--model",
                "mock/<score>+10%</score>",
                "-J",
                "mode=backward",
                "-J",
                "points=2",
            ],
            ["--judge", "similarity", "--model", "mock/0.5", "-J", "frames=3"],
        )
    )
    arguments = ["judge", str(good / "jsonl" / "list.jsonl"), *judge, "-E", "cache=false", "--goal", goal]
    commands = [[*arguments, "-o", str(here / "run")], ["metrics", str(here / "run")]]
    return Case(f"goal {what}", commands, unprivileged=what.endswith("unreadable"))


def make_calibration(rng: Random, here: Path, good: Path) -> Case:
    """Make an odd calibration map."""
    name = rng.choice(("linear", "topreward"))
    path = Path(shutil.copy(good / "made" / f"map-{name}.json", here))
    what = damage(path, rng)
    judge = {
        "linear": ["--judge", "linear-time"],
        "topreward": ["--judge", "topreward", "--model", "mock/-1.5", "-E", "cache=false"],
    }[name]
    arguments = [
        "judge",
        str(good / "jsonl" / "list.jsonl"),
        *judge,
        "-J",
        f"calibration={path}",
        "-o",
        str(here / "run"),
    ]
    commands = [arguments, ["metrics", str(here / "run")]]
    return Case(f"map {what}", commands, unprivileged=what.endswith("unreadable"))


ANSWERS = (
    {
        "subgoals": [
            {"number": 1, "answer": "yes", "why": "x", "when": 3},
            {"number": 2, "answer": "no", "why": "y"},
        ]
    },
    {"frames": [{"frame": 1, "percent": 10}, {"frame": 2, "percent": 90}]},
    {"answer": "yes", "why": "x", "score": 0.5},
    {"stages": [{"name": "reach", "start": 0, "end": 3}, {"name": "pull", "start": 3, "end": 5}]},
    [{"step": "reach", "start_frame": 0, "end_frame": 3}],
    {"subgoals": [{"name": "reach", "criterion": "near", "mode": "ever"}]},
)
TEXTS = (
    "<score>{}%</score>",
    "<progress>{}%</progress>",
    "Frame 1: Task Completion Percentages: {}%\nFrame 2: Task Completion Percentages: 40%",
    "Frame {}: Task Completion Percentages: 5%",
    "<think>{}",
    "```json\n{}\n```",
    "{}",
)


def make_answers(rng: Random, here: Path, good: Path) -> Case:
    """Make a scripted model say odd things to judges, and to the commands that annotate and plan."""
    if rng.random() < 0.6:
        odd, what = m.odd_json(rng.choice(ANSWERS), rng)
        text = m.dump_json(odd)
    else:
        value = rng.choice(
            (*m.ODD_TEXTS, *map(str, m.ODD_NUMBERS), "9" * 400, "nan", "1e400", "٣", *m.RAW.values())
        )
        text, what = rng.choice(TEXTS).replace("{}", value), f"{value[:30]!r}"
    text = text.replace("\0", "?")[:100_000]  # an argument holds no NUL, and no more on some systems
    source, name = str(good / "jsonl" / "list.jsonl"), rng.choice(tuple(SERVED))
    judge = [
        "judge",
        source,
        "--judge",
        name,
        "--model",
        f"mock/{text}",
        "-E",
        "cache=false",
        "-o",
        str(here / "run"),
        *SERVED[name],
    ]
    commands = rng.choice(
        (
            [judge, ["metrics", str(here / "run")]],
            [judge, ["report", str(here / "run"), "-o", str(here / "page"), "--no-videos"]],
            [
                [
                    "annotate",
                    source,
                    "--model",
                    f"mock/{text}",
                    "-E",
                    "cache=false",
                    "-o",
                    str(here / "annotated"),
                ]
            ],
            [["plan", "push it", "--model", f"mock/{text}", "-o", str(here / "subgoals.yaml")]],
        )
    )
    return Case(f"answer {what}", commands)

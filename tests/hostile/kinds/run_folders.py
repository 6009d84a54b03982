"""Hostile run folders: damaged or odd tables, journals and descriptions, strange files, folders that are no run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

from tests.hostile import mutations as m
from tests.hostile.case import Case
from tests.hostile.checks import TABLES
from tests.hostile.good_runs import RUNS, source_of
from tests.hostile.kinds.sources import damage


def reading_commands(rng: Random, here: Path, good: Path, name: str) -> list[list[str]]:
    """Return the commands that read a run folder, and the one that continues it."""
    run, other = str(here / "run"), str(good / "made" / "runs" / "topreward")
    return [
        [
            "metrics",
            run,
            *rng.choice(
                ([], ["--json"], ["--format", "csv"], ["--by", "task,policy"], ["--revision", "robust"])
            ),
        ],
        ["metrics", run, other],
        ["compare", run, *rng.choice(([], [other]))],
        ["report", run, "-o", str(here / "page"), *rng.choice(([], ["--no-videos"], ["--copy-videos"]))],
        ["weights", run, "-o", str(here / "w.parquet"), "--method", "awr"],
        ["weights", run, "-o", str(here / "w.parquet"), "--method", "rabc", "-W", "chunk-size=4"],
        ["weights", run, "-o", str(here / "w.parquet"), "--method", "filter", "--top", "0.5", "--by", "MP"],
        ["calibrate", run, "-o", str(here / "map.json")],
        ["judge", str(source_of(good, name)), *RUNS[name], "-o", run, "-E", "cache=false"],
    ]


def commands(rng: Random, here: Path, good: Path, name: str) -> list[list[str]]:
    """Return two of the commands that read a run folder, or continue it."""
    return rng.sample(reading_commands(rng, here, good, name), 2)


def copy_run(rng: Random, here: Path, good: Path) -> tuple[str, Path]:
    """Copy a good run to ``here/run``; return its name and the folder."""
    name = rng.choice(tuple(RUNS))
    return name, Path(shutil.copytree(good / "made" / "runs" / name, here / "run"))


def make_tables(rng: Random, here: Path, good: Path) -> Case:
    """Damage tables, which are made from the journal: nothing may be lost."""
    name, run = copy_run(rng, here, good)
    chosen = rng.sample((*TABLES, "usage"), rng.choice((1, 1, 2)))
    what = ", ".join(damage(run / f"{table}.parquet", rng) for table in chosen)
    return Case(what, commands(rng, here, good, name), f"made/runs/{name}", unprivileged="unreadable" in what)


def make_validation(rng: Random, here: Path, good: Path) -> Case:
    """Damage a validation record that is given, or that lies in the run."""
    _, run = copy_run(rng, here, good)
    number = {"value": 0.5, "lo": None, "hi": None, "n": 3}
    record = {
        "format": 1,
        "protocol_hash": json.loads((run / "run.json").read_text(encoding="utf-8"))["protocol_hash"],
        "judge": "topreward",
        "measured_by": "someone",
        "created": "2026-01-01",
        "episodes": 3,
        "tasks": ["open the drawer"],
        "cameras": ["top"],
        "success": number,
        "grounding": number,
    }
    inside = rng.random() < 0.5
    path = run / "validation.json" if inside else here / "validation.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    what = damage(path, rng)
    given = [] if inside else ["--validation", str(path)]
    asked = [["metrics", str(run)], ["compare", str(run)], ["report", str(run), "-o", str(here / "page")]]
    return Case(
        f"record {what}",
        [[*arguments, *given] for arguments in rng.sample(asked, 2)],
        unprivileged=what.endswith("unreadable"),
    )


def make_journal(rng: Random, here: Path, good: Path) -> Case:
    """Damage the journal, with the tables that were made from it or without."""
    name, run = copy_run(rng, here, good)
    what = damage(run / "journal.jsonl", rng)
    if rng.random() < 0.5:
        for path in run.glob("*.parquet"):
            path.unlink()
        what = f"no tables, {what}"
    return Case(what, commands(rng, here, good, name), unprivileged="unreadable" in what)


def make_json(rng: Random, here: Path, good: Path) -> Case:
    """Damage run.json: another format, a source elsewhere, values of other types."""
    name, run = copy_run(rng, here, good)
    what = damage(run / "run.json", rng)
    return Case(what, commands(rng, here, good, name), unprivileged="unreadable" in what)


def make_files(rng: Random, here: Path, good: Path) -> Case:
    """Put something else in the place of a lock, a table, the attempts, or the folder itself."""
    name, run = copy_run(rng, here, good)
    chosen = rng.choice(
        (
            "tables.lock",
            "tables.lock",
            "attempts.sqlite",
            "journal.jsonl",
            "run.json",
            "curves.parquet",
            "leftover",
        )
    )
    path = run / ("run.json.tmp" if chosen == "leftover" else chosen)
    path.touch()
    what = f"{path.name}: {m.replace_file(path, rng)}"
    return Case(what, commands(rng, here, good, name), unprivileged="unreadable" in what)


def make_no_run(rng: Random, here: Path, good: Path) -> Case:
    """Make a folder, a file or a name that is no run."""
    place = here / "run"
    how = rng.choice(("nothing", "empty", "file", "source", "only run.json", "only journal", "odd", "name"))
    if how == "empty":
        place.mkdir()
    elif how == "file":
        place.write_text("{}")
    elif how == "source":
        shutil.copytree(good / "images", place)
    elif how.startswith("only"):
        place.mkdir()
        file = "run.json" if how == "only run.json" else "journal.jsonl"
        shutil.copy(good / "made" / "runs" / "linear" / file, place)
    elif how == "odd":
        place.touch()
        how = m.replace_file(place, rng)
    name = rng.choice(("linear", "recorded"))
    lines = commands(rng, here, good, name)
    if how == "name":
        odd = rng.choice(
            (
                "x" * 5000,
                "x" * 300,
                "",
                " ",
                "/dev/null",
                "/proc/self",
                "/",
                "a\nb",
                "\x1b[31m",
                "[red]",
                "\udcff",
            )
        )
        lines = [
            [odd if word == str(place) else word for word in line] for line in lines if line[0] != "judge"
        ] or [["metrics", odd]]
        how = f"name {odd[:20]!r}"
    return Case(f"no run: {how}", lines, unprivileged=how == "unreadable")


def damaged_run(rng: Random, here: Path, good: Path) -> Case:
    """Return the case of any of the above; its commands are to be replaced."""
    return rng.choice((make_tables, make_journal, make_json, make_files))(rng, here, good)


def make_view(rng: Random, here: Path, good: Path) -> Case:
    """Serve a damaged run until Ctrl+C."""
    case = damaged_run(rng, here, good)
    case.commands, case.rest = (
        [["view", str(here / "run"), "--port", "0", *rng.choice(([], ["--no-videos"]))]],
        "",
    )
    case.stop_s, case.codes = 2.0, [0, 1, 2, 130]
    return case


def make_plot(rng: Random, here: Path, good: Path) -> Case:
    """Plot a damaged run."""
    case = damaged_run(rng, here, good)
    kind = rng.choice(("leaderboard", "vectors", "curves", "sheet", "overlay"))
    case.commands = [
        [
            "plot",
            str(here / "run"),
            "-o",
            str(here / "plots"),
            "--kind",
            kind,
            "--format",
            "svg",
            "--episode",
            "a",
        ]
    ]
    case.rest = ""
    return case

"""The commands that the docs show, and stand-ins for what a reader has: recordings, models, servers."""

from __future__ import annotations

import re
import shlex
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.paths import ROOT, TINY_SIM

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND_BLOCKS = ("", "sh", "bash", "console")

_LABELS, _SUBGOALS = str(TINY_SIM / "labels.parquet"), str(TINY_SIM / "subgoals.yaml")
PLACES = {
    **dict.fromkeys(
        ("SOURCE", "DATASET", "DATA", "path/to/dataset", "WORK/sim", "tests/data/tiny_sim"), str(TINY_SIM)
    ),
    **dict.fromkeys(
        ("DATASET/labels.parquet", "WORK/sim/labels.parquet", "labels.parquet", "stages.parquet"), _LABELS
    ),
    "src/stepscore/cli/demo_data": str(ROOT / "src/stepscore/cli/demo_data"),
    "src/stepscore/cli/demo_data/subgoals.yaml": str(ROOT / "src/stepscore/cli/demo_data/subgoals.yaml"),
    "tests/data/tiny_sim/labels.parquet": _LABELS,
    "DATASET/subgoals.yaml": _SUBGOALS,
    "FILE": _SUBGOALS,
    "RUN": "runs/x",
    "DIR": "out",
    "URL": "http://localhost:9",
    "docs/images/weights.png": "weights.png",
    "episode_000012": "hasty/red_00",
}
"""Words of the docs that stand for a path."""

ANSWERS = {
    "topreward": "-1.5",
    "stepeval": "yes",
    "gvl": "50%",
    "similarity": "0.5",
    "hop": "<score>+10%</score>",
    "grm": "<score>+10%</score>",
}
"""What the model of a judge answers; it stands in for the docs' models, which need a GPU, a server or a key."""


class Shown(NamedTuple):
    """A command of the docs: its page, line and words."""

    page: str
    line: int
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return shlex.join(self.words)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def shown_lines(page: Path) -> Iterator[tuple[int, str]]:
    """Every line of the page's blocks of commands, without its comment; a line that goes on is one with the next."""
    text = page.read_text(encoding="utf-8")
    for block in (found for found in BLOCK.finditer(text) if found[1] in COMMAND_BLOCKS):
        first = text[: block.start()].count("\n") + 2
        for number, line in enumerate(re.sub(r"\\\n", "\\\\\0", block[2]).splitlines(), first):
            yield number, re.split(r"\s#\s", line.replace("\\\0", " ").strip().removeprefix("$ "))[0].strip()


def shown_commands() -> list[Shown]:
    """Every ``stepscore`` command of the docs, without what it prints to."""
    found = []
    for page in PAGES:
        for number, line in shown_lines(page):
            if line.startswith("stepscore "):
                words = shlex.split(line.partition(" > ")[0])
                found.append(Shown(page.relative_to(ROOT).as_posix(), number, tuple(words[1:])))
    return found


def plain(words: tuple[str, ...]) -> list[str]:
    """The words without the brackets of a synopsis; of ``[RUN ...]`` nothing is left."""
    if not any("[" in word for word in words):
        return list(words)
    return re.sub(r"\[[A-Z]+ \.\.\.\]", "", " ".join(words)).replace("[", "").replace("]", "").split()


PUBLISHED = ("progresslm", "roboreward", "sole-r1", "vlac")
"""Judges whose prompts are fetched once, from where they were published."""

ELSEWHERE = {
    "demo": "tests/cli/test_demo.py",
    "view": "tests/server",
    "sim": "tests/sim/test_simulate.py",
    "train vlm": "tests/training/vlm",
    "train sarm": "tests/training/sarm",
    "annotate": "tests/procedures/test_annotate.py",
    "judge --judge sarm": "tests/judges/sarm/test_sarm.py",
    "judge --judge robometer": "tests/models/robometer",
    "judge --judge grm": "tests/judges/published/test_grm.py",
    **{f"judge --judge {name}": "tests/judges/published" for name in PUBLISHED},
    "judge --config": "tests/cli/test_config.py",
    "judge engine=ray": "tests/runs/engines/test_ray_engine.py",
    **{f"{name} --metric": "tests/cli/test_local_code.py" for name in ("metrics", "compare", "report")},
    "merge here": "tests/runs/shards",
    "judge calibration=map.json": "tests/hostile/kinds/added_files.py",
    "judge --goal": "tests/cli/test_commands.py",
    "pairs --goal": "tests/audit/test_compare_pairs.py",
    "pairs --columns": "tests/audit/test_pair_file.py",
    "inspect user/name": "tests/episodes/lerobot",
    "serve": "tests/server/reward_api",
    "chat-template": "tests/cli/test_chat_template.py",
    "bench OUT": "tests/audit/board",
    "progress-labels --scheme": "tests/procedures",
}
"""Commands whose inputs take a simulator, a training, a server or the Hub: parsed here, run by the tests named."""


def run_elsewhere(words: list[str]) -> str | None:
    """Return the tests that run such a command."""
    for start, tests in ELSEWHERE.items():
        first, *rest = start.split()
        if words[0] == first and all(word in words[1:] for word in rest):
            return tests
    return None


def with_stand_ins(words: list[str]) -> list[str]:
    """Return a command that runs here: paths of the workspace, a model that answers by script, two episodes."""
    words = [PLACES.get(word, word) for word in words]
    judge = words[words.index("--judge") + 1] if "--judge" in words else words[0]
    answer = ANSWERS.get(judge, "x")
    if "answer=statement" in words:
        answer = "-1.5"
    kept, skip = list[str](), False
    for before, word in zip(["", *words], words, strict=False):
        if skip or word in ("-M", "--base-url"):  # options of the model that is not there
            skip = not skip
            continue
        given = f"mock/{answer}" if before == "--model" else word
        kept.append(re.sub(r"@(hf|vllm)/\S+", "@mock/-1.5", given).replace("$t", "default"))
    if kept[0] == "bench":
        kept = [
            "mock/-1.5" if before == "--models" else word
            for before, word in zip(["", *kept], kept, strict=False)
        ]
        kept += ["--limit", "2", "-E", "cache=false"]
    if kept[:2] == ["pairs", "make"]:
        kept += ["--labels", _LABELS] if "--labels" not in kept else []
        kept += ["--per-span", "8"]
    if kept[:2] == ["pairs", "score"]:
        kept[kept.index("-o") + 1] = f"scored-{zlib.crc32(' '.join(kept).encode()):08x}"
    if "--validation" in kept:  # of the run that was audited; another protocol is refused
        kept[1] = "AUDIT/judge"
    if kept[0] == "plan":
        kept[kept.index("-o") + 1] = "planned.yaml"
        kept += ["--force"]
    if "path=curves.parquet" in kept and kept[1] == str(TINY_SIM):
        kept[1], kept[kept.index("--labels") + 1] = "rollouts", "labels.csv"
    if "--views" in kept:
        kept[1], kept[kept.index("--views") + 1] = str(TINY_SIM), "corner,gripper"
    if "--policy-from" in kept:
        kept[1] = "videos"
    if kept[1:2] and kept[1].rstrip("/") in ("rollouts", "videos"):
        ours = {"--labels": "labels.csv", "--subgoals": "subgoals.yaml"}
        kept = [ours.get(before, word) for before, word in zip(["", *kept], kept, strict=False)]
    if kept[0] == "judge":
        kept += ["--limit", "2"] if "--limit" not in kept else []
        kept += ["-E", "price-in=1", "-E", "price-out=1"] if "--max-cost" in kept else []
        kept += ["-E", "cache=false"]
    return kept

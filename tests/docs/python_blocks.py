"""The Python blocks that the docs show, and stand-ins for what a reader has: recordings, runs, checkpoints."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import stepscore
from stepscore.testing import write_toy_rollouts
from tests.docs.shown_commands import PAGES
from tests.paths import ROOT, TINY_SIM

FENCE = re.compile(r"^( *)```(\w+)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
PYTHON, DOCTEST = "python", "pycon"

ELSEWHERE = {
    ("README.md", PYTHON): "tests/test_docs.py",
    ("docs/results/runs.md", PYTHON): "tests/test_docs.py",
    ("docs/reference/extending.md", PYTHON): "tests/test_docs.py",
    ("docs/guides/reward-server.md", PYTHON): "tests/server/reward_api/test_page.py",
    ("docs/data/perturbations.md", PYTHON): "tests/episodes/perturbations/test_length_matching.py",
    ("docs/methods/calibration.md", DOCTEST): "tests/metrics/test_calibration.py",
    ("docs/methods/intervals.md", DOCTEST): "tests/metrics/test_intervals_page.py",
    ("docs/methods/metrics.md", DOCTEST): "tests/metrics/test_metrics_page.py",
}
"""Pages whose blocks of a kind are run, and checked further, by the tests named."""


class Block(NamedTuple):
    """A block of the docs: its page, the line of its first statement, its language and its text."""

    page: str
    line: int
    language: str
    text: str

    def run(self, names: dict[str, Any]) -> None:
        """Execute it among these names; a traceback shows the line of the page."""
        code = "\n" * (self.line - 1) + self.text
        exec(compile(code, str(ROOT / self.page), "exec"), names)


def blocks_of(page: str, text: str) -> list[Block]:
    """Return every block of a page that names its language, in order; blocks in lists are indented."""
    return [
        Block(page, text[: found.start()].count("\n") + 2, found[2], textwrap.dedent(found[3]))
        for found in FENCE.finditer(text)
    ]


def shown_blocks() -> list[Block]:
    """Return the blocks of all pages."""
    texts = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
    return [block for page, text in texts.items() for block in blocks_of(page, text)]


def _rollouts(folder: Path) -> None:
    write_toy_rollouts(folder, scenes=1)


def _dataset(folder: Path) -> None:
    folder.symlink_to(TINY_SIM)


def _stages(path: Path) -> None:
    shutil.copy(TINY_SIM / "labels.parquet", path)


def _robometer(folder: Path) -> None:
    from tests.models.robometer import tiny_robometer

    base = tiny_robometer.save_tokenizer(folder.with_name("base"), tiny_robometer.base_tokenizer())
    tiny_robometer.save(folder, base_model=str(base))


def _vlm(folder: Path) -> None:
    from tests.models import tiny

    made = tiny.tokenizer()
    tiny.save(folder, tiny.qwen3vl(made), made)


def _toy_run(folder: Path) -> None:
    toys = write_toy_rollouts(folder.parent.with_name("toys") / folder.name, scenes=1)
    stepscore.score(stepscore.open_episodes(toys), stepscore.get_judge("recorded"), out=folder)


def _judged(folder: Path) -> None:
    episodes = stepscore.open_episodes(TINY_SIM, labels=TINY_SIM / "labels.parquet")
    stepscore.score(episodes, stepscore.get_judge("random-monotone"), out=folder)


STAND_INS: dict[str, Callable[[Path], None]] = {
    "rollouts": _rollouts,
    "dataset": _dataset,
    "stages.parquet": _stages,
    "runs/judged": _judged,
    "hf/Robometer-4B": _robometer,
    "hf/Qwen/Qwen3-VL-2B-Instruct": _vlm,
}
"""What makes the things that blocks name; a model string is a checkpoint in the folder. Other runs are of toys."""


def make_stand_ins(code: str, folder: Path) -> None:
    """Make in a folder what the code names."""
    runs = dict.fromkeys(re.findall(r'open_run\("([^"]+)"\)', code), _toy_run)
    for name, make in {**runs, **STAND_INS}.items():
        if f'"{name}"' in code:
            path = folder / name.removeprefix("hf/")
            path.parent.mkdir(parents=True, exist_ok=True)
            make(path)


def _training() -> dict[str, Any]:
    """A dataset as torch and LeRobot see one, and a loss of each sample."""
    import torch

    class Frames(torch.utils.data.Dataset[dict[str, int]]):
        hf_dataset: ClassVar = {"index": list(range(40))}

        def __len__(self) -> int:
            return len(self.hf_dataset["index"])

        def __getitem__(self, i: int) -> dict[str, int]:
            return {"index": self.hf_dataset["index"][i]}

    return {"dataset": Frames(), "losses": lambda batch: torch.ones(len(batch["index"]))}


GIVEN: dict[str, Callable[[], dict[str, Any]]] = {"docs/results/weights.md": _training}
"""The names that the prose of a page says the reader has."""

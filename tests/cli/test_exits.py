"""Third-party code that calls ``sys.exit()``, or is cancelled of itself, is a row with that error."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stepscore.cli.main import run
from stepscore.metrics import CurveMetric, MetricColumn, metric_registry
from stepscore.runs import open_run

CODE = """
import asyncio, sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
import numpy as np
from stepscore.episodes import Episode, Listing
from stepscore.judges import SingleModelJudge
from stepscore.models import Answer, Capabilities, FrameRef, Generate, Prompt, Turn
from stepscore.types import Curve, Judgement
from tests.fakes import FakeView

HOW = {how!r}


def leave(where, name=""):
    if HOW.get(name) == where:
        if {code!r} == "cancel":
            raise asyncio.CancelledError
        sys.exit({code!r})


@dataclass
class Model:
    batch: int = 1
    name = "mine/model"
    capabilities = Capabilities()

    def describe(self):
        return {{"name": self.name}}

    def is_batchable(self, request):
        return True

    async def answer(self, request):
        return (await self.answer_batch([request]))[0]

    async def answer_batch(self, requests):
        for name in filter(None, HOW):
            if any(f"about {{name}}" in str(request.prompt) for request in requests):
                leave("model", name)
        return [Answer("yes") for request in requests]


@dataclass
class Mine(SingleModelJudge):
    batch: int = 1
    model: object = field(init=False, default=None)
    name = "mine"
    version = 1

    def __post_init__(self):
        leave("make")
        self.model = Model(self.batch)

    def options(self):
        return {{}}

    async def judge(self, episode, ask):
        leave("judge", episode.id)
        await asyncio.gather(self.inner(episode.id), asyncio.sleep(0))
        await asyncio.to_thread(leave, "thread", episode.id)
        if HOW.get(episode.id) == "interrupt":
            raise KeyboardInterrupt
        await ask(Generate(Prompt((Turn("user", (FrameRef("top", 1), f"about {{episode.id}}")),))))
        return Judgement(Curve(np.arange(2.0), np.array([0.0, 1.0])))

    async def inner(self, name):
        await asyncio.sleep(0)
        leave("task", name)


@dataclass(frozen=True)
class View(FakeView):
    id: str = ""

    def digest(self):
        leave("digest", self.id)
        return self.id.encode()

    def location(self):
        leave("location", self.id)
        return super().location()

    def read(self, indices, size=None):
        leave("read", self.id)
        return super().read(indices, size)


class Lazy(Sequence):
    def ids(self):
        return ["a", "b", "c"]

    def __len__(self):
        return 3

    def __getitem__(self, key):
        leave("episode", self.ids()[key])
        return Episode(id=self.ids()[key], instruction="open", views={{"top": View(id=self.ids()[key])}})


class Reader:
    def matches(self, path):
        return False

    def read(self, path, options):
        leave("source")
        return Listing(Lazy())


leave("import")
"""


def judge(folder: Path, how: str | dict[str, str], *more: str, code: object = 0) -> int:
    file = folder / "mine.py"
    file.write_text(CODE.format(how={"b": how, "": how} if isinstance(how, str) else how, code=code))
    source = folder / "source"
    source.mkdir(exist_ok=True)
    named = ["--judge", f"{file}:Mine", "--reader", f"{file}:Reader", "-E", "cache=false"]
    return run(["judge", str(source), *named, "-o", str(folder / "run"), *more])


def errors(folder: Path) -> dict[str, str | None]:
    table = open_run(folder / "run").judgements()
    return dict(zip(table["episode_id"].to_pylist(), table["error"].to_pylist(), strict=True))


LINE = CODE.replace("{{", "{").splitlines().index("        sys.exit({code!r})") + 1
IN_JUDGING = ["judge", "task", "thread", "model", "read", "digest", "location", "episode"]


@pytest.mark.parametrize("how", IN_JUDGING)
def test_what_exits_about_one_episode_is_its_row_and_the_others_are_judged(tmp_path: Path, how: str) -> None:
    assert judge(tmp_path, how) == 1
    found = errors(tmp_path)
    assert f"mine.py, line {LINE} called sys.exit(0)." in str(found.pop("b"))
    assert found == {"a": None, "c": None}


@pytest.mark.parametrize("how", [one for one in IN_JUDGING if one != "episode"])
def test_what_is_cancelled_of_itself_is_a_row_too(tmp_path: Path, how: str) -> None:
    assert judge(tmp_path, how, code="cancel") == 1
    found = errors(tmp_path)
    assert f"mine.py, line {LINE - 1} raised CancelledError" in str(found.pop("b"))
    assert found == {"a": None, "c": None}


def test_a_reader_that_is_cancelled_does_not_end_the_run_in_silence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert judge(tmp_path, "episode", code="cancel") == 2
    assert f"Error: CancelledError (mine.py, line {LINE - 1})" in capfd.readouterr().err


@pytest.mark.parametrize(("code", "shown"), [(3, "3"), (None, ""), ("done", "'done'")])
def test_no_exit_code_passes(tmp_path: Path, code: object, shown: str) -> None:
    assert judge(tmp_path, "judge", code=code) == 1
    assert f"called sys.exit({shown})" in str(errors(tmp_path)["b"])


def test_an_exit_in_a_pass_is_the_error_of_those_in_it(tmp_path: Path) -> None:
    assert judge(tmp_path, "model", "-J", "batch=2") == 1
    found = errors(tmp_path)
    assert found["a"] == found["b"]
    assert "called sys.exit(0)" in str(found["a"])
    assert found["c"] is None


@pytest.mark.parametrize(
    ("code", "shown"),
    [(0, f"line {LINE} called sys.exit(0)"), ("cancel", f"line {LINE - 1} raised CancelledError")],
)
def test_an_exit_in_a_worker_process_is_a_row(tmp_path: Path, code: object, shown: str) -> None:
    how = {"a": "read", "b": "task", "c": "model"}
    assert judge(tmp_path, how, "-E", "workers=2", "-E", "engine=processes", code=code) == 1
    assert [shown in str(error) for error in errors(tmp_path).values()] == [True] * 3


@pytest.mark.parametrize("how", ["import", "make", "source"])
def test_what_exits_before_anything_is_judged_is_one_line(
    tmp_path: Path, how: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert judge(tmp_path, how) == 2
    said = capfd.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert f"mine.py, line {LINE} called sys.exit(0)." in said[0]
    assert not (tmp_path / "run").exists()


def test_an_interrupt_in_a_judge_still_interrupts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stepscore.cli.exit_codes._let_the_next_one_kill", lambda: None)
    assert judge(tmp_path, "interrupt") == 130
    assert "b" not in errors(tmp_path)


def test_a_metric_that_exits_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert judge(tmp_path, "nothing") == 0
    capfd.readouterr()
    column = MetricColumn("mine", "higher", "mean", "leaves")
    monkeypatch.setattr(metric_registry, "_targets", dict(metric_registry._targets))
    metric_registry.replace("mine", CurveMetric((column,), lambda times, progress: sys.exit(0)))
    assert run(["metrics", str(tmp_path / "run")]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert [line.startswith("Error: test_exits.py, line ") for line in said.err.splitlines()][-1]
    assert "called sys.exit(0)" in said.err

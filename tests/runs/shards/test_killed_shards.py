"""Eight shards in random order, two of them killed and run again on another machine, are the undivided run.

The server counts what it is asked: nothing twice, though the second machine has another cache.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.judges import Ask
from stepscore.models import Answer, FrameRef, Generate, Prompt, Turn
from stepscore.models.api.openai import OpenAIModel
from stepscore.models.calls import Budget
from stepscore.runs import CallOptions, Shard, merge
from stepscore.runs.tables import TABLES
from stepscore.types import Curve, Judgement
from tests.fakes import FakeView, episode
from tests.models.api.servers import serving

EPISODES, SHARDS = 160, 8
KILLED = {3: "e0050", 6: "e0110"}
"""Shards that are killed, and in which episode: after the answer to its second question of three."""


@dataclass(frozen=True)
class Questions:
    """A judge that asks one question about most episodes and three about some, and may kill its process."""

    model: OpenAIModel
    dies_in: str = ""
    name = "questions"
    version = 1

    @property
    def models(self) -> tuple[OpenAIModel, ...]:
        return (self.model,)

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        count = 3 if episode.id.endswith("0") else 1
        values = []
        for number in range(count):
            if episode.id == self.dies_in and number == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            parts = (FrameRef(episode.main_view, number), f"How far is {episode.id}?")
            answer = await ask(Generate(Prompt((Turn("user", parts),)), max_tokens=8))
            assert isinstance(answer, Answer)
            values.append(len(answer.text) % 7 / 7)
        return Judgement(Curve(np.arange(float(count)), np.array(values)))


def episodes() -> list[Episode]:
    return [episode(f"e{n:04d}", views={"top": FakeView(n=4, mark=f"video {n}")}) for n in range(EPISODES)]


def work(url: str, folder: str, index: int, dies_in: str, cache: str) -> None:
    """Judge one shard as a machine does: one episode at a time, with the cache of its own disk."""
    judge = Questions(OpenAIModel("tiny", base_url=url), dies_in)
    options = CallOptions(Budget(max_calls=EPISODES * 2), cache_path=Path(cache), connections=1)
    stepscore.score(episodes(), judge, folder, call_options=options, shard=Shard(index, SHARDS))


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / f"{name}.parquet").read_bytes() for name in TABLES if name != "usage"}


@pytest.mark.slow
def test_killed_shards_end_as_the_undivided_run_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.runs.shards.test_killed_shards", "pyarrow.parquet"])
    order = np.random.default_rng(20).permutation(np.arange(1, SHARDS + 1)).tolist()
    folder = tmp_path / "many"

    def judge_shard(index: int, dies_in: str, machine: str) -> int | None:
        arguments = (server.url, str(folder), index, dies_in, str(tmp_path / machine / "calls.sqlite"))
        process = context.Process(target=work, args=arguments)
        process.start()
        process.join()
        return process.exitcode

    with serving() as server:
        for index in order:
            died = judge_shard(index, KILLED.get(index, ""), "here")
            assert died == (-signal.SIGKILL if index in KILLED else 0)
        missing = merge([folder])
        assert missing.run is None
        assert len(missing.gaps) == 2
        kept = Shard(3, SHARDS).folder(folder) / "answers.jsonl"
        assert kept.read_bytes().count(b"\n") == 9 + 3 + 2, (
            "of ten finished episodes, and of the one it died in"
        )
        for index in KILLED:
            assert judge_shard(index, "", "there") == 0
        seen = server.stats()
    merged = merge([folder])
    assert merged.complete
    assert merged.run is not None
    asked = EPISODES + 2 * EPISODES // 10
    assert set(seen["asked"].values()) == {1}, "a question was asked twice"
    assert (seen["total"], len(seen["asked"])) == (asked, asked)
    assert merged.run.info["spent"]["total"] == {
        "attempts": asked,
        "answered": asked,
        "refused": 0,
        "lost": 0,
        "cost": None,
        "exact": True,
    }
    assert not list(folder.rglob("*.sqlite*")), "no SQLite in a folder that machines share"
    assert not list(folder.rglob("answers.jsonl"))
    with serving() as server:
        judge = Questions(OpenAIModel("tiny", base_url=server.url))
        options = CallOptions(cache_path=tmp_path / "one.sqlite")
        undivided = stepscore.score(episodes(), judge, tmp_path / "one", call_options=options)
    assert tables(folder) == tables(undivided.path)

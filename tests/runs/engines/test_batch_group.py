"""What a model answers in one pass depends on the episodes alone: not on timing, engine, workers or shards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.errors import ModelError
from stepscore.models import BatchModel, Request, Response
from stepscore.runs import CallOptions, Run, Shard, merge
from stepscore.runs.engines.batch_group import BatchElsewhere, BatchGroup, _InGroup, episode_groups
from tests.runs.engines.judges import Rounds, Together, _about, slow
from tests.runs.engines.test_processes import tables


def score(folder: Path, judge: Rounds, episodes: Sequence[Episode] | None = None, **options: object) -> Run:
    calls = CallOptions(cache=False)
    return stepscore.score(episodes or slow(), judge, folder, call_options=calls, **options)  # type: ignore[arg-type]


def answers(run: Run) -> dict[str, str]:
    rows = run.verdicts().to_pylist()
    return {row["episode_id"]: row["why"] for row in rows}


def test_passes_are_full_and_hold_neighbours_in_their_order(tmp_path: Path) -> None:
    found = answers(score(tmp_path / "run", Rounds()))
    assert found["e000"] == "e000:0.0 + e001:0.0 + e001:0.1"
    assert found["e002"].startswith("e002:0.0; "), "what is asked beyond a full pass is the next one"
    assert found["e006"] == "e006:0.0 + e007:0.0 + e008:0.0"
    # e006 has ended; e007 asks once more, e008 twice.
    assert found["e008"].split("; ")[1:] == ["e007:1.0 + e008:1.0", "e008:2.0"]


def test_every_engine_and_any_workers_and_shards_put_the_same_requests_together(tmp_path: Path) -> None:
    one = score(tmp_path / "one", Rounds())
    wanted = tables(one)
    for workers in (1, 2, 3):
        assert (
            tables(score(tmp_path / f"local-{workers}", Rounds(), workers=workers, engine="local")) == wanted
        )
    for workers in (1, 2):
        run = score(tmp_path / f"processes-{workers}", Rounds(), workers=workers, engine="processes")
        assert tables(run) == wanted
    backwards = score(tmp_path / "backwards", Rounds(), slow()[::-1])
    assert tables(backwards) == wanted
    for index in (2, 1):
        score(tmp_path / "wide", Rounds(), shard=Shard(index, 2))
    merge([tmp_path / "wide"])
    assert tables(stepscore.open_run(tmp_path / "wide")) == wanted
    assert answers(one)["e003"] != answers(score(tmp_path / "alone", Rounds(Together(batch=1))))["e003"]


def test_one_that_fails_does_not_fail_the_others_of_its_pass(tmp_path: Path) -> None:
    run = score(tmp_path / "run", Rounds())
    errors = {row["episode_id"]: row["error"] for row in run.judgements().to_pylist()}
    assert errors.pop("e005") == "Not this one."
    assert set(errors.values()) == {None}


def test_a_request_that_is_also_asked_by_another_of_the_group_does_not_stop_it(tmp_path: Path) -> None:
    # Two recordings that are the same: the second waits for the answer to the first, and never joins a pass.
    same = [replace(one, id=f"e{i:03d}") for i, one in enumerate([slow(1)[0]] * 3)]
    run = score(tmp_path / "run", Same(), same)
    assert set(answers(run).values()) == {"e000:same"}


@dataclass
class Same(Rounds):
    """It asks the same of every episode."""

    async def judge(self, episode: Episode, ask: object) -> stepscore.types.Judgement:
        answer = await ask(_about(replace(episode, id="e000"), "same"))  # type: ignore[operator]
        return stepscore.types.Judgement(verdicts=(stepscore.types.Verdict("x", "yes", why=answer.text),))


def test_groups_are_cut_from_the_sorted_ids_and_stay_lazy_without_batches() -> None:
    judge = Rounds()
    names = [[name for name, _ in group] for group in episode_groups(slow(5)[::-1], judge)]
    assert names == [["e000", "e001", "e002"], ["e003", "e004"]]
    endless = (one for _ in iter(int, 1) for one in slow(1))
    assert [name for name, _ in next(episode_groups(endless, Rounds(Together(batch=1))))] == ["e000"]


@dataclass
class Recorded:
    """Decodes nothing, and notes what is answered together."""

    passes: list[list[Request]] = field(default_factory=list)

    async def decode(self, request: Request) -> Request:
        return request

    async def answer(self, decoded: Request, model: object) -> Response:
        raise AssertionError("answered alone")

    async def answer_batch(
        self, asked: Sequence[tuple[BatchElsewhere, Request]], model: BatchModel
    ) -> Sequence[Response | Exception]:
        self.passes.append([decoded for _, decoded in asked])
        await asyncio.sleep(3600)
        return []


def test_closing_a_group_cancels_what_waits_and_what_is_answered() -> None:
    async def closed() -> list[str]:
        group, elsewhere, model = BatchGroup(["a", "b"]), Recorded(), Together()
        request = _about(slow(1)[0], "0")

        async def ask(name: str) -> Response:
            with group.asking(name) as asked:
                inside = _InGroup(group, elsewhere, asked)
                return await inside.answer(await inside.decode(request), model)

        first = asyncio.create_task(ask("a"))
        await asyncio.sleep(0)
        assert not elsewhere.passes, "b may still ask"
        second = asyncio.create_task(ask("b"))
        await asyncio.sleep(0.01)
        assert [len(one) for one in elsewhere.passes] == [2]
        group.close()
        ended = await asyncio.gather(first, second, return_exceptions=True)
        waiting = BatchGroup(["a", "b"])
        with waiting.asking("a") as asked:
            inside = _InGroup(waiting, elsewhere, asked)
            task = asyncio.create_task(inside.answer(await inside.decode(request), model))
            await asyncio.sleep(0)
            waiting.close()
            last = await asyncio.gather(task, return_exceptions=True)
        return [type(one).__name__ for one in (*ended, *last)]

    assert asyncio.run(closed()) == ["CancelledError"] * 3


def test_an_error_of_a_whole_pass_is_that_of_each_request(tmp_path: Path) -> None:
    run = score(tmp_path / "run", Rounds(Broken()), slow(3))
    assert {row["error"] for row in run.judgements().to_pylist()} == {"The network failed."}


@dataclass
class Broken(Together):
    async def answer_batch(self, requests: Sequence[Request]) -> Sequence[Response | Exception]:
        raise ModelError("The network failed.")


def test_videos_of_a_run_are_scored_in_full_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    from stepscore.models.qwen3vl import prefix_scoring
    from tests.models import tiny

    sizes: list[int] = []
    score_shared = prefix_scoring.score_shared

    def counted(network: Any, videos: Any, limit: int) -> Any:
        sizes.append(len(videos))
        return score_shared(network, videos, limit)

    made = tiny.tokenizer()
    folder = tiny.save(tmp_path / "tiny", tiny.qwen3vl(made), made)
    found = []
    for batch, workers in ((3, None), (3, 4), (1, None)):
        model = stepscore.get_model(f"hf/{folder}", batch=batch, self_check=False)
        judge = stepscore.get_judge("topreward", model=model, prefixes=3)
        monkeypatch.setattr(prefix_scoring, "score_shared", counted)
        out = tmp_path / f"{batch}-{workers}"
        calls = CallOptions(cache=False)
        engine = "auto" if workers is None else "local"
        found.append(stepscore.score(slow(7), judge, out, workers=workers, engine=engine, call_options=calls))
    assert [sorted(sizes[:3]), sorted(sizes[3:6]), sizes[6:]] == [[1, 3, 3], [1, 3, 3], [1] * 7]
    assert tables(found[0]) == tables(found[1])
    curves = [run.curves().column("logp_true").to_numpy() for run in (found[0], found[2])]
    assert np.max(np.abs(curves[0] - curves[1])) < 1e-4


@pytest.mark.parametrize("workers", [1, 2])
def test_a_resumed_run_judges_whole_groups(tmp_path: Path, workers: int) -> None:
    whole = score(tmp_path / "whole", Rounds())
    score(tmp_path / "run", Rounds(), slow()[:3])
    resumed = score(tmp_path / "run", Rounds(), workers=workers)
    assert resumed.info["last"]["reused"] == 3
    assert tables(resumed) == tables(whole)

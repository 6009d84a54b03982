"""What a model answers in one pass depends on the episodes alone: not on timing, engine, workers or shards."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.errors import BudgetError, ModelError
from stepscore.models import Answer, Request, Response
from stepscore.models.calls import BatchGroup, Budget, Call
from stepscore.models.calls.layers.batching import Batching
from stepscore.models.calls.layers.model_layer import ModelLayer
from stepscore.runs import CallOptions, Run, Shard, merge
from stepscore.runs.schedule import episode_groups
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


@dataclass(eq=False)
class Passes:
    """Notes what is sent together."""

    sent: list[list[str]] = field(default_factory=list)

    def send(self, waiting: Sequence[str]) -> None:
        self.sent.append(list(waiting))


def test_one_that_waits_for_a_call_of_another_holds_up_no_pass() -> None:
    group, passes = BatchGroup(["a", "b", "c"]), Passes()
    with group.asking("b") as b, group.asking("a") as a, group.asking("c") as c:
        b.wait(passes, "b")
        a.wait(passes, "a")
        assert not passes.sent, "c may still ask"
        c.pause()
        assert passes.sent == [["a", "b"]], "in the order of the episodes"
        c.resume()
        b.wait(passes, "b again")
        a.wait(passes, "a again")
        assert len(passes.sent) == 1, "c goes on, and may join"
        c.wait(passes, "c")
    assert passes.sent[1:] == [["a again", "b again", "c"]]


def test_calls_without_a_group_are_cut_by_arrival() -> None:
    async def asked() -> list[str]:
        layer = Batching(ModelLayer(Together(), 60.0), Together())
        calls = [_decoded(f"{number}") for number in range(5)]
        answers = await asyncio.gather(*map(layer.answer, calls))
        return [answer.text for answer in answers if isinstance(answer, Answer)]

    assert asyncio.run(asked()) == ["e:0 + e:1 + e:2"] * 3 + ["e:3 + e:4"] * 2


def _decoded(text: str) -> Call:
    request = _about(replace(slow(1)[0], id="e"), text)
    return Call("e", text, request, decoded=request)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_budget_that_ends_within_a_group_holds_up_none_of_its_calls(tmp_path: Path, workers: int) -> None:
    calls = CallOptions(Budget(max_calls=2), cache=False)
    with pytest.raises(BudgetError, match="The budget of 2 calls is spent"):
        stepscore.score(slow(3), Rounds(), tmp_path / "run", call_options=calls, workers=workers)
    spent = stepscore.open_run(tmp_path / "run").info["spent"]["total"]
    assert (spent["attempts"], spent["answered"]) == (2, 2), "what was sent is answered and kept"


def test_an_error_of_a_whole_pass_is_that_of_each_request(tmp_path: Path) -> None:
    run = score(tmp_path / "run", Rounds(Broken()), slow(3))
    assert {row["error"] for row in run.judgements().to_pylist()} == {"The network failed."}


@dataclass
class Broken(Together):
    async def answer_batch(self, requests: Sequence[Request]) -> Sequence[Response | Exception]:
        raise ModelError("The network failed.")


def test_videos_of_a_run_are_scored_in_full_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    importlib.import_module(
        "stepscore.models.qwen3vl.full_forward"
    )  # binds the function that is replaced below
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

"""A run that asks a server: nothing is asked or spent twice, and faults on the way cost retries alone."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stamina

import stepscore
from stepscore.episodes import Episode
from stepscore.errors import BudgetError, OptionError
from stepscore.judges import Ask, SingleModelJudge
from stepscore.judges.cascade import Cascade
from stepscore.models import (
    Answer,
    FrameRef,
    Generate,
    GoalImage,
    Model,
    PrefixScores,
    Prompt,
    Score,
    ScorePrefixes,
    Scores,
    Turn,
    VideoFrames,
    VideoPrefix,
)
from stepscore.models.api.openai import OpenAIModel
from stepscore.models.api.vllm import VllmModel
from stepscore.models.calls import Budget
from stepscore.models.calls.attempts import Attempts
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions
from stepscore.runs.tables import TABLES
from stepscore.types import Curve, Judgement, Verdict
from tests.fakes import FakeView, episode
from tests.models.api.servers import serving

EVERY_FAULT = ["429", None, "500", "hang", "429-date", "cut", "garbled", "no-logprobs", "slow", "no-choices"]
KEY = "sk-very-secret-0123456789"
CLAIM = "It shows the task. Is it True or not?"


@pytest.fixture(autouse=True)
def no_waits() -> Iterator[None]:
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


@dataclass(frozen=True)
class Asker(SingleModelJudge):
    """A judge that asks ``frames`` scores and one text of every episode, some of them at a time."""

    model: Model
    frames: int = 3
    name = "asker"
    version = 1

    def options(self) -> Mapping[str, object]:
        return {"frames": self.frames}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        asked = [
            ask(Score(user(f"{episode.id}: is it done?", FrameRef("top", 5 * n)), ("yes", "no")))
            for n in range(self.frames)
        ]
        scores = await asyncio.gather(*asked)
        text = await ask(Generate(user(f"{episode.id}: describe", FrameRef("top", 1))))
        assert isinstance(text, Answer)
        margins = [s.logprobs[0] - s.logprobs[1] for s in scores if isinstance(s, Scores)]
        curve = Curve(np.arange(self.frames) / 2.0, 1 / (1 + np.exp(-np.array(margins))))
        return Judgement(curve, (Verdict("done", "unknown", why=text.text),))


def user(*parts: Any) -> Prompt:
    return Prompt((Turn("user", parts),))


def many(n: int) -> list[Episode]:
    return [episode(f"e{i:03d}", views={"top": FakeView(mark=f"file {i}")}) for i in range(n)]


def spend(path: Path, **options: Any) -> CallOptions:
    return CallOptions(cache_path=path / "cache.sqlite", **options)


def attempts(run: Path) -> int:
    return Attempts(run / "attempts.sqlite").spent()[0]


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / f"{name}.parquet").read_bytes() for name in TABLES if name != "usage"}


def test_a_run_through_a_misbehaving_server_ends_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving() as honest:
        calm = Asker(OpenAIModel("tiny", base_url=honest.url))
        expected = stepscore.score(
            many(5), calm, out=tmp_path / "calm", call_options=CallOptions(cache=False)
        )
    with serving(faults=EVERY_FAULT, key=KEY) as faulty:
        judge = Asker(OpenAIModel("tiny", base_url=faulty.url, timeout_s=1.0))
        run = stepscore.score(many(5), judge, out=tmp_path / "run", workers=3, call_options=spend(tmp_path))
        seen = faulty.stats()
    assert run.judgements().column("error").null_count == 5
    assert tables(run.path) == tables(expected.path), "faults on the way change no number"
    assert len(seen["asked"]) == 20
    # Two of ten are dealt no fault, and a text that comes without logprobs is a text all the same.
    assert set(seen["asked"].values()) == {1, 2}
    assert sum(times == 2 for times in seen["asked"].values()) >= 16
    assert seen["total"] == attempts(run.path) == sum(run.usage().column("attempts").to_pylist())
    for file in [*tmp_path.rglob("*")]:
        if file.is_file():
            assert KEY.encode() not in file.read_bytes(), f"{file.name} holds the key"


def test_what_stays_refused_is_a_row_with_the_servers_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(faults=["always-400", "always-500"], key=KEY) as server:
        judge = Asker(OpenAIModel("tiny", base_url=server.url), frames=1)
        run = stepscore.score(
            many(2), judge, out=tmp_path / "run", call_options=spend(tmp_path, retries=3), workers=1
        )
        counts = sorted(server.stats()["asked"].values())
    first, second = run.judgements().column("error").to_pylist()
    assert "answered 400: No images for Bearer [key]" in first
    assert "answered 500" in second
    assert counts == [1, 3]
    assert not any(KEY.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_a_budget_of_n_is_n_requests_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    with serving(faults=["429", None, "500"], delay_s=0.01) as server:
        judge = Asker(OpenAIModel("tiny", base_url=server.url))
        for limit in (5, 5, 13):
            budget = Budget(max_calls=limit)
            with pytest.raises(BudgetError, match=f"{limit} calls"):
                stepscore.score(
                    many(4),
                    judge,
                    out=tmp_path / "run",
                    workers=4,
                    call_options=spend(tmp_path, budget=budget),
                )
            assert server.stats()["total"] == attempts(tmp_path / "run") == limit
            assert stepscore.open_run(tmp_path / "run").info["status"] == "stopped by the budget"
        call_options = spend(tmp_path, budget=Budget(max_calls=100))
        run = stepscore.score(many(4), judge, out=tmp_path / "run", workers=4, call_options=call_options)
        seen = server.stats()
    assert run.info["status"] == "finished"
    assert run.judgements().column("error").null_count == 4
    assert len(seen["asked"]) == 16
    assert set(seen["answered"].values()) == {1}, "nothing that was answered was asked again"
    assert seen["total"] == sum(seen["asked"].values()) == attempts(run.path)


def test_a_limit_in_money_holds(tmp_path: Path) -> None:
    with serving() as server:
        judge = Asker(OpenAIModel("tiny", base_url=server.url), frames=1)
        # A question may read about 16,500 tokens and write 512: at most 2.2 cents. It really costs 0.01.
        call_options = spend(tmp_path, budget=Budget(max_cost=0.024), price_in=1.0, price_out=10.0)
        with pytest.raises(BudgetError, match="Continue with a larger --max-cost"):
            stepscore.score(many(100), judge, out=tmp_path / "run", workers=2, call_options=call_options)
        asked = server.stats()["total"]
    paid = Attempts(tmp_path / "run" / "attempts.sqlite").spent()[1]
    assert paid <= 0.024
    assert asked > 8, "what was reserved is given back when the bill is lower"


def test_a_limit_in_money_without_a_price_is_refused_before_anything_starts(tmp_path: Path) -> None:
    model, call_options = MockModel("x"), spend(tmp_path, budget=Budget(max_cost=1.0))
    for judge in (Asker(model), Cascade("constant", Asker(model))):
        with pytest.raises(OptionError, match="needs a price for mock/x"):
            stepscore.score(many(3), judge, out=tmp_path / "run", call_options=call_options)
    assert not model.requests
    assert not (tmp_path / "run").exists()


def test_no_more_connections_are_open_than_allowed(tmp_path: Path) -> None:
    with serving(delay_s=0.02) as server:
        judge = Asker(OpenAIModel("tiny", base_url=server.url), frames=4)
        stepscore.score(
            many(6), judge, out=tmp_path / "run", workers=6, call_options=spend(tmp_path, connections=3)
        )
        assert server.stats()["at_once"] == 3


@dataclass(frozen=True)
class Repeating(Asker):
    """A judge that asks one and the same question several times at once."""

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        asked = [ask(Generate(user("the same", FrameRef("top", 1)))) for _ in range(5)]
        texts = {answer.text for answer in await asyncio.gather(*asked) if isinstance(answer, Answer)}
        assert len(texts) == 1
        return Judgement(success_score=0.5)


def test_one_question_asked_many_times_at_once_is_sent_once(tmp_path: Path) -> None:
    with serving(delay_s=0.02) as server:
        judge = Repeating(OpenAIModel("tiny", base_url=server.url))
        same = [replace(one, views={"top": FakeView()}) for one in many(3)]  # three ids of one video
        run = stepscore.score(same, judge, out=tmp_path / "run", workers=3, call_options=spend(tmp_path))
        assert server.stats()["total"] == 1
    assert sum(run.usage().column("cached").to_pylist()) == 14


def test_a_second_run_of_the_same_questions_asks_nothing(tmp_path: Path) -> None:
    with serving() as server:
        judge = Asker(OpenAIModel("tiny", base_url=server.url))
        first = stepscore.score(many(3), judge, out=tmp_path / "one", call_options=spend(tmp_path))
        second = stepscore.score(many(3), judge, out=tmp_path / "two", call_options=spend(tmp_path))
        assert server.stats()["total"] == 12
    assert tables(first.path) == tables(second.path)
    assert second.usage().column("attempts").to_pylist() == [0, 0, 0]


# --- killed and started again


def work(folder: str, url: str, episodes: int) -> None:
    stamina.set_testing(True, attempts=100, cap=True)
    judge = Asker(OpenAIModel("tiny", base_url=url))
    path = Path(folder)
    stepscore.score(
        many(episodes), judge, out=path / "run", workers=4, call_options=spend(path, connections=4)
    )


@pytest.mark.slow
def test_killed_and_restarted_it_asks_again_only_what_was_under_way(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.runs.test_served_run", "pyarrow.parquet"])
    kills = (3, 21, 40)
    with serving(delay_s=0.02) as server:
        for count in kills:
            process = context.Process(target=work, args=(str(tmp_path), server.url, 15))
            process.start()
            deadline = time.monotonic() + 60
            while process.is_alive() and server.stats()["total"] < count and time.monotonic() < deadline:
                time.sleep(0.002)
            assert process.is_alive(), "it ended before it was killed"
            assert process.pid is not None
            os.kill(process.pid, 9)
            process.join()
        work(str(tmp_path), server.url, 15)
        seen = server.stats()
        calm = Asker(OpenAIModel("tiny", base_url=server.url))
        expected = stepscore.score(
            many(15), calm, out=tmp_path / "calm", call_options=CallOptions(cache=False)
        )
    assert len(seen["asked"]) == 60
    again = sum(times - 1 for times in seen["asked"].values())
    assert again <= len(kills) * 4, "no more than the four under way at each kill"
    assert attempts(tmp_path / "run") >= seen["total"], "an attempt is written before it is sent"
    assert tables(tmp_path / "run") == tables(expected.path)


# --- prefixes


@dataclass(frozen=True)
class Prefixes(Asker):
    """A judge that scores prefixes of a video."""

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        video = VideoFrames("top", (0, 10, 20, 30, 40, 49), 64)
        texts = (f"{episode.id}: {CLAIM}", f"{episode.id}, again: {CLAIM}")
        prompts = tuple(
            Prompt((Turn("user", (VideoPrefix(), text)),), prefill=" The answer is:", template="open")
            for text in texts
        )
        response = await ask(ScorePrefixes(video, (2, 4, 6), prompts, (" True", " False")))
        assert isinstance(response, PrefixScores)
        assert response.logprobs.shape == (2, 3, 2)
        progress = 1 / (1 + np.exp(response.logprobs[0, :, 1] - response.logprobs[0, :, 0]))
        return Judgement(Curve(np.array([1.0, 3.0, 4.9]), progress))


def test_every_prefix_is_a_call_of_its_own_on_a_server(tmp_path: Path) -> None:
    with serving(faults=[None, "500"]) as server:
        judge = Prefixes(VllmModel("tiny", base_url=server.url))
        with pytest.raises(BudgetError):
            stepscore.score(
                many(2), judge, out=tmp_path / "run", call_options=spend(tmp_path, budget=Budget(max_calls=7))
            )
        assert server.stats()["total"] == 7
        run = stepscore.score(many(2), judge, out=tmp_path / "run", workers=2, call_options=spend(tmp_path))
        seen = server.stats()
    assert len(seen["asked"]) == 12
    assert set(seen["answered"].values()) == {1}
    assert run.curves().column("progress").null_count == 0
    assert run.usage().column("calls").to_pylist() == [6, 6]
    shown = [json.loads(frames)[0]["indices"] for frames in run.calls().column("frames").to_pylist()]
    assert shown == 2 * [[0, 10]] + 2 * [[0, 10, 20, 30]] + 2 * [[0, 10, 20, 30, 40, 49]] + shown[:6]


def test_a_model_that_shares_work_is_asked_for_all_prefixes_at_once(tmp_path: Path) -> None:
    model = MockModel(script=lambda request: -1.0)
    stepscore.score(many(1), Prefixes(model), out=tmp_path / "run", call_options=spend(tmp_path))
    assert [type(request).__name__ for request in model.requests] == ["ScorePrefixes"]


# --- what is one question


@dataclass(frozen=True)
class TwoModels(Asker):
    """A judge that puts one question to two models."""

    other: Model | None = None

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        request = Generate(user("which are you?"))
        for model in (self.model, self.other):
            await ask(request, model)
        return Judgement(success_score=0.5)


def test_models_of_one_name_and_other_options_are_two_models(tmp_path: Path) -> None:
    with serving() as server:
        sharp = OpenAIModel("tiny", base_url=server.url)
        same = OpenAIModel("tiny", base_url=server.url)
        coarse = OpenAIModel("tiny", base_url=server.url, image_format="jpeg")
        judge = TwoModels(sharp, 3, coarse)
        run = stepscore.score(many(1), judge, out=tmp_path / "a", call_options=spend(tmp_path))
        stepscore.score(many(1), TwoModels(sharp, 3, same), out=tmp_path / "b", call_options=spend(tmp_path))
        assert server.stats()["total"] == 2
    assert len(set(run.calls().column("key").to_pylist())) == 2


@dataclass(frozen=True)
class Goals(Asker):
    """A judge that looks at the goal image."""

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        await ask(Generate(user("is this reached?", GoalImage("top"))))
        return Judgement(success_score=0.5)


def test_a_changed_goal_image_is_another_question(tmp_path: Path) -> None:
    from PIL import Image

    model = MockModel("yes")
    for number, grey in enumerate((10, 10, 200)):
        Image.new("L", (8, 8), grey).save(tmp_path / "goal.png")
        shown = [episode("e", goals={"top": tmp_path / "goal.png"})]
        stepscore.score(shown, Goals(model), out=tmp_path / f"run {number}", call_options=spend(tmp_path))
    assert len(model.requests) == 2


class Modelless(Goals):
    """A judge that asks and states no model."""

    models = ()


def test_a_judge_without_its_model_says_so(tmp_path: Path) -> None:
    run = stepscore.score(many(1), Modelless(MockModel("x")), out=tmp_path / "run")
    assert "needs a model. Set --model" in run.judgements().column("error")[0].as_py()


def test_wrong_spending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="connections must be an integer from 1 to 4096, got 0"):
        stepscore.score(
            many(1), Goals(MockModel("x")), tmp_path / "run", call_options=CallOptions(connections=0)
        )


def test_usage_counts_every_call(tmp_path: Path) -> None:
    with serving() as server:
        judge = Asker(OpenAIModel("tiny", base_url=server.url))
        call_options = spend(tmp_path, price_in=1.0, price_out=10.0)
        run = stepscore.score(many(2), judge, out=tmp_path / "run", call_options=call_options)
    first, _ = run.usage().to_pylist()
    assert (first["calls"], first["attempts"], first["images"], first["cached"]) == (4, 4, 4, 0)
    # A text of seven tokens, and three scores, each of which the server writes one token for.
    assert (first["tokens_in"], first["tokens_out"]) == (400, 10)
    assert first["cost"] == pytest.approx((400 * 1.0 + 10 * 10.0) / 1e6)
    assert len(first["latencies_s"]) == 4

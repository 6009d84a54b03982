from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import stepscore
from stepscore.episodes import Episode, fit_size
from stepscore.episodes.view import ViewInfo
from stepscore.errors import CapabilityError, EpisodeError
from stepscore.judges import Ask, SingleModelJudge, get_judge
from stepscore.judges.cascade import Cascade
from stepscore.models import Answer, FrameRef, Generate, Prompt, Score, Scores, Turn, VideoFrames
from stepscore.models.calls import CallCache
from stepscore.models.mock import MockModel
from stepscore.models.qwen3vl.inputs import fitted_size
from stepscore.runs import CallOptions
from stepscore.runs.dry_run import dry_run, estimate_tokens
from stepscore.types import Judgement
from tests.fakes import FakeView, episode


@dataclass(frozen=True)
class Asks(SingleModelJudge):
    """A judge that asks two questions, with three images."""

    model: MockModel
    name = "asks"
    version = 1

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        if episode.id == "bad":
            raise EpisodeError("It is out of focus.")
        if episode.id == "blind":
            raise CapabilityError("It sees nothing.")
        first = Prompt(
            (Turn("user", ("What is this?", FrameRef("top", 0, 56), VideoFrames("top", (0, 9), 56))),)
        )
        answer = await ask(Generate(first, max_tokens=50))
        assert isinstance(answer, Answer)
        await ask(Score(Prompt((Turn("user", ("Done?",)),)), ("yes", "no")))
        return Judgement(success_score=0.5)


def episodes() -> list[Episode]:
    return [episode(name, views={"top": FakeView()}) for name in ("a", "b", "bad")]


def test_it_counts_what_would_be_asked_and_sends_nothing(tmp_path: Path) -> None:
    model = MockModel("x")
    counted = dry_run(
        episodes(), Asks(model), CallOptions(price_in=1.0, price_out=2.0, cache_path=tmp_path / "c.sqlite")
    )
    assert model.requests == []
    assert (counted.episodes, counted.failed, counted.calls, counted.images) == (3, 1, 4, 6)
    assert counted.tokens_out == 2 * (50 + 1)
    # 56 x 42 pixels are two tokens of 32 x 32, by rounded sides; 13 and 5 bytes of text are three and one.
    assert counted.tokens_in == 2 * (3 * 2 + 3 + 1)
    assert counted.cost is not None
    assert counted.cost == pytest.approx((counted.tokens_in + 2 * counted.tokens_out) / 1e6)


def test_what_is_already_answered_costs_nothing(tmp_path: Path) -> None:
    call_options = CallOptions(price_in=1.0, price_out=2.0, cache_path=tmp_path / "c.sqlite")
    judge = Asks(MockModel("x", script=lambda r: 0.0 if isinstance(r, Score) else "fine"))
    stepscore.score(episodes(), judge, out=tmp_path / "run", call_options=call_options)
    counted = dry_run(episodes(), judge, call_options)
    assert (counted.calls, counted.cached, counted.cost) == (4, 4, 0.0)


@pytest.mark.parametrize("real", [7, 70])
def test_real_token_counts_correct_the_estimate_of_what_is_left(real: int, tmp_path: Path) -> None:
    call_options = CallOptions(price_in=1.0, price_out=2.0, cache_path=tmp_path / "c.sqlite")
    uncounted, answer = Scores((0.0, -1.0), (False, False)), Answer("fine", tokens_in=real)
    judge = Asks(MockModel("x", script=lambda r: uncounted if isinstance(r, Score) else answer))
    two = [episode(name, views={"top": FakeView(mark=name)}) for name in ("a", "b")]
    guessed = dry_run(two, judge, call_options)
    stepscore.score(two[:1], judge, out=tmp_path / "run", call_options=call_options)
    counted = dry_run(two, judge, call_options)
    # In both episodes a question with images is guessed at 9 tokens, and one of text, which is not counted, at 1.
    assert (guessed.counted, guessed.tokens_in) == (0, 2 * (9 + 1))
    assert (counted.counted, counted.tokens_in) == (1, real + 1 + real + round(real / 9))
    assert counted.cost == pytest.approx((real + round(real / 9) + 2 * 51) / 1e6)


def test_why_an_episode_cannot_be_judged_is_kept() -> None:
    counted = dry_run(episodes(), Asks(MockModel("x")), CallOptions(cache=False))
    assert counted.failures == {"bad": "It is out of focus."}


def test_what_would_stop_the_run_stops_the_dry_run() -> None:
    with pytest.raises(CapabilityError, match="sees nothing"):
        dry_run([episode("blind")], Asks(MockModel("x")), CallOptions(cache=False))


def test_every_call_is_counted_and_priced_by_the_model_it_is_put_to() -> None:
    cheap, dear = MockModel("openai/gpt-4o-mini"), MockModel("openai/gpt-4o")
    alone = [dry_run(episodes(), Asks(model), CallOptions(cache=False)) for model in (cheap, dear)]
    both = dry_run(episodes(), Cascade(Asks(cheap), Asks(dear), unsure_to=0.6), CallOptions(cache=False))
    assert both.calls == alone[0].calls + alone[1].calls
    assert alone[0].cost
    assert alone[1].cost
    assert both.cost == pytest.approx(alone[0].cost + alone[1].cost)
    mixed = dry_run(episodes(), Cascade(Asks(cheap), Asks(MockModel("x"))), CallOptions(cache=False))
    assert (mixed.cost, mixed.price) == (None, "not known for mock/x: set -E price-in and -E price-out")


def test_who_asks_no_model_costs_nothing() -> None:
    counted = dry_run(episodes(), get_judge("linear-time"), CallOptions(cache=False))
    assert (counted.calls, counted.cost, counted.price) == (0, 0.0, "no model is asked")


def test_an_unknown_price_is_said_to_be_unknown(tmp_path: Path) -> None:
    counted = dry_run(episodes(), Asks(MockModel("x")), CallOptions(cache=False))
    assert counted.cost is None
    assert "not known" in counted.price


@pytest.mark.parametrize(
    ("size", "max_side"), [(224, None), (512, None), (None, None), (512, 224), (224, 512)]
)
def test_an_image_is_as_many_tokens_as_qwen3_vl_reads_it_as(size: int | None, max_side: int | None) -> None:
    request = Generate(Prompt((Turn("user", (FrameRef("top", 0, size),)),)))
    for width, height in ((640, 480), (320, 180), (256, 256), (180, 320)):
        shown = episode("e", views={"top": WideView(width=width, height=height)})
        side = min(size or max(width, height), max_side or 10**6)
        sent = fit_size(width, height, side)
        rows, columns = fitted_size(sent[1], sent[0], 32, (1, 1 << 30))
        assert estimate_tokens(shown, request, max_side)[0] == rows * columns // 32**2


@dataclass(frozen=True)
class WideView(FakeView):
    """A view of any size."""

    width: int = 640
    height: int = 480

    def info(self) -> ViewInfo:
        return ViewInfo(self.n, self.fps, self.width, self.height, self.n / self.fps)


@dataclass(frozen=True)
class AsksAgain(SingleModelJudge):
    """A judge whose second question depends on the first answer, which it reads without a fallback."""

    model: MockModel
    name = "asks-again"
    version = 1

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        first = await ask(Generate(Prompt((Turn("user", ("How many?", FrameRef("top", 0, 56))),))))
        assert isinstance(first, Answer)
        many = {"none": 0, "two": 2}[first.text]
        for number in range(many):
            await ask(Generate(Prompt((Turn("user", (f"Where is {number}?",)),))))
        return Judgement(success_score=float(many > 0))


def test_after_a_full_run_every_call_is_in_the_cache_where_the_second_depends_on_the_first(
    tmp_path: Path,
) -> None:
    call_options = CallOptions(cache_path=tmp_path / "c.sqlite")
    judge = AsksAgain(MockModel("x", script=lambda r: "two"))
    two = [episode(name, views={"top": FakeView(mark=name)}) for name in ("a", "b")]
    run = stepscore.score(two, judge, out=tmp_path / "run", call_options=call_options)
    assert run.judgements().column("error").null_count == 2
    sent = len(judge.model.requests)
    counted = dry_run(two, judge, call_options)
    assert (counted.calls, counted.cached) == (sent, sent) == (6, 6)
    assert not counted.stopped
    stepscore.score(two, judge, out=tmp_path / "again", call_options=call_options)
    assert len(judge.model.requests) == sent, "the run that was counted sends none"


def test_a_judge_that_cannot_read_a_stand_in_answer_is_counted_as_far_as_it_goes(tmp_path: Path) -> None:
    call_options = CallOptions(cache_path=tmp_path / "c.sqlite")
    counted = dry_run(episodes(), AsksAgain(MockModel("x")), call_options)
    assert (counted.episodes, counted.failed, counted.calls, counted.cached) == (3, 0, 3, 0)
    assert counted.stopped == dict.fromkeys(("a", "b", "bad"), "KeyError: ''")


def test_an_episode_that_fails_before_it_asks_cannot_be_judged(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Fails(AsksAgain):
        async def judge(self, episode: Episode, ask: Ask) -> Judgement:
            raise ValueError("gone")

    counted = dry_run(episodes(), Fails(MockModel("x")), CallOptions(cache_path=tmp_path / "c.sqlite"))
    assert counted.failures == dict.fromkeys(("a", "b", "bad"), "ValueError: gone")
    assert not counted.stopped


def test_a_damaged_answer_in_the_cache_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_options = CallOptions(cache_path=tmp_path / "c.sqlite")
    judge = AsksAgain(MockModel("x", script=lambda r: "none"))
    one = [episode("a", views={"top": FakeView()})]
    stepscore.score(one, judge, out=tmp_path / "run", call_options=call_options)
    monkeypatch.setattr(CallCache, "get", lambda cache, key: {"kind": "nothing"})
    counted = dry_run(one, judge, call_options)
    assert (counted.calls, counted.cached) == (1, 0)

"""VLAC is asked as published: pairs and single images stretched to 448 pixels, its law, its expected digits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepscore.judges.common.digits import expected_number, expected_value
from stepscore.judges.published.vlac import Vlac
from stepscore.models import Answer, Generate, TiledFrames, TokenChoice
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions, dry_run
from tests.judges.asked import text_of
from tests.judges.published.asking import ask_judge, asked, shown, subject

MODEL = MockModel("VLAC-2B")


def test_a_question_has_the_two_images_in_order_and_the_last_is_asked_for_done() -> None:
    requests = asked(Vlac(MODEL, points=4, prompt="own"), subject())
    assert [shown(request) for request in requests] == [
        *([f"[top {t}]", f"[top {t + 1}]"] for t in range(4)),
        ["[top 4]"],
    ]
    everywhere = asked(Vlac(MODEL, points=4, prompt="own", done="all"), subject())
    assert [shown(request) for request in everywhere[4:]] == [[f"[top {t}]"] for t in range(1, 5)]
    assert len(asked(Vlac(MODEL, points=4, prompt="own", done="none"), subject())) == 4


def test_images_are_stretched_and_decoding_is_greedy() -> None:
    (request, *_) = asked(Vlac(MODEL, points=1, prompt="own"), subject())
    for part in request.refs():
        assert isinstance(part, TiledFrames)
        assert (part.cell, part.stretch, part.columns, part.gap) == (448, True, 1, 0)
    assert (request.temperature, request.top_logprobs) == (0.0, 0)
    assert [turn.role for turn in request.prompt.turns] == ["system", "user"]
    assert "open the drawer" in text_of(request)


def test_a_dry_run_counts_images_as_they_are_stretched() -> None:
    counted = dry_run([subject()], Vlac(MODEL, points=1, prompt="own", done="none"), CallOptions(cache=False))
    assert counted.images == 2
    assert 0 < counted.tokens_in - 2 * (448 // 32) ** 2 < 200, "the rest is text"


def said_of(numbers: list[str]) -> object:
    def said(request: Generate) -> str:
        frames = [int(name.strip("[]").split()[1]) for name in shown(request)]
        return "1" if len(frames) == 1 else numbers[frames[1] - 1]

    return said


def test_progress_is_a_share_of_what_remains_whatever_the_sign() -> None:
    critics = [30.0, -20.0, 50.0, 100.0]
    judged, _ = ask_judge(
        Vlac(MODEL, points=4, prompt="own"),
        subject(),
        said_of([f"{c:+g}" for c in critics]),  # type: ignore[arg-type]
    )
    value, expected = 0.0, []
    for critic in critics:
        value += (100 - value) * critic / 100
        expected.append(value / 100)
    assert judged.curve is not None
    assert judged.curve.progress == pytest.approx(expected)
    assert judged.success_score == 1.0


def test_an_unreadable_answer_is_unknown_and_bridged() -> None:
    def said(request: Generate) -> str:
        frames = tuple(int(name.strip("[]").split()[1]) for name in shown(request))
        return {(0, 1): "+50", (1, 2): "", (2, 3): "+10", (1, 3): "+50", (3,): "yes"}[frames]

    judged, requests = ask_judge(Vlac(MODEL, points=3, prompt="own"), subject(frames=4), said)
    assert judged.curve is not None
    assert judged.curve.progress == pytest.approx([0.5, math.nan, 0.75], nan_ok=True)
    assert math.isnan(judged.success_score)
    assert len(requests) == 5


def choice(token: str, *top: tuple[str, float]) -> TokenChoice:
    return TokenChoice(token, tuple((word, math.log(p)) for word, p in top))


class TestExpectedDigits:
    def test_the_mean_is_over_numbers_above_a_tenth_of_the_likeliest(self) -> None:
        top = choice("20", ("20", 0.5), ("30", 0.2), ("40", 0.049), ("the", 0.2), ("50", 0.051)).top
        # 40 is less than a tenth as likely as 20 and does not count; 50 does.
        assert expected_value(top) == pytest.approx((20 * 0.5 + 30 * 0.2 + 50 * 0.051) / (0.5 + 0.2 + 0.051))

    def test_only_the_ten_most_likely_count(self) -> None:
        top = [(str(10 + i), math.log(0.1 - i * 0.001)) for i in range(12)]
        shares = [0.1 - i * 0.001 for i in range(10)]
        mean = sum((10 + i) * p for i, p in enumerate(shares)) / sum(shares)
        assert expected_value(top[::-1]) == pytest.approx(mean)

    def test_a_number_of_one_token_has_the_sign_of_the_answer(self) -> None:
        minus = [choice("-", ("-", 0.9)), choice("20", ("20", 0.5), ("10", 0.5))]
        assert expected_number(minus, "-20") == pytest.approx(-15)

    def test_digits_stand_in_their_places(self) -> None:
        digits = [choice("1", ("1", 0.6), ("2", 0.4)), choice("5", ("5", 0.5), ("7", 0.5), ("15", 0.5))]
        assert expected_number(digits, "15") == pytest.approx(10 * 1.4 + 6)
        point = [*digits, choice(".", (".", 1.0)), choice("5", ("5", 1.0))]
        assert expected_number(point, "15.5") == pytest.approx(10 * 1.4 + 6 + 0.5)

    @pytest.mark.parametrize(
        ("choices", "text"),
        [
            ([], "5"),
            ([choice("5", ("5", 1.0))], "50"),
            ([choice("+5", ("+5", 1.0))], "+5"),
            ([choice("5")], "5"),
            ([choice("12", ("12", 1.0)), choice("5", ("5", 1.0))], "125"),
            ([choice("²", ("²", 1.0))], "²"),
        ],
    )
    def test_what_the_tokens_do_not_give_is_unknown(self, choices: list[TokenChoice], text: str) -> None:
        assert math.isnan(expected_number(choices, text))

    def test_a_thousand_answers_with_their_tokens(self) -> None:
        rng = np.random.default_rng(2)
        judge = Vlac(MODEL, points=1, prompt="own", digits="expected")
        for _ in range(1000):
            value, other = int(rng.integers(0, 100)), int(rng.integers(0, 100))
            sign, share = rng.choice(["", "+", "-"]), float(rng.uniform(0.5, 1))
            number = choice(str(value), (str(value), share), (str(other), 1 - share + 1e-12))
            tokens = (*((choice(sign, (sign, 1.0)),) if sign else ()), number)
            broken = rng.random() < 0.3
            answer = Answer(f"{sign}{value}{' ?' if broken else ''}", choices=tokens)
            got = judge._number("compare", answer)
            counted = [(value, share), (other, 1 - share)] if 1 - share > 0.1 * share else [(value, share)]
            mean = sum(v * p for v, p in counted) / sum(p for _, p in counted)
            expected = math.nan if broken else (-1 if sign == "-" else 1) * mean / 100
            assert got == pytest.approx(expected, nan_ok=True, abs=1e-9), answer

    def test_the_judge_asks_for_them_and_reads_them(self) -> None:
        def said(request: Generate) -> Answer:
            assert request.top_logprobs == 10
            if len(shown(request)) == 1:
                return Answer("1", choices=(choice("1", ("1", 0.8), ("0", 0.2)),))
            return Answer("+40", choices=(choice("+", ("+", 1.0)), choice("40", ("40", 0.5), ("20", 0.5))))

        judged, _ = ask_judge(Vlac(MODEL, points=1, prompt="own", digits="expected"), subject(), said)
        assert judged.curve is not None
        assert judged.curve.progress == pytest.approx([0.3])
        assert judged.success_score == pytest.approx(0.8)

    def test_a_model_that_returns_none_leaves_it_unknown(self) -> None:
        judged, _ = ask_judge(
            Vlac(MODEL, points=1, prompt="own", digits="expected"), subject(), lambda request: "+40"
        )
        assert judged.curve is not None
        assert np.isnan(judged.curve.progress).all()

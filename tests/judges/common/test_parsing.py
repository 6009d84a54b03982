"""A parser says what the answer states, or unknown."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.judges.common.parsing import (
    NO_ANSWER,
    SubgoalAnswer,
    parse_remaining_actions,
    parse_subgoal_answer,
    parse_subgoal_answers,
    parse_tagged_percent,
    strip_thinking,
)
from tests.judges.common.malformed import malformed

NAMES = ["grasp the cup", "lift it", "place it on the shelf"]
VERDICTS = [
    json.dumps(
        {
            "subgoals": [
                {"number": 1, "why": "fingers close in frame 3", "answer": "yes", "when": 1.25},
                {"number": 2, "name": "lift it", "answer": "no", "when": None},
                {"number": 3, "answer": "unknown"},
            ]
        }
    ),
    '```json\n[{"name": "lift it", "answer": "YES", "when": "2.5 s"}]\n```',
    "1. yes - it closes\n2. lift it: no\n3. unknown",
    '{"answer": true, "why": "it stands there", "when": 3}',
    '{"answer": "no"}',
    "Yes, the cup is on the shelf.",
    "Answer: **no**. It fell.",
]
PERCENTS = [
    "<score>+25%</score>",
    "<score>-40.5%</score>",
    "<score>0%</score>",
    "<score>100</score>",
    "<score>+250%</score>",
    "<progress>-5%</progress>",
    "Therefore, the estimated progress is <progress>84.13%</progress>.",
    "<progress>100.00%</progress>",
    "<progress>0.5</progress>",
]
ACTIONS = [
    "To complete the task, the following steps are required:\n1. Grasp the green block.\n2. Place it.\n"
    "Therefore, the estimated progress percentage is <progress>84.13%</progress>.",
    "Images show no block outside, no further steps required. \n<progress>100.00%</progress>.",
    "1) lift it\n2) place it on the shelf\n<progress>10%</progress>",
    "No action required. The tower stands. <progress>100%</progress>",
]


class TestVerdictOfOneSubgoal:
    @pytest.mark.parametrize(
        ("text", "answer"),
        [
            ('{"answer": "yes"}', "yes"),
            ('{"Answer": "No."}', "no"),
            ('Here it is:\n```json\n{"answer": false}\n```', "no"),
            ('{"answer": "unclear"}', "unknown"),
            ("Yes.", "yes"),
            ("**No**", "no"),
            ("Final answer: yes", "yes"),
            ("no - the drawer is still shut", "no"),
            ("Yes, there is no obstacle left.", "yes"),
            ("True", "yes"),
            ("<think>It says yes. Yes.</think>No.", "no"),
        ],
    )
    def test_is_read_where_it_is_stated(self, text: str, answer: str) -> None:
        assert parse_subgoal_answer(text).answer == answer

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "No doubt it did.",
            "Yes and no.",
            "Yes, no, maybe.",
            "Yes/No",
            "Not sure.",
            "No-go.",
            "I would say it is probably done",
            '{"answer": "yes"} or rather {"answer": "no"}',
            '{"answer": "yes", "answer": "no"}',
            '{"answer": 1}',
            '{"answer": null}',
            '{"answer": ["yes"]}',
            '{"answer": "yes or no"}',
            '{"verdict": "yes"}',
            "<think>Yes.",
        ],
    )
    def test_is_unknown_where_it_is_not(self, text: str) -> None:
        assert parse_subgoal_answer(text).answer == "unknown"

    def test_time_and_reason_come_with_it(self) -> None:
        assert parse_subgoal_answer('{"answer": "yes", "when": "2.5 s", "why": "lid up"}') == SubgoalAnswer(
            "yes", 2.5, "lid up"
        )
        assert math.isnan(parse_subgoal_answer('{"answer": "yes", "when": "later"}').when_s)
        assert math.isnan(parse_subgoal_answer('{"answer": "yes", "when": NaN}').when_s)
        assert math.isnan(parse_subgoal_answer('{"answer": "yes", "when": true}').when_s)

    def test_a_reason_with_half_a_character_can_be_written_down(self) -> None:
        assert parse_subgoal_answer('{"answer": "yes", "why": "so \\ud83e"}').why == "so ?"


class TestVerdictsOfSeveralSubgoals:
    def test_go_by_number_or_name(self) -> None:
        text = (
            '[{"number": 2, "answer": "no"}, {"name": "Grasp the cup.", "answer": "yes"}, {"answer": "yes"}]'
        )
        assert [v.answer for v in parse_subgoal_answers(text, NAMES)] == ["yes", "no", "unknown"]

    def test_number_and_name_that_disagree_speak_of_none(self) -> None:
        text = '[{"number": 1, "name": "lift it", "answer": "yes"}]'
        assert parse_subgoal_answers(text, NAMES) == (NO_ANSWER,) * 3

    def test_a_number_that_is_no_subgoal_is_passed_over(self) -> None:
        text = (
            '[{"number": 0, "answer": "no"}, {"number": 4, "answer": "no"}, {"number": true, "answer": "no"}]'
        )
        assert parse_subgoal_answers(text, NAMES) == (NO_ANSWER,) * 3

    def test_complete_entries_of_an_answer_cut_short_count(self) -> None:
        text = '{"subgoals": [{"number": 1, "answer": "yes"}, {"number": 2, "answer": "n'
        assert [v.answer for v in parse_subgoal_answers(text, NAMES)] == ["yes", "unknown", "unknown"]

    def test_two_that_contradict_each_other_are_unknown(self) -> None:
        text = (
            '[{"number": 1, "answer": "yes"}, {"number": 1, "answer": "no"}, {"number": 2, "answer": "no"}]'
        )
        assert [v.answer for v in parse_subgoal_answers(text, NAMES)] == ["unknown", "no", "unknown"]

    def test_numbered_lines_are_read_where_there_is_no_json(self) -> None:
        text = "Here:\n1. Yes, closed.\n2. lift it: no\n3. The robot tries, yes"
        assert [v.answer for v in parse_subgoal_answers(text, NAMES)] == ["yes", "no", "unknown"]


class TestPercentInTags:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("<score>+25%</score>", 0.25),
            ("so: <SCORE> -40.5 % </SCORE> done", -0.405),
            ("<score>100</score>", 1.0),
            ("<score>0</score>", 0.0),
            ("<score>250%</score>", 2.5),
            ("<score>0.5%</score>", 0.005),
            ("<score>5%</score> as said <score>5%</score>", 0.05),
        ],
    )
    def test_is_read_as_written(self, text: str, value: float) -> None:
        assert parse_tagged_percent(text, "score") == pytest.approx(value, abs=1e-12)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "25%",
            "<score>+NN%</score>",
            "<score>-25.0.0.5.6.6.6",
            "<score>-25.0.0.5.6.6.6</score>",
            "<score>nan</score>",
            "<score>inf</score>",
            "<score>1e2</score>",
            "<score>0.5</score>",
            "<score>1</score>",
            "<score>２５%</score>",
            "<score>5%</score> or <score>6%</score>",
            "<progress>5%</progress>",
            "<score>5% or 6%</score>",
        ],
    )
    def test_is_unknown_otherwise(self, text: str) -> None:
        assert math.isnan(parse_tagged_percent(text, "score"))


class TestRemainingActions:
    def test_are_the_numbered_list(self) -> None:
        assert parse_remaining_actions(ACTIONS[0]) == ("Grasp the green block.", "Place it.")

    @pytest.mark.parametrize("text", [ACTIONS[1], ACTIONS[3], "<progress>100%</progress>", "1. None"])
    def test_are_none_where_it_says_so(self, text: str) -> None:
        assert parse_remaining_actions(text) == ()

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "<progress>84%</progress>",
            "2. lift it",
            "1. a\n2. b\n1. c",
            "1. lift it\nno further steps required",
            "no idea which steps are required",
            "grasp, lift, place",
        ],
    )
    def test_are_unknown_otherwise(self, text: str) -> None:
        assert parse_remaining_actions(text) is None


YES = re.compile(r"(?<![a-z])(yes|true)(?![a-z])", re.I)
NO = re.compile(r"(?<![a-z])(no|false)(?![a-z])", re.I)


def numbers_in(text: str) -> set[float]:
    """Every number that can be read out of a text anywhere, the naive way."""
    found = re.findall(r"(?=([+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9])))", text)
    return {float(number) for number in found}


def check_nothing_invented(text: str) -> None:
    said = strip_thinking(text)
    for verdict in (parse_subgoal_answer(text), *parse_subgoal_answers(text, NAMES)):
        assert verdict.answer != "yes" or YES.search(said), text
        assert verdict.answer != "no" or NO.search(said), text
        assert math.isnan(verdict.when_s) or verdict.when_s in numbers_in(said), text
    for number, verdict in enumerate(parse_subgoal_answers(text, NAMES), start=1):
        named = NAMES[number - 1] in " ".join(said.lower().split())
        assert verdict == NO_ANSWER or named or float(number) in numbers_in(said), text
    for tag in ("score", "progress"):
        value = parse_tagged_percent(text, tag)
        if not math.isnan(value):
            inside = re.findall(rf"<{tag}>([^<]*)</{tag}>", said, re.I)
            assert any(abs(100 * value - n) < 1e-6 for each in inside for n in numbers_in(each)), text
    actions = parse_remaining_actions(text)
    if actions is not None:
        assert all(action in said for action in actions), text
        assert actions or re.search(r"no .*(step|action)|100|none|done|nothing", said, re.I | re.S), text


def test_20000_malformed_answers_make_no_parser_fail_or_invent() -> None:
    good = [*VERDICTS, *PERCENTS, *ACTIONS]
    seen = 0
    for text in malformed(good, 20_000, seed=1):
        check_nothing_invented(text)
        seen += 1
    assert seen == 20_000


def test_the_damage_leaves_some_answers_readable_and_breaks_others() -> None:
    texts = list(malformed([*VERDICTS, *PERCENTS, *ACTIONS], 2_000, seed=2))
    read = sum(parse_subgoal_answer(t).answer != "unknown" for t in texts)
    percents = sum(not math.isnan(parse_tagged_percent(t, "score")) for t in texts)
    assert 50 < read < 1_950
    assert 20 < percents < 1_980


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=300))
def test_any_text_at_all_is_taken(text: str) -> None:
    check_nothing_invented(text)


@settings(max_examples=500, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.sampled_from(["yes", "no", "lift it", "2"]),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["subgoals", "answer", "number", "when", "why", "name"]), inner)
        ),
        max_leaves=20,
    )
)
def test_any_json_at_all_is_taken(value: object) -> None:
    check_nothing_invented(json.dumps(value))


def test_a_deep_nest_is_no_crash() -> None:
    assert parse_subgoal_answer("[" * 20_000).answer == "unknown"
    assert parse_subgoal_answers('{"subgoals":' * 3_000, NAMES) == (NO_ANSWER,) * 3

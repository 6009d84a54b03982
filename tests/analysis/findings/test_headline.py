"""The opening sentences on planted runs: exactly what is said, and never more than the sample shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepscore.analysis import Opening, measure_episodes, opening_sentences
from stepscore.analysis.findings.phrases import SUCCEEDS, tier_sentences, tiers_of
from tests.analysis.findings.planted import Outcomes, planted


def opening(folder: Path, outcomes: Outcomes, **options: Any) -> Opening:
    return opening_sentences(measure_episodes(planted(folder / "run", outcomes, **options)))


def test_a_clear_winner_is_named(tmp_path: Path) -> None:
    found = opening(tmp_path, {"a": [1] * 12, "b": [0] * 12}, scenes=True)
    assert found.sentences == ("a succeeds more often than b.",)
    assert found.notes == ()
    assert (found.metric, found.tiers) == ("success_label", (("a",), ("b",)))


def test_a_tie_is_said_with_what_would_not_show(tmp_path: Path) -> None:
    found = opening(tmp_path, {"a": [1, 0] * 6, "b": [0, 1] * 6}, scenes=True)
    assert found.sentences == ("a and b cannot be told apart with 12 rollouts each.",)
    least = 100 * found.comparisons[0].comparison.smallest_detectable_difference
    assert found.notes == (f"A difference of success under about {least:.0f} points would mostly not show.",)


def test_too_few_rollouts_are_called_that_whatever_their_outcome(tmp_path: Path) -> None:
    found = opening(tmp_path, {"a": [1] * 3, "b": [0] * 3}, scenes=True)
    assert found.sentences == (
        "a and b cannot be told apart: 3 rollouts each are too few to show any difference, however large.",
    )


def test_without_labels_the_judge_is_said_to_decide(tmp_path: Path) -> None:
    found = opening(tmp_path, {"a": [1] * 12, "b": [0] * 12}, labelled=False, calibrated=True)
    assert found.sentences == ("By the judge, a succeeds more often than b.",)
    assert found.notes == ("There are no labels of success: success is the judge's verdict.",)


def test_without_calibration_that_is_said_too(tmp_path: Path) -> None:
    found = opening(tmp_path, {"a": [1] * 12, "b": [0] * 12}, labelled=False)
    assert found.sentences == ("By the judge, a succeeds more often than b.",)
    assert found.notes == ("There are no labels of success: success is the judge's verdict (uncalibrated).",)


def test_labels_of_one_policy_alone_decide_nothing(tmp_path: Path) -> None:
    def only_a(policy: str | None, i: int, record: dict[str, Any]) -> None:
        if policy == "b":
            record["episode"]["success"] = None

    found = opening(tmp_path, {"a": [1] * 12, "b": [0] * 12}, calibrated=True, change=only_a)
    assert found.metric == "success_judge"
    assert found.notes == ("Not every policy has labels of success: success is the judge's verdict.",)


def test_unknown_outcomes_are_credited_to_no_one(tmp_path: Path) -> None:
    # Had the two unknown ones failed, 12 of 14 against 0 of 14 would still be a difference.
    found = opening(tmp_path, {"a": [1] * 12 + [None] * 2, "b": [0] * 14})
    assert found.sentences == ("a succeeds more often than b.",)
    assert found.notes == ("The outcome is unknown in 2 of 14 of a: counted for no one.",)


def test_a_difference_that_unknown_outcomes_could_undo_is_no_headline(tmp_path: Path) -> None:
    found = opening(tmp_path, {"a": [1] * 6 + [None] * 8, "b": [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]})
    assert found.sentences == ("a and b cannot be told apart with 6 to 14 rollouts each.",)
    assert found.notes[0] == "The outcome is unknown in 8 of 14 of a: counted for no one."
    assert (
        found.notes[1] == "Among known outcomes a succeeds more often than b: unknown ones could undo that."
    )


def test_one_policy_has_its_rate_and_interval(tmp_path: Path) -> None:
    found = opening(tmp_path, {"a": [1] * 7 + [0]})
    assert found.sentences == ("a succeeds in 7 of 8 rollouts (95 % interval 53 to 98 %).",)


def test_one_episode_shows_nothing_about_how_often(tmp_path: Path) -> None:
    found = opening(tmp_path, {"a": [1]})
    assert found.sentences == (
        "One rollout, of a: it succeeded, by label.",
        "One rollout does not show how often the policy succeeds.",
    )


def test_rollouts_that_name_no_policy_are_one_policy(tmp_path: Path) -> None:
    found = opening(tmp_path, {None: [1] * 7 + [0]})
    assert found.sentences[0].startswith("The unnamed policy succeeds in 7 of 8 rollouts")


def test_where_nothing_succeeds_policies_are_compared_on_how_far_they_get(tmp_path: Path) -> None:
    def further(policy: str | None, i: int, record: dict[str, Any]) -> None:
        curve = record["judgement"]["curve"]
        curve["progress"] = [p * (4.0 if policy == "a" else 1.0) + 0.001 * i for p in curve["progress"]]

    found = opening(tmp_path, {"a": [0] * 12, "b": [0] * 12}, change=further)
    assert found.sentences == (
        "None of 24 rollouts succeeds, by label.",
        "By the judge, a gets further than b.",
    )
    assert found.notes == (
        "Compared on the highest progress (MP) that the judge gives, which is uncalibrated.",
    )
    assert found.metric == "MP"


def test_without_any_known_success_progress_stands_in_and_is_said_to(tmp_path: Path) -> None:
    # The score of gvl is a rank correlation: no verdict until it is calibrated.
    found = opening(tmp_path, {"a": [1] * 8, "b": [0] * 8}, labelled=False, judge="gvl")
    assert found.sentences == ("By the judge, a gets further than b.",)
    assert found.notes[0].startswith(
        "No success is known, by label or by judge. Compared on the highest progress (MP)"
    )


def test_nothing_known_is_said(tmp_path: Path) -> None:
    found = opening(tmp_path, {"a": [None] * 4, "b": [None] * 4}, labelled=False)
    assert found.sentences == ("Nothing is known of 8 rollouts: no success and no progress.",)


def test_verdicts_by_two_rules_are_not_compared(tmp_path: Path) -> None:
    def calibrate_a(policy: str | None, i: int, record: dict[str, Any]) -> None:
        if policy == "a":
            record["judgement"] |= {"success_probability": 0.9, "success_calibrated": True}

    found = opening(tmp_path, {"a": [1] * 12, "b": [0] * 12}, labelled=False, change=calibrate_a)
    assert found.sentences == (
        "By the judge, a and b cannot be compared: success by judge is calibrated in one group and not in the other.",
    )


def test_runs_of_two_protocols_share_their_labels(tmp_path: Path) -> None:
    outcomes: Outcomes = {"a": [1] * 12, "b": [0] * 12}
    runs = [planted(tmp_path / name, outcomes, judge=name) for name in ("one", "other")]
    found = opening_sentences(measure_episodes(runs))
    assert found.sentences == ("a succeeds more often than b.",)
    assert found.notes == ("The runs follow 2 protocols; the labels are the same under each.",)
    assert {estimate.n for estimate in (found.estimates or {}).values()} == {12}


def test_without_labels_protocols_are_kept_apart(tmp_path: Path) -> None:
    runs = [
        planted(tmp_path / "one", {"a": [1] * 12, "b": [0] * 12}, judge="one", labelled=False),
        planted(tmp_path / "other", {"a": [1, 0] * 6, "b": [0, 1] * 6}, judge="other", labelled=False),
    ]
    found = opening_sentences(measure_episodes(runs))
    assert found.sentences == (
        "By one: a succeeds more often than b.",
        "By other: a and b cannot be told apart with 12 rollouts each.",
    )
    assert found.notes[-1].startswith(
        "The runs follow 2 protocols (judges, models or options), which are never"
    )


def test_many_policies_stand_in_tiers(tmp_path: Path) -> None:
    found = opening(
        tmp_path,
        {"d": [0] * 20, "a": [1] * 20, "b": [1] * 19 + [0], "c": [0] * 19 + [1]},
        tasks=2,
    )
    assert found.sentences == (
        "a and b succeed more often than c and d.",
        "a and b cannot be told apart with 20 rollouts each.",
    )
    assert found.notes[0] == "c and d cannot be told apart with 20 rollouts each."


@pytest.mark.parametrize(
    ("order", "beats", "said"),
    [
        (
            "abc",
            ["ac"],
            ["a succeeds more often than c. No other difference is shown with 8 rollouts each."],
        ),
        ("abc", ["ab", "ac", "bc"], ["a succeeds more often than b, which succeeds more often than c."]),
        (
            "abcd",
            ["ac", "ad", "bd"],
            [
                "a succeeds more often than c and d, b succeeds more often than d. No other difference is shown with "
                "8 rollouts each."
            ],
        ),
        ("abcdefgh", [], ["a, b, c, d, e and 3 others cannot be told apart with 8 rollouts each."]),
        (
            "abcd",
            ["ab", "ac", "ad", "bc", "bd", "cd"],
            ["Best first: a; b; c; d. Each succeeds more often than all after it."],
        ),
        # Intransitive: a over b and b over c are shown, a over c is not.
        (
            "abc",
            ["ab", "bc"],
            [
                "a succeeds more often than b, b succeeds more often than c. No other difference is shown with 8 "
                "rollouts each."
            ],
        ),
        # Within the first tier of two, the sentence says of whom it speaks.
        (
            "abcd",
            ["ac", "ad", "bd", "cd"],
            [
                "a, b and c succeed more often than d.",
                "a succeeds more often than c. No other difference between a, b and c is shown with 8 rollouts each.",
            ],
        ),
    ],
)
def test_tiers_hold_for_every_pair_or_are_not_drawn(order: str, beats: list[str], said: list[str]) -> None:
    pairs = {(pair[0], pair[1]) for pair in beats}
    tiers = tiers_of(list(order), pairs)
    assert [policy for tier in tiers for policy in tier] == list(order)
    assert tier_sentences(tiers, pairs, dict.fromkeys(order, 8), SUCCEEDS) == said

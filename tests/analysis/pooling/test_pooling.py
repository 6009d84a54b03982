"""An episode counts once, judges are kept apart, and unequal coverage is said: on planted runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.analysis import judge_agreement, measure_baselines, measure_episodes, subgoal_tables
from stepscore.analysis.pooling import (
    add_protocol_keys,
    check_unmixed,
    coverage_note,
    nothing_known_note,
    repeated_episodes,
)
from stepscore.errors import OptionError
from stepscore.report.page.leaderboards import open_leaderboards
from tests.report.made_runs import write_run

Record = dict[str, Any]


def values(table: object, metric: str) -> list[tuple[float, int]]:
    return [(row.estimate.value, row.estimate.n) for row in table if row.metric == metric]  # type: ignore[attr-defined]


class TestRepeatedEpisodes:
    def test_two_runs_of_the_same_judgements_count_once_and_that_is_said(self, tmp_path: Path) -> None:
        one, again = (write_run(tmp_path / name, 12, steps=10) for name in ("a", "b"))
        both = measure_episodes([one, again])
        assert len(both) == 12
        assert both.notes == (
            "12 episodes are in more than one of these runs with the same judgement, and count once.",
        )
        assert values(stepscore.measure([one, again]), "MP") == values(stepscore.measure(one), "MP")

    def test_an_unpaired_comparison_does_not_gain_from_giving_a_run_twice(self, tmp_path: Path) -> None:
        one, again = (write_run(tmp_path / name, 40, steps=10, policies=2) for name in ("a", "b"))
        alone = stepscore.compare(one, metrics=["MP"])[0]
        doubled = stepscore.compare([one, again], metrics=["MP"])[0]
        assert not alone.comparison.paired
        assert doubled.comparison.p_value == alone.comparison.p_value
        assert doubled.comparison.n_a == alone.comparison.n_a

    def test_runs_that_share_some_episodes_are_joined(self, tmp_path: Path) -> None:
        small, large = write_run(tmp_path / "a", 5, steps=10), write_run(tmp_path / "b", 12, steps=10)
        both = measure_episodes([small, large])
        assert len(both) == 12
        assert both.notes[0].startswith("5 episodes are in more than one")

    def test_the_same_episode_under_another_id_is_the_same(self, tmp_path: Path) -> None:
        def rename(number: int, record: Record) -> None:
            record["id"] = f"moved/{record['id']}"

        runs = [write_run(tmp_path / "a", 6, steps=10), write_run(tmp_path / "b", 6, steps=10, change=rename)]
        assert len(measure_episodes(runs)) == 6

    def test_another_curve_under_the_same_protocol_is_refused(self, tmp_path: Path) -> None:
        def lower(number: int, record: Record) -> None:
            if number == 3:
                record["judgement"]["curve"]["progress"][-1] = 0.0

        runs = [write_run(tmp_path / "a", 6, steps=10), write_run(tmp_path / "b", 6, steps=10, change=lower)]
        with pytest.raises(OptionError, match="00003 has two judgements of recorded under one protocol"):
            measure_episodes(runs)
        with pytest.raises(OptionError, match="Pass only one of these runs"):
            stepscore.compare(runs)

    def test_the_last_digits_of_another_batch_size_are_not_another_curve(self, tmp_path: Path) -> None:
        def nudge(number: int, record: Record) -> None:
            curve = record["judgement"]["curve"]
            curve["progress"] = [min(value + 1e-5, 1.0) for value in curve["progress"]]

        runs = [write_run(tmp_path / "a", 6, steps=10), write_run(tmp_path / "b", 6, steps=10, change=nudge)]
        assert len(measure_episodes(runs)) == 6

    def test_a_judgement_stands_for_an_error_of_the_other_run(self, tmp_path: Path) -> None:
        def fail(number: int, record: Record) -> None:
            if number < 2:
                del record["judgement"]["curve"]
                record["judgement"]["error"] = "no answer"

        failed = write_run(tmp_path / "a", 6, steps=10, change=fail)
        whole = write_run(tmp_path / "b", 6, steps=10)
        for runs in ([failed, whole], [whole, failed]):
            found = measure_episodes(runs)
            assert len(found) == 6
            assert all(row["error"] is None for row in found.episodes)

    def test_another_protocol_is_another_judgement(self, tmp_path: Path) -> None:
        one = write_run(tmp_path / "a", 4, steps=10)
        other = write_run(tmp_path / "b", 4, steps=10, options={"points": 3})
        assert len(measure_episodes([one, other])) == 8

    def test_episodes_of_one_file_are_told_apart_by_their_id(self) -> None:
        row = {"fingerprint": "table", "n_frames": None, "instruction": "i", "protocol": "p", "judge": "j"}
        row |= {"success_score": None, "error": None, "source": "s"}
        rows = [{**row, "run": run, "episode_id": name} for run, name in (("a", "1"), ("a", "2"), ("b", "3"))]
        curve = (np.array([0.0]), np.array([0.5]))
        assert repeated_episodes(rows, [curve] * 3) == []
        assert repeated_episodes([*rows, {**rows[1], "run": "b"}], [curve] * 4) == [3]

    def test_subgoals_and_the_page_count_them_once_too(self, tmp_path: Path) -> None:
        def subgoal(number: int, record: Record) -> None:
            goal = {"name": "g", "criterion": None, "mode": "ever", "view": None, "reviewed": True}
            record["episode"]["subgoals"] = [{**goal, "label": number % 2 == 0}]

        runs = [write_run(tmp_path / name, 20, steps=10, policies=1, change=subgoal) for name in "ab"]
        both = measure_episodes(runs)
        tables = subgoal_tables(runs, (), left_out=both.repeated)
        assert sum(table.reached[0].n for table in tables) == 20
        counted = stepscore.measure(runs, ())
        assert sum(n for _, n in values(counted, "reached:g:label")) == 20
        (board,) = open_leaderboards(runs, "v1.0")
        assert (len(board.metrics), len(board.counted)) == (40, 20)
        assert sum(policy.failures for policy in board.diagnosis.policies) == int(
            np.sum(both.values["success_label"] == 0)
        )
        assert len(board.failure_modes.by_episode) == 40

    def test_baselines_are_over_the_same_episodes(self, tmp_path: Path) -> None:
        runs = [write_run(tmp_path / name, 4, steps=10, judge="other") for name in "ab"]
        assert len(measure_baselines(measure_episodes(runs), ["constant"])[0].metrics) == 4
        assert len(judge_agreement(runs).agreements) == 2


class TestJudgesAreNeverAveraged:
    @pytest.fixture
    def two(self, tmp_path: Path) -> list[stepscore.runs.Run]:
        def low(number: int, record: Record) -> None:
            curve = record["judgement"]["curve"]
            curve["progress"] = [value / 2 for value in curve["progress"]]

        return [
            write_run(tmp_path / "a", 20, steps=10, judge="kind", policies=2),
            write_run(tmp_path / "b", 20, steps=10, judge="strict", policies=2, change=low),
        ]

    def test_groups_are_by_judge_too(self, two: list[stepscore.runs.Run]) -> None:
        rows = [row for row in stepscore.measure(two) if row.metric == "MP"]
        assert [dict(row.group) for row in rows] == [
            {"policy": policy, "judge": judge}
            for policy in ("policy-0", "policy-1")
            for judge in ("kind", "strict")
        ]
        alone = [row.estimate.value for run in two for row in stepscore.measure(run) if row.metric == "MP"]
        assert sorted(row.estimate.value for row in rows) == sorted(alone)

    def test_comparing_policies_across_two_judges_is_refused_with_what_works(
        self, two: list[stepscore.runs.Run]
    ) -> None:
        with pytest.raises(
            OptionError,
            match=r"never averaged. Compare them with --by judge; or .* each with --by policy,judge",
        ):
            stepscore.compare(two, "policy")
        assert stepscore.compare(two, "judge", metrics=["MP"])[0].comparison.paired
        assert len(stepscore.compare(two, ["policy", "judge"], metrics=["MP"])) == 6

    def test_a_judge_for_each_policy_is_compared_and_that_is_said(self, tmp_path: Path) -> None:
        def only(policy: str) -> Callable[[int, Record], None]:
            def change(number: int, record: Record) -> None:
                record["episode"] |= {"policy": policy, "fingerprint": f"{policy}{number}"}

            return change

        runs = [
            write_run(tmp_path / name, 10, steps=10, judge=name, change=only(name)) for name in ("x", "y")
        ]
        found = stepscore.compare(runs, metrics=["MP"])
        assert "judged under different protocols" in found.notes[0]
        assert stepscore.compare(runs, "judge", metrics=["MP"]).notes == ()

    def test_what_is_added_is_the_first_that_tells_them_apart(self) -> None:
        def rows(*protocols: tuple[str, str | None]) -> list[Record]:
            return [
                {"judge": judge, "model": model, "protocol": str(k), "policy": "p"}
                for k, (judge, model) in enumerate(protocols)
            ]

        assert add_protocol_keys(rows(("a", "m")), ["policy"]) == ("policy",)
        assert add_protocol_keys(rows(("a", "m"), ("b", "m")), ["policy"]) == ("policy", "judge")
        assert add_protocol_keys(rows(("a", "m"), ("a", "n")), []) == ("model",)
        assert add_protocol_keys(rows(("a", "m"), ("a", "n"), ("b", "n")), []) == ("judge", "model")
        assert add_protocol_keys(rows(("a", "m"), ("a", "m")), ["judge"]) == ("judge", "protocol")
        assert check_unmixed(rows(("a", "m")), ["policy"]) == ""


class TestCoverage:
    def test_equal_or_full_coverage_needs_no_line(self) -> None:
        assert coverage_note({}) == ""
        assert coverage_note({"MP": {"a": 1.0, "b": 1.0}, "PPL": {"a": 0.5, "b": 0.5}}) == ""
        assert coverage_note({"MP": {"a": 0.5, "b": math.nan}}) == ""

    def test_the_widest_difference_is_named(self) -> None:
        assert "in PPL (40 % of a, 100 % of b)." in coverage_note({"PPL": {"a": 0.4, "b": 1.0}})
        found = coverage_note(
            {"MP": {"a": 1.0, "b": 0.9}, "PPL": {"a": 0.4, "b": 1.0}, "STR": {"a": 1.0, "b": 1.0}}
        )
        assert found.startswith(
            "Coverage differs between groups in MP, PPL (most in PPL: 40 % of a, 100 % of b)."
        )

    def test_a_group_whose_hard_episodes_are_unknown_looks_better_and_the_pairs_say_otherwise(
        self, tmp_path: Path
    ) -> None:
        """B looks 3 points better than A, although A leads by 11 on what both know."""

        def plant(number: int, record: Record) -> None:
            scene, policy = number // 2, "ab"[number % 2]
            top = 0.95 if scene < 20 else 0.67
            if policy == "b":
                top -= 0.11
            record["id"] = f"{policy}{scene:02d}"
            record["episode"] |= {"policy": policy, "task": "t", "pair": str(scene)}
            curve = record["judgement"]["curve"]
            curve["progress"] = np.linspace(0, top, len(curve["time_s"])).tolist()
            if policy == "b" and scene >= 20:
                curve["progress"][5] = None

        run = write_run(tmp_path / "run", 80, steps=10, change=plant)
        a, b = (row.estimate for row in stepscore.measure(run, metrics=["MP"]) if row.metric == "MP")
        assert (a.coverage, b.coverage) == (1.0, 0.5)
        assert b.value - a.value == pytest.approx(0.03)
        compared = stepscore.compare(run, metrics=["MP"])[0]
        assert compared.comparison.difference.value == pytest.approx(0.11)
        assert (compared.coverage_a, compared.coverage_b) == (1.0, 0.5)
        assert compared.comparison.n_a == 20
        assert "50 % of b" in coverage_note({"MP": {"a": a.coverage, "b": b.coverage}})


class TestNothingKnown:
    unknown = np.full(3, np.nan)

    def test_an_empty_table_is_explained(self) -> None:
        assert "these 3 episodes" in nothing_known_note({"MP": self.unknown, "coverage": np.zeros(3)}, 3)
        assert "this episode" in nothing_known_note({"MP": self.unknown[:1]}, 1)

    def test_one_known_value_is_enough(self) -> None:
        assert (
            nothing_known_note({"MP": self.unknown, "success_label": np.array([np.nan, 0.0, np.nan])}, 3)
            == ""
        )

    def test_labels_alone_are_not_the_judges_answers(self) -> None:
        values = {"MP": self.unknown, "success_label": np.ones(3), "coverage": np.zeros(3)}
        assert "unknown for these 3 episodes (coverage 0 %)" in nothing_known_note(values, 3)
        assert nothing_known_note({**values, "coverage": self.unknown}, 3) == ""  # a run of verdicts
        assert nothing_known_note({**values, "MP": np.ones(3)}, 3) == ""

    def test_no_episodes_are_not_unknown_ones(self) -> None:
        assert nothing_known_note({}, 0) == ""

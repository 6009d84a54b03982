"""Numbers of a run, each against the obvious way of computing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import stepscore
from stepscore.analysis import (
    compare_groups,
    failure_modes_by_policy,
    grouped_estimates,
    measure_episodes,
    subgoal_tables,
)
from stepscore.analysis.tables.failure_tables import failure_mode_tables
from stepscore.episodes import Episode, Subgoal
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.errors import OptionError, UnknownNameError
from stepscore.judges import Ask
from stepscore.metrics import compute_opd, voc
from stepscore.metrics.stats import wilson_interval
from stepscore.runs import Run
from stepscore.types import Curve, Judgement, Verdict
from tests.fakes import episode

TIMES = np.arange(1.0, 11.0)
RISING = np.linspace(0.1, 1.0, 10)
DROPPED = np.r_[np.linspace(0.1, 0.7, 6), [0.1, 0.1, 0.1, 0.1]]
STUCK = np.r_[np.linspace(0.05, 0.3, 4), np.full(6, 0.3)]
GOALS = (Subgoal("grasp"), Subgoal("lift"), Subgoal("place"))


@dataclass(frozen=True)
class Scripted:
    """A judge that knows what to say of each episode."""

    curves: Mapping[str, np.ndarray]
    answers: Mapping[str, str] | None = None
    name = "scripted"
    models = ()
    version = 1

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        said = {"y": "yes", "n": "no", "?": "unknown"}
        letters = (self.answers or {}).get(episode.id, "")
        verdicts = tuple(Verdict(goal.name, said[x]) for goal, x in zip(GOALS, letters, strict=False))  # type: ignore[arg-type]
        return Judgement(Curve(TIMES, self.curves[episode.id]), verdicts)


def labelled(name: str, success: bool | None, **fields: object) -> Episode:
    rows = () if success is None else (Label("success", "holds", value=float(success)),)
    return episode(name, labels=Labels(rows), **fields)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Policy a succeeds or drops, policy b gets stuck, and one unlabelled episode has an unknown point."""
    curves, episodes = {}, []
    for scene in range(12):
        for policy in "ab":
            name = f"{policy}{scene:02d}"
            success = policy == "a" and scene >= 4
            curves[name] = RISING if success else (DROPPED if policy == "a" else STUCK)
            task = "open" if scene % 2 else "close"
            episodes.append(labelled(name, success, policy=policy, task=task, pair=f"s{scene}"))
    curves["c"] = np.r_[RISING[:5], np.nan, RISING[6:]]
    episodes.append(labelled("c", None, policy=None, task="open"))
    return stepscore.score(episodes, Scripted(curves), out=tmp_path / "run")


def rows(run: Run, *by: str) -> dict[tuple[object, ...], dict[str, object]]:
    return {(*m.group.values(), m.metric): m.to_dict() for m in grouped_estimates(measure_episodes(run), by)}


def test_each_episodes_numbers_are_those_of_the_pure_functions(run: Run) -> None:
    measures = measure_episodes(run, revision="v1.5")
    i = next(i for i, row in enumerate(measures.episodes) if row["episode_id"] == "a00")
    for name, value in compute_opd(DROPPED, revision="v1.5", times=TIMES).items():
        np.testing.assert_equal(measures.values[name][i], value)
    assert measures.values["VOC"][i] == voc(DROPPED)


def test_unknown_stays_unknown_and_is_counted(run: Run) -> None:
    found = rows(run, "policy")
    assert np.isnan(found[None, "MP"]["value"])  # type: ignore[call-overload]
    assert found[None, "MP"]["coverage"] == 0.0
    assert found[None, "coverage"]["value"] == pytest.approx(0.9)
    assert np.isnan(found[None, "success_label"]["value"])  # type: ignore[call-overload]


def test_rates_have_wilson_intervals(run: Run) -> None:
    row = rows(run, "policy")["a", "success_label"]
    assert (row["value"], row["n"]) == (8 / 12, 12)
    assert (row["lo"], row["hi"]) == pytest.approx(wilson_interval(8, 12))


def test_conditioned_rows_name_the_source_of_success_and_count_their_own(run: Run) -> None:
    found = rows(run, "policy")
    assert found["a", "PPL|success:label"]["n"] == 8
    assert found["a", "PPL|failure:label"]["n"] == 4
    expected = compute_opd(DROPPED, times=TIMES)["PPL"]
    assert found["a", "PPL|failure:label"]["value"] == pytest.approx(expected)
    assert found["b", "PPL|success:label"]["n"] == 0
    assert found["a", "PPL|success:judge"]["n"] == 8


def test_groups_may_be_any_of_the_named_ones(run: Run) -> None:
    assert {key[:2] for key in rows(run, "task", "policy")} == {
        ("close", "a"),
        ("close", "b"),
        ("open", "a"),
        ("open", "b"),
        ("open", None),
    }
    assert rows(run)["success_label",]["n"] == 24
    assert rows(run, "judge", "model")["scripted", None, "success_label"]["n"] == 24
    with pytest.raises(UnknownNameError, match="policy"):
        rows(run, "polcy")


def test_stage_truth_is_measured_where_stages_are_annotated(tmp_path: Path) -> None:
    stages = (Label("stage", "reach", 0.0, 5.0), Label("stage", "grasp", 5.0, 10.0))
    one = episode("e", labels=Labels(stages))
    run = stepscore.score([one], Scripted({"e": TIMES / 10}), out=tmp_path / "run")
    values = measure_episodes(run).values
    assert values["stage_MAE"][0] == pytest.approx(0.0, abs=1e-12)
    assert values["stage_CCC"][0] == pytest.approx(1.0)


def test_a_channel_is_used_only_when_named_and_must_exist(run: Run) -> None:
    with pytest.raises(UnknownNameError, match="Valid: progress"):
        measure_episodes(run, channel="minmax")


class TestSubgoals:
    @pytest.fixture
    def run(self, tmp_path: Path) -> Run:
        answers = {"e0": "yyy", "e1": "yyn", "e2": "ynn", "e3": "nyn", "e4": "y?n", "e5": "nnn"}
        labels = (Label("subgoal", "grasp", value=1.0), Label("subgoal", "lift", value=0.0))
        episodes = [episode(name, policy="p", task="t", subgoals=GOALS) for name in answers]
        episodes[0] = episode("e0", policy="p", task="t", subgoals=GOALS, labels=Labels(labels))
        curves = dict.fromkeys(answers, RISING)
        return stepscore.score(episodes, Scripted(curves, answers), out=tmp_path / "run")

    def test_the_vector_the_conditionals_and_the_first_failure(self, run: Run) -> None:
        judged = next(t for t in subgoal_tables(run) if t.source == "judge")
        assert judged.names == ("grasp", "lift", "place")
        assert [(e.value, e.n) for e in judged.reached] == [(4 / 6, 6), (3 / 5, 5), (1 / 6, 6)]
        assert [(e.value, e.n) for e in judged.given_previous] == [(4 / 6, 6), (2 / 3, 3), (1 / 3, 3)]
        # e4's unknown comes before its failure, so where it failed first is unknown.
        assert [(e.value, e.n) for e in judged.fails_first] == [(2 / 5, 5), (1 / 5, 5), (1 / 5, 5)]
        assert judged.violations.value == pytest.approx(1 / 6)

    def test_labels_are_a_table_of_their_own(self, run: Run) -> None:
        labelled = next(t for t in subgoal_tables(run) if t.source == "label")
        assert [e.n for e in labelled.reached] == [1, 1, 0]
        assert [e.value for e in labelled.reached[:2]] == [1.0, 0.0]
        assert any(m.metric == "reached:grasp:label" for m in labelled.estimates())


class TestFailureModes:
    def test_each_policy_has_its_failure_modes(self, run: Run) -> None:
        found = {p.policy: p for p in failure_modes_by_policy(measure_episodes(run)).policies}
        assert found["a"].shares["object lost"].value == 1.0
        assert found["a"].failures == 4
        assert found["b"].shares["reached and stopped"].value == 1.0
        assert found["b"].stability == 1.0
        assert "stops" in found["b"].advice
        assert found[None].failures == 0

    def test_a_mode_that_only_another_policy_has_is_a_share_of_0_with_its_interval(self, run: Run) -> None:
        found = {p.policy: p for p in failure_modes_by_policy(measure_episodes(run)).policies}
        none = found["a"].shares["reached and stopped"]
        assert (none.value, none.n) == (0.0, 4)
        assert none.hi > 0.3
        assert list(found["a"].shares) == list(found["b"].shares) == ["object lost", "reached and stopped"]
        assert not found[None].shares

    def test_failures_of_two_policies_are_not_compared_in_a_table_of_dashes(self, run: Run) -> None:
        tables = failure_mode_tables(failure_modes_by_policy(measure_episodes(run)), {}, "robust")
        assert [table.title for table in tables] == ["How each policy fails (success by label)"]
        assert tables[0].notes[-1].endswith("three policies or more fail; here 2 do.")

    def test_success_by_label_comes_first_and_the_source_is_named(self, run: Run) -> None:
        modes = failure_modes_by_policy(measure_episodes(run))
        assert modes.source == "label"
        assert {row["metric"].split(":")[-1] for row in modes.to_dicts()} == {"label"}

    def test_an_unknown_curve_has_no_failure_mode(self, run: Run) -> None:
        measures = measure_episodes(run)
        names = dict(
            zip(
                [e["episode_id"] for e in measures.episodes],
                failure_modes_by_policy(measures).by_episode,
                strict=True,
            )
        )
        assert names["c"].name == "unknown"


class TestComparison:
    def test_policies_that_met_the_same_scenes_are_paired(self, run: Run) -> None:
        found = {
            (v.metric, v.a["policy"], v.b["policy"]): v
            for v in compare_groups(measure_episodes(run), ["policy"])
        }
        compared = found["MP", "a", "b"].comparison
        assert compared.paired
        assert compared.n_a == 12
        assert compared.difference.value == pytest.approx((8 * 1.0 + 4 * 0.7) / 12 - 0.3)
        # Two values alone: of 12 draws all are the larger one in (8 / 12) ** 12 of the resamples, without spread.
        assert compared.p_value == pytest.approx(2 * (8 / 12) ** 12, rel=0.4)

    def test_correction_is_over_all_that_is_compared(self, run: Run) -> None:
        from scipy.stats import false_discovery_control

        found = compare_groups(measure_episodes(run), ["policy"])
        p = np.array([v.comparison.p_value for v in found])
        known = ~np.isnan(p)
        q = np.array([v.q_value for v in found])
        np.testing.assert_allclose(q[known], false_discovery_control(p[known]))

    def test_two_judges_are_paired_on_the_episode(self, run: Run, tmp_path: Path) -> None:
        clock = stepscore.score(
            [labelled(f"{p}{s:02d}", None) for p in "ab" for s in range(12)],
            stepscore.get_judge("linear-time"),
            out=tmp_path / "clock",
        )
        found = compare_groups(measure_episodes([run, clock]), ["judge"], names=["MP"])
        assert [v.comparison.n_a for v in found] == [24]
        assert found[0].comparison.paired

    def test_one_group_is_an_error(self, run: Run) -> None:
        with pytest.raises(OptionError, match="needs two"):
            compare_groups(measure_episodes(run), ["judge"])

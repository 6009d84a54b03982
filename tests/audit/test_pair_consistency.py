"""Consistency of a judge that compares frames: what the kit's judges must show, stated before they were run."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from stepscore.audit.pairs import (
    Compare,
    Consistency,
    ConsistencyOptions,
    ConsistencyPlan,
    Pair,
    ask_consistency,
    consistency_table,
    make_progress_pairs,
    measure_consistency,
    measure_resolution,
    pair_changes,
    pair_clips,
    pair_videos,
    plan_consistency,
    resolution_table,
)
from stepscore.episodes import Episode, GoalFrame, Label, Labels
from stepscore.errors import BudgetError
from stepscore.judges import Hop, Judge
from stepscore.metrics import hop_between
from stepscore.models.calls import Budget
from stepscore.models.media import DecodedMedia
from stepscore.models.mock import MockModel
from stepscore.models.requests import Generate, Request
from stepscore.runs import CallOptions, score
from tests.audit.pair_judges import EXPECTED, scripted_comparers
from tests.audit.planted_judges import scripted_episodes
from tests.cli.command_walk import invoke
from tests.fakes import FakeView

UNCACHED = CallOptions(cache=False)


def consistency_of(
    judge: Judge, episodes: Sequence[Episode], folder: Path, options: ConsistencyOptions
) -> tuple[Consistency, ConsistencyPlan, tuple[Pair, ...], list[float]]:
    pairs = make_progress_pairs(episodes, per_span=20)
    by_id = {one.id: one for one in episodes}
    clips = pair_clips(pairs, pair_videos(pairs, by_id))
    changes = pair_changes(score(clips, Compare(judge), folder, call_options=UNCACHED), pairs)
    plan = plan_consistency(judge, pairs, clips, by_id, options)
    runs = ask_consistency(plan, folder / "consistency", call_options=UNCACHED)
    answers = dict(zip([one.id for one in pairs], changes, strict=True))
    return measure_consistency(judge.name, plan, runs, answers, pairs), plan, pairs, changes


@pytest.mark.parametrize("fault", EXPECTED)
def test_each_judge_of_the_kit_is_as_consistent_as_was_stated(fault: str, tmp_path: Path) -> None:
    episodes = scripted_episodes(scenes=4)
    judge = scripted_comparers(episodes)[fault]
    found, *_ = consistency_of(judge, episodes, tmp_path / "run", ConsistencyOptions(40, 3))
    stated = EXPECTED[fault]
    for metric, expected in (
        ("consistency:residual-median", stated.residual),
        ("consistency:order", stated.order),
        ("consistency:antisymmetry", stated.antisymmetry),
        ("consistency:identity", stated.identity),
        ("resolution:noise", stated.noise),
    ):
        value = found.value(metric).value
        if expected is None:
            assert math.isnan(value), metric
        else:
            assert expected[0] - 1e-9 <= value <= expected[1] + 1e-9, (metric, value)


N = 61
"""Frames of the episodes below; the pixels of frame i have the value i, its potential is i / 60."""


def rising_episodes(count: int = 12) -> list[Episode]:
    labels = tuple(Label("progress", "potential", i / 10, value=i / (N - 1)) for i in range(N))
    return [
        Episode(
            id=f"e{i:02d}",
            instruction="open the drawer",
            views={"top": FakeView(N, mark=f"e{i}")},
            goals={"top": GoalFrame("goal", FakeView(N, mark="goal"))},
            labels=Labels(labels),
        )
        for i in range(count)
    ]


def exact(request: Request, scale: float = 1.0) -> str:
    """State the exact hop between the two last images, times ``scale``."""
    assert isinstance(request, Generate)
    parts = [part for turn in request.prompt.turns for part in turn.parts]
    values = [int(part.clip.frames[0, 0, 0, 0]) / (N - 1) for part in parts if isinstance(part, DecodedMedia)]
    return f"<score>{100 * scale * float(hop_between(*values[-2:])):+.10f}%</score>"


def test_an_exact_hop_judge_is_consistent_in_all_and_over_whole_episodes(tmp_path: Path) -> None:
    judge = Hop(MockModel(script=exact), points=8)
    found, plan, pairs, changes = consistency_of(
        judge, rising_episodes(), tmp_path / "run", ConsistencyOptions(12, 1, episodes=12)
    )
    assert plan.points == (8, 4, 2)
    for one in found.measures:
        if one.ideal:
            assert one.estimate.value == pytest.approx(float(one.ideal), abs=1e-6), one.title
    assert {one.code for one in found.measures} >= {"M1", "M2", "M3", "M4", "M5", "R3", "R4"}
    fine = measure_resolution("hop", pairs, changes, "compare")
    assert fine.resolved == 0.03
    assert changes == [pytest.approx(pair.hop, abs=1e-6) for pair in pairs]


def test_a_judge_that_understates_hops_is_found_by_partition_and_modes(tmp_path: Path) -> None:
    judge = Hop(MockModel(script=lambda request: exact(request, 0.5)), points=8)
    found, *_ = consistency_of(
        judge, rising_episodes(), tmp_path / "run", ConsistencyOptions(12, 0, episodes=12)
    )
    assert found.value("consistency:antisymmetry").value == 1
    assert found.value("consistency:residual-median").value > 0.05
    assert found.value("consistency:partition").value > 0.01
    assert found.value("consistency:forward-backward").value > 0.1
    assert all(one.metric != "resolution:noise" for one in found.measures)


def test_the_plan_depends_on_the_seed_alone_and_states_its_cost(tmp_path: Path) -> None:
    episodes = rising_episodes()
    pairs = make_progress_pairs(episodes, per_span=20)
    by_id = {one.id: one for one in episodes}
    clips = pair_clips(pairs, pair_videos(pairs, by_id))
    model = MockModel(script=exact)
    options = ConsistencyOptions(10, 2, episodes=3)
    plan = plan_consistency(Hop(model, points=8), pairs, clips, by_id, options)
    again = plan_consistency(Hop(model, points=8), pairs[::-1], clips[::-1], by_id, options)
    assert {one.id for one in again.pairs} == {one.id for one in plan.pairs}
    assert [one.fingerprint for one in again.triples] == [one.fingerprint for one in plan.triples]
    asked = {name: part.questions for name, part in plan.parts.items()}
    # 10 pairs swapped, about one frame twice, and twice again; 10 triples in 3 parts; 3 episodes, fused at 8 points.
    assert asked == {"pairs": 40, "triples": 30, "curves-8": 72, "curves-4": 12, "curves-2": 6}
    assert plan.sentence().startswith("Consistency: 160 more questions (40 about pairs, 30 about triples")
    ask_consistency(plan, tmp_path / "runs", call_options=UNCACHED)
    assert len(model.requests) == 160


def test_triples_run_with_time_and_against_it() -> None:
    episodes = rising_episodes(4)
    pairs = make_progress_pairs(episodes, per_span=8)
    by_id = {one.id: one for one in episodes}
    clips = pair_clips(pairs, pair_videos(pairs, by_id))
    plan = plan_consistency(Hop(MockModel("x")), pairs, clips, by_id, ConsistencyOptions(10))
    for number, clip in enumerate(plan.triples):
        start, *three, end = clip.view("top").read(range(5))[:, 0, 0, 0].astype(int)
        assert (start, end) == (0, N - 1)
        assert np.all(np.diff(three) >= 2) if number % 2 == 0 else np.all(np.diff(three) <= -2)


def test_one_budget_holds_for_all_parts(tmp_path: Path) -> None:
    episodes = rising_episodes(4)
    pairs = make_progress_pairs(episodes, per_span=8)
    by_id = {one.id: one for one in episodes}
    clips = pair_clips(pairs, pair_videos(pairs, by_id))
    model = MockModel(script=exact)
    plan = plan_consistency(Hop(model, points=8), pairs, clips, by_id, ConsistencyOptions(10, 1, 2))
    limited = CallOptions(Budget(35), cache=False)
    with pytest.raises(BudgetError):
        ask_consistency(plan, tmp_path / "runs", call_options=limited)
    assert len(model.requests) == 35


def test_pairs_of_a_file_without_episodes_are_asked_again_and_nothing_else() -> None:
    episodes = rising_episodes(4)
    pairs = make_progress_pairs(episodes, per_span=8)
    clips = pair_clips(pairs, pair_videos(pairs, {one.id: one for one in episodes}))
    plan = plan_consistency(Hop(MockModel("x")), pairs, clips, {}, ConsistencyOptions(4, 1))
    assert list(plan.parts) == ["pairs"]


def test_resolution_is_that_of_a_loop_over_pairs_by_size_of_the_hop() -> None:
    episodes = scripted_episodes(scenes=4)
    pairs = make_progress_pairs(episodes, per_span=100)
    rng = np.random.default_rng(0)
    changes = [round(float(pair.hop or 0) + rng.normal(0, 0.15), 2) for pair in pairs]
    changes[0] = math.nan
    fine = measure_resolution("noisy", pairs, changes)
    by_bin = {one.group["hop"]: one for one in fine.bins if one.metric == "resolution:accuracy"}
    for name, lo, hi in (("0.05 to 0.1", 0.05, 0.1), ("0.3 to 0.5", 0.3, 0.5), ("from 0.5", 0.5, 9)):
        right = [
            0.5 if change == 0 else float((change > 0) == (pair.change > 0))
            for pair, change in zip(pairs, changes, strict=True)
            if lo <= abs(pair.hop or 0) < hi and not math.isnan(change)
        ]
        assert by_bin[name].estimate.value == pytest.approx(np.mean(right))
    assert fine.resolved in (0.03, 0.05, 0.1, 0.2)
    levels, step = (one.estimate for one in fine.answers)
    assert levels.value == len({change for change in changes if not math.isnan(change)})
    assert step.value == pytest.approx(0.01)
    table = resolution_table(fine)
    assert table is not None
    assert [row.cells[0].text for row in table.rows] == list(by_bin)


def test_the_tables_name_what_a_perfect_judge_has(tmp_path: Path) -> None:
    found, *_ = consistency_of(
        Hop(MockModel(script=exact), points=4),
        rising_episodes(4),
        tmp_path / "r",
        ConsistencyOptions(4, 1, 2),
    )
    table = consistency_table(found)
    assert [row.cells[3].text for row in table.rows][:3] == ["0", "0", "1"]
    assert "by construction" in table.notes[0]


def test_the_command_prints_consistency_and_refuses_it_for_a_curve(
    toy_pairs: tuple[Path, Path], tmp_path: Path
) -> None:
    line = ["pairs", "score", str(toy_pairs[0]), "--source", str(toy_pairs[1]), "-E", "cache=false"]
    asked = ["--judge", "hop", "--model", "mock/<score>+10%</score>", "-J", "points=4", "-T", "pairs=5"]
    ended = invoke([*line, *asked, "-o", str(tmp_path / "r"), "--consistency", "--json"])
    assert ended.code == 0, ended.err
    assert "Consistency: 82 more questions" in " ".join(ended.err.split())
    rows = {row["metric"]: row for row in json.loads(ended.out)}
    assert rows["consistency:antisymmetry"]["value"] == 0
    assert rows["consistency:identity"]["value"] == pytest.approx(0.1)
    assert rows["resolution:noise"]["value"] == 0
    assert rows["resolution:levels"]["value"] == 1
    counted = invoke([*line, *asked, "-o", str(tmp_path / "d"), "--consistency", "--dry-run"])
    assert "5 triples of --consistency (triples), 0 of which cannot be judged\n15 calls" in counted.out
    refused = invoke([*line, "--judge", "constant", "-o", str(tmp_path / "x"), "--consistency"])
    assert refused.code == 2
    assert "consistent by construction" in refused.err

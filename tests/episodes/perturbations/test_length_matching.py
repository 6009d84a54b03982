"""Length matching: length says nothing of the outcome, and no failure is taken for one without knowing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.episodes import Episode, Label, Labels, open_episodes
from stepscore.episodes.labels import LABEL_TOLERANCE_S
from stepscore.episodes.perturbations import length_matching
from stepscore.episodes.perturbations.length_matching import length_auc, match_lengths
from stepscore.episodes.perturbations.perturb import PERTURBATIONS
from stepscore.episodes.perturbations.rewording import OPPOSITES
from stepscore.episodes.video.video_view import VideoView
from stepscore.errors import VideoError
from stepscore.testing import write_toy_rollouts
from stepscore.types import FloatArray
from tests.fakes import FakeView, episode
from tests.media import numbers_of, write_video
from tests.paths import DOCS

WON = Labels((Label("success", "holds", value=1.0),))
LOST = Labels((Label("success", "ever", value=0.0),))


def rollout(name: str, n: int, labels: Labels, task: str = "push", fps: float = 10.0) -> Episode:
    return episode(name, views={"top": FakeView(n, fps, mark=name)}, labels=labels, task=task)


def length(one: Episode) -> int:
    assert one.info is not None
    return one.info.n_frames


def stop_after_success(seed: int, tasks: int = 6, per_task: int = 40) -> Iterator[Episode]:
    """Rollouts that stop after success or at the horizon, of tasks of unlike length and difficulty."""
    rng = np.random.default_rng(seed)
    for task in range(tasks):
        rate, pace = rng.uniform(0.15, 0.9), rng.uniform(20, 60)
        for number in range(per_task):
            won = rng.uniform() < rate
            n = int(np.clip(rng.normal(pace, 10), 5, 84)) if won else int(rng.choice([84, 84, 84, 50]))
            yield rollout(f"task{task}/{number:03d}", n, WON if won else LOST, f"task{task}")


@pytest.mark.parametrize("seed", range(5))
def test_length_alone_tells_success_before_and_nothing_after(seed: int) -> None:
    given_episodes = list(stop_after_success(seed))
    assert length_auc(given_episodes) > 0.8
    matched = match_lengths(given_episodes, seed=seed)
    assert len(matched.episodes) >= 60
    assert 0.45 <= length_auc(matched.episodes) <= 0.55
    for task in {e.task for e in matched.episodes}:
        own = [e for e in matched.episodes if e.task == task]
        assert length_auc(own) == pytest.approx(0.5)
        assert sum(bool(e.labels.success) for e in own) * 2 == len(own)


def test_pairs_are_of_one_task_and_one_length() -> None:
    matched = match_lengths(stop_after_success(3))
    by_id = {e.id: e for e in matched.episodes}
    assert len(matched.pairs) * 2 == len(by_id)
    for won, lost in matched.pairs:
        assert (by_id[won].labels.success, by_id[lost].labels.success) == (True, False)
        assert by_id[won].task == by_id[lost].task
        assert length(by_id[won]) == length(by_id[lost])
        assert "changed" not in by_id[won].metadata


def test_every_episode_is_kept_or_its_leaving_out_is_explained() -> None:
    given_episodes = list(stop_after_success(4))
    matched = match_lengths(given_episodes)
    kept = {str(e.metadata.get("changed_from", e.id)) for e in matched.episodes}
    assert kept | set(matched.left_out) == {e.id for e in given_episodes}
    assert not kept & set(matched.left_out)


def test_the_same_episodes_are_matched_alike_in_any_order_and_otherwise_under_another_seed() -> None:
    given_episodes = list(stop_after_success(5))
    assert match_lengths(given_episodes).pairs == match_lengths(given_episodes[::-1]).pairs
    assert match_lengths(given_episodes).pairs != match_lengths(given_episodes, seed=1).pairs


def test_successes_are_never_cut_and_failures_never_lengthened() -> None:
    matched = match_lengths([rollout("w", 30, WON), rollout("l", 20, LOST)])
    assert matched.episodes == ()
    assert "no failure of 'push' is left that lasts as long" in matched.left_out["w"]
    assert "no success of 'push' is left" in matched.left_out["l"]


def test_a_failure_of_the_right_length_stays_as_it_is() -> None:
    only_the_end = Labels((Label("success", "holds", value=0.0),))
    matched = match_lengths([rollout("w", 30, WON), rollout("l", 30, only_the_end)])
    assert [e.id for e in matched.episodes] == ["l", "w"]


def test_a_failure_of_which_only_the_end_is_known_is_not_cut() -> None:
    only_the_end = Labels((Label("success", "holds", value=0.0),))
    assert match_lengths([rollout("w", 20, WON), rollout("l", 30, only_the_end)]).episodes == ()


@pytest.mark.parametrize(("n", "usable"), [(10, True), (11, False), (20, False), (21, True), (40, True)])
@pytest.mark.parametrize("how", ["spans", "potential"])
def test_a_failure_that_had_succeeded_for_a_while_is_not_cut_inside_that_time(
    n: int, usable: bool, how: str
) -> None:
    lost = Label("success", "holds", value=0.0)
    if how == "spans":
        rows = [Label("success", "holds", 1.0, 2.0, 1.0), lost]
    else:
        values = [1.0 if 10 <= i < 20 else 0.5 for i in range(50)]
        rows = [lost, *(Label("progress", "potential", i / 10, value=v) for i, v in enumerate(values))]
    matched = match_lengths([rollout("w", n, WON), rollout("l", 50, Labels(tuple(rows)))])
    assert bool(matched.episodes) is usable
    if usable:
        assert [(e.labels.success, length(e)) for e in matched.episodes] == [(False, n), (True, n)]


def test_tasks_are_matched_apart() -> None:
    matched = match_lengths([rollout("w", 20, WON, "open"), rollout("l", 30, LOST, "close")])
    assert matched.episodes == ()


def test_unknown_outcomes_and_unreadable_videos_are_left_out_with_their_reason() -> None:
    pair = [rollout("w", 20, WON), rollout("l", 30, LOST)]
    odd = [
        rollout("u", 20, Labels()),
        episode("n", views={}, labels=WON),
        episode("b", views={"top": Broken()}),
    ]
    odd[2] = Episode("b", "push", task="push", views={"top": Broken()}, labels=LOST)
    matched = match_lengths([*pair, *odd])
    assert [e.id for e in matched.episodes] == ["l~cut-2s", "w"]
    assert matched.left_out["u"] == "its success is not known"
    assert "no video" in matched.left_out["n"]
    assert "damaged" in matched.left_out["b"]


@dataclass(frozen=True)
class Broken(FakeView):
    def timestamps(self) -> FloatArray:
        raise VideoError("b.mp4 is damaged.")


def test_cameras_of_other_rates_are_matched_to_half_a_frame() -> None:
    matched = match_lengths([rollout("w", 20, WON), rollout("l", 100, LOST, fps=30.0)])
    assert [length(e) for e in matched.episodes] == [60, 20]


@settings(max_examples=60)
@given(
    won=st.lists(st.integers(3, 12), min_size=1, max_size=5),
    lost=st.lists(st.integers(3, 12), min_size=1, max_size=5),
)
def test_no_more_pairs_were_possible(won: list[int], lost: list[int]) -> None:
    made = [rollout(f"w{i}", n, WON) for i, n in enumerate(won)]
    made += [rollout(f"l{i}", n, LOST) for i, n in enumerate(lost)]
    matched = match_lengths(made)
    assert len(matched.pairs) == naive_most_pairs(won, lost)
    assert not matched.episodes or length_auc(matched.episodes) == pytest.approx(0.5)


def naive_most_pairs(won: list[int], lost: list[int]) -> int:
    """Try all sets of successes, the largest first, against the longest failures, rank by rank."""
    for size in range(min(len(won), len(lost)), 0, -1):
        for chosen in combinations(sorted(won), size):
            if all(s <= f for s, f in zip(chosen, sorted(lost)[-size:], strict=True)):
                return size
    return 0


SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10)), max_size=3)


@settings(max_examples=100)
@given(spans=SPANS, mode=st.sampled_from(["ever", "holds"]), fps=st.sampled_from([3.0, 10.0, 29.97]))
def test_a_failure_fits_the_lengths_that_a_look_at_every_frame_finds(
    spans: list[tuple[int, int]], mode: str, fps: float
) -> None:
    rows = [Label("success", mode, start / 10, (start + n) / 10, 1.0) for start, n in spans]
    labels = Labels((*rows, Label("success", mode, value=0.0)))
    one = length_matching._rollout(rollout("l", 50, labels, fps=fps))
    lengths = np.concatenate([np.arange(1, 60) / 10.0, np.arange(1, 55) / fps, [0.0, 1e6, 2.5 / fps]])
    assert one.fails_at(lengths).tolist() == [naive_fails_at(one, length_s) for length_s in lengths]


def naive_fails_at(one: length_matching._Rollout, length_s: float) -> bool:
    """Look for the nearest frame among all, and ask for the verdict there."""
    last = one.last_frame(length_s)
    if abs(one.times[last] + one.frame_s - length_s) > one.frame_s / 2 + LABEL_TOLERANCE_S:
        return False
    return last == len(one.times) - 1 or one.truth.at_end(one.mode, one.times[last]) is False


@pytest.mark.parametrize("seed", range(3))
def test_a_large_task_is_matched_in_parts_with_hardly_a_pair_less(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_episodes = list(stop_after_success(seed, tasks=2, per_task=600))
    whole = match_lengths(given_episodes)
    monkeypatch.setattr(length_matching, "MOST_AT_ONCE", 1_000)
    parts = match_lengths(given_episodes)
    assert parts.pairs != whole.pairs
    assert 0.98 * len(whole.pairs) <= len(parts.pairs) <= len(whole.pairs)
    assert len({name for pair in parts.pairs for name in pair}) == len(parts.episodes)
    assert length_auc(parts.episodes) == pytest.approx(0.5)


def test_length_alone_is_unknown_where_there_is_one_outcome() -> None:
    assert math.isnan(length_auc([rollout("a", 5, WON), rollout("b", 6, WON), rollout("c", 7, Labels())]))


def test_video_files_of_unlike_length_are_matched_to_the_frame(tmp_path: Path) -> None:
    lengths = {"w1": 12, "w2": 19, "w3": 25, "l1": 30, "l2": 30, "l3": 30}
    made = [
        Episode(
            name,
            "push",
            views={"main": VideoView(write_video(tmp_path / f"{name}.mp4", n, fps=12))},
            labels=WON if name[0] == "w" else LOST,
        )
        for name, n in lengths.items()
    ]
    assert length_auc(made) == 1.0
    matched = match_lengths(made)
    assert sorted(map(length, matched.episodes)) == [12, 12, 19, 19, 25, 25]
    assert length_auc(matched.episodes) == 0.5
    by_id = {e.id: e for e in matched.episodes}
    for won, lost in matched.pairs:
        last = length(by_id[won]) - 1
        assert numbers_of(by_id[lost].clip(indices=[0, last]).frames) == [0, last]


def test_toy_rollouts_are_matched_from_their_files(tmp_path: Path) -> None:
    toys = open_episodes(write_toy_rollouts(tmp_path / "toys", scenes=2))
    matched = match_lengths(toys)
    assert len(matched.pairs) > 0
    assert length_auc(matched.episodes) == pytest.approx(0.5)


def test_the_page_on_perturbations_shows_what_happens(capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCS / "data/perturbations.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "perturbations.md", "exec"), {})
    first, second, third = capsys.readouterr().out.splitlines()
    assert f"# {first}\n" in block
    assert f"# {second}\n" in block
    assert third.startswith("0.5 ")
    assert [name for name in PERTURBATIONS if f"| `{name}`" not in page] == []
    assert all(f"{word}, {other} |" in page for word, other in OPPOSITES.items())

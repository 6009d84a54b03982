"""Changes to an episode: what is shown, when, and under which name."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.episodes import Episode, Subgoal, TaskInstructions, perturbations
from stepscore.episodes.perturbations.changed_episode import blank, swap_cameras
from stepscore.episodes.perturbations.image_perturbations import Darker, Recompressed, Shifted, Zoomed
from stepscore.episodes.perturbations.perturb import (
    PERTURBATIONS,
    add_noise,
    cut,
    darken,
    freeze,
    lower_resolution,
    opposite_instruction,
    other_instruction,
    pause,
    perturb,
    recompress,
    reverse,
    shift,
    slow_down,
    thin,
    zoom,
)
from stepscore.episodes.perturbations.replay import repeat, retry, round_trip, shuffle, twice
from stepscore.episodes.perturbations.retimed_view import Cut, Frozen, Paused, Reversed, Slowed
from stepscore.episodes.perturbations.rewording import negate, paraphrase
from stepscore.episodes.video.video_view import VideoView
from stepscore.errors import EpisodeError, OptionError, UnknownNameError
from stepscore.types import FloatArray, Frames
from tests.fakes import FakeView, episode
from tests.media import numbers_of, write_video

EVERY: dict[str, Callable[[Episode], Episode]] = {
    "frozen first": lambda e: freeze(e, "first"),
    "frozen last": lambda e: freeze(e, "last"),
    "reversed": reverse,
    "cut": lambda e: cut(e, 2.0),
    "cut share": lambda e: cut(e, share=0.3),
    "slowed": lambda e: slow_down(e, 2.0),
    "paused": lambda e: pause(e, 1.0, 0.5),
    "shifted": lambda e: shift(e, 2, -1),
    "shifted black": lambda e: shift(e, 2, -1, fill="black"),
    "zoomed": lambda e: zoom(e, 1.15),
    "darker": lambda e: darken(e, 0.5),
    "recompressed": lambda e: recompress(e, 40),
    "noisy": lambda e: add_noise(e, 12.0),
    "low-resolution": lambda e: lower_resolution(e, 2.0),
    "blank": blank,
    "thinned": thin,
    "round-trip": round_trip,
    "retry": retry,
    "repeated": repeat,
    "shuffled": shuffle,
}
"""Every perturbation that changes what one camera shows, or when."""

OF_WORDS: dict[str, Callable[[Episode], Episode]] = {
    "paraphrase": paraphrase,
    "negated": negate,
    "other-instruction": lambda e: other_instruction(e, text="pour the water"),
    "opposite-instruction": opposite_instruction,
}
"""Those that change the instruction alone."""

OTHERS: dict[str, Callable[[Episode], Episode]] = {"swapped-cameras": swap_cameras, "twice": twice}
"""One that needs a second camera, and the video of ``repeated`` under another instruction."""


@dataclass(frozen=True)
class Unopened(FakeView):
    """A view that must not be asked for frames."""

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        raise AssertionError("a frame was read")


def shown(changed_episode: Episode) -> list[int]:
    """The recorded numbers of all frames the episode now shows."""
    view = changed_episode.view()
    return [int(frame[0, 0, 0]) for frame in view.read(range(view.info().n_frames))]


def times(changed_episode: Episode) -> FloatArray:
    return changed_episode.view().timestamps()


TEN = {"top": FakeView(n=10, fps=10.0)}


def ten() -> Episode:
    return episode(views=TEN)


def test_frozen_shows_one_frame_for_the_same_time() -> None:
    assert shown(freeze(ten())) == [0] * 10
    assert shown(freeze(ten(), "last")) == [9] * 10
    assert np.array_equal(times(freeze(ten())), times(ten()))


def test_reversed_shows_the_last_frame_first() -> None:
    assert shown(reverse(ten())) == list(range(9, -1, -1))
    assert times(reverse(ten())) == pytest.approx(np.arange(10) / 10)
    assert shown(reverse(reverse(ten()))) == list(range(10))


@pytest.mark.parametrize(("to_s", "kept"), [(0.3, 3), (0.35, 4), (1.0, 10), (0.001, 1)])
def test_cut_keeps_the_frames_shown_before_a_second(to_s: float, kept: int) -> None:
    assert shown(cut(ten(), to_s)) == list(range(kept))


def test_cut_to_a_share_of_the_duration() -> None:
    half = cut(ten(), share=0.5)
    assert shown(half) == [0, 1, 2, 3, 4]
    assert half.info is not None
    assert half.info.duration_s == pytest.approx(0.5)
    assert shown(cut(ten(), share=1.0)) == list(range(10))


def test_slowed_shows_the_same_frames_longer() -> None:
    slow = slow_down(ten(), 2.0)
    assert shown(slow) == list(range(10))
    assert times(slow) == pytest.approx(np.arange(10) / 5)
    assert slow.info is not None
    assert (slow.info.fps, slow.info.duration_s) == (5.0, pytest.approx(2.0))
    assert slow.clip(times=[0.0, 0.39, 0.4]).indices.tolist() == [0, 1, 2]


def test_paused_repeats_the_frame_then_shown_and_delays_the_rest() -> None:
    rested = pause(ten(), 0.35, 0.2)
    assert shown(rested) == [0, 1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 9]
    assert times(rested) == pytest.approx(np.arange(12) / 10)
    assert shown(pause(ten(), 0.95, 0.2))[-3:] == [9, 9, 9]


def test_thinned_keeps_every_second_frame_at_its_time() -> None:
    assert shown(thin(ten())) == [0, 2, 4, 6, 8]
    assert times(thin(ten(), 3)) == pytest.approx([0, 0.3, 0.6, 0.9])
    assert thin(ten()).info.fps == 5.0  # type: ignore[union-attr]


def test_cameras_of_different_rates_stay_together() -> None:
    two = episode(views={"top": FakeView(n=20, fps=10.0), "wrist": FakeView(n=60, fps=30.0)})
    for change in (
        lambda e: cut(e, 1.0),
        lambda e: pause(e, 1.05, 0.25),
        lambda e: slow_down(e, 3.0),
        reverse,
    ):
        top, wrist = change(two).views.values()
        assert top.info().duration_s == pytest.approx(wrist.info().duration_s, abs=0.1)
    late = pause(two, 1.05, 0.25)
    assert late.views["top"].timestamps()[-1] - 1.9 == pytest.approx(0.25)
    assert late.views["wrist"].timestamps()[-1] - 59 / 30 == pytest.approx(0.25)


@pytest.mark.parametrize("name", EVERY)
def test_a_change_reads_no_frame_and_can_be_pickled(name: str) -> None:
    made = EVERY[name](episode(views={"top": Unopened()}))
    made.info  # noqa: B018
    made.fingerprint  # noqa: B018
    again = pickle.loads(pickle.dumps(EVERY[name](episode())))
    assert np.array_equal(again.view().read([0, 3]), EVERY[name](episode()).view().read([0, 3]))


def test_every_change_has_its_own_fingerprint_id_and_note() -> None:
    made = [change(episode()) for change in EVERY.values()]
    assert len({e.fingerprint for e in [episode(), *made]}) == len(made) + 1
    assert len({e.id for e in [episode(), *made]}) == len(made) + 1
    assert all(e.metadata["changed_from"] == "e" and e.task == episode().task for e in made)
    twice = darken(cut(episode("a/b"), 2.5), 0.5)
    assert twice.id == "a/b~cut-2.5s~darker-0.5"
    assert twice.metadata == {
        "changed_from": "a/b",
        "changed": ({"change": "cut", "to_s": 2.5}, {"change": "darker", "factor": 0.5}),
    }
    assert freeze(episode("a")).id == "a~frozen-first"
    assert not set(':\\?*"<>|') & set("".join(e.id for e in made))


def test_the_same_change_is_the_same_episode() -> None:
    for change in EVERY.values():
        assert change(episode()).fingerprint == change(episode()).fingerprint
    assert slow_down(episode(), 2).fingerprint == slow_down(episode(), 2.0).fingerprint
    assert shift(episode(), 8).fingerprint != shift(episode(), 0, 8).fingerprint


def test_recorded_curves_are_of_the_recorded_video() -> None:
    beside = episode(recorded=(Path("e.curve.csv"),))
    assert all(change(beside).recorded == () for change in EVERY.values())


@given(
    gaps=st.lists(st.floats(0.01, 0.5), min_size=1, max_size=30),
    at=st.floats(0.0, 0.999),
    seconds=st.floats(0.001, 3.0),
    factor=st.floats(0.1, 10.0),
)
def test_times_start_at_0_and_rise_whatever_the_recorded_ones(
    gaps: list[float], at: float, seconds: float, factor: float
) -> None:
    recorded = episode(views={"top": Uneven(tuple(np.concatenate([[0.0], np.cumsum(gaps)])))})
    assert recorded.info is not None
    end = recorded.info.duration_s
    for made in (
        reverse(recorded),
        round_trip(recorded),
        retry(recorded),
        repeat(recorded),
        shuffle(recorded),
        cut(recorded, share=1 - at),
        pause(recorded, at * end, seconds),
        slow_down(recorded, factor),
    ):
        stamps = times(made)
        assert stamps[0] == 0.0
        assert (np.diff(stamps) > 0).all()
        assert made.info is not None
        assert made.info.n_frames == len(stamps)
        assert made.info.duration_s > stamps[-1]


@dataclass(frozen=True)
class Uneven(FakeView):
    """Frames at uneven times."""

    n: object = None  # type: ignore[assignment]

    def info(self):
        return FakeView(1).info()._replace(n_frames=len(self.n), duration_s=self.n[-1] + 0.1)  # type: ignore[arg-type,index]

    def timestamps(self) -> FloatArray:
        return np.array(self.n)


def test_a_real_video_is_changed_as_it_is_read(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", 24, fps=12, size=(160, 96))
    recorded = Episode("v", "push", views={"main": VideoView(path)})
    picks = [0, 5, 11]
    assert numbers_of(reverse(recorded).clip(indices=picks).frames) == [23, 18, 12]
    assert numbers_of(freeze(recorded, "last").clip(indices=picks).frames) == [23, 23, 23]
    assert numbers_of(cut(recorded, 1.0).clip(count=3).frames) == [0, 6, 11]
    assert numbers_of(pause(recorded, 0.5, 0.25).clip(indices=[6, 7, 9, 10]).frames) == [6, 6, 6, 7]
    for change in (lambda e: darken(e, 0.8), recompress):
        assert numbers_of(change(recorded).clip(indices=picks).frames) == picks
    plain = recorded.clip(indices=picks, size=80).frames
    moved = shift(recorded, 2).clip(indices=picks, size=80).frames
    assert moved.shape == plain.shape == (3, 48, 80, 3)
    # Two recorded pixels are one of the scaled ones; what is left is the difference between two scalers.
    assert np.abs(moved[:, :, 1:].astype(int) - plain[:, :, :-1]).mean() < 3.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: freeze(episode(), "middle"), "at is 'middle'; allowed are 'first' and 'last'"),  # type: ignore[arg-type]
        (lambda: cut(episode()), "one of to_s and share"),
        (lambda: cut(episode(), 1.0, share=0.5), "one of to_s and share"),
        (lambda: cut(episode(), 7.0), "cannot be cut to 7 s: it runs from 0 to 5 s"),
        (lambda: cut(episode(), 0.0), "cannot be cut to 0 s"),
        (lambda: cut(episode(), share=1.5), "share must be above 0 and at most 1, got 1.5"),
        (
            lambda: slow_down(episode(), 0.0),
            r"factor must be above 0 and finite \(2 is half as fast\), got 0\.0",
        ),
        (lambda: pause(episode(), 5.0), "at_s is 5; episode e runs from 0 to 5 s"),
        (lambda: pause(episode(), 1.0, 0.0), "seconds must be above 0 and finite, got 0.0"),
        (lambda: shift(episode()), r"not \(0, 0\)"),
        (lambda: shift(episode(), 1.5), "whole pixels"),  # type: ignore[arg-type]
        (lambda: shift(episode(), 8).view().read([0]), "leaves nothing of an image of 8x6"),
        (lambda: zoom(episode(), 1.0), "above 1"),
        (lambda: darken(episode(), 1.0), "between 0 and 1"),
        (lambda: recompress(episode(), 100), "from 1 to 95"),
        (lambda: other_instruction(episode()), "one of text and among"),
        (lambda: other_instruction(episode(), "Open the drawer"), "own"),
        (
            lambda: other_instruction(episode(), among=[episode("x")]),
            "None of the 1 episodes has another task",
        ),
    ],
)
def test_a_wrong_option_is_named(change: Callable[[], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        change()


def test_instructions_gathered_once_draw_as_the_episodes_do() -> None:
    made = [
        replace(episode(f"e{i}"), instruction=f"do {i % 7}", task=None if i % 3 else f"task {i % 2}")
        for i in range(60)
    ]
    gathered = TaskInstructions.of(made)
    assert len(gathered.first) < len(made)
    for one in made:
        own, number = one.task or one.instruction, hashlib.sha256(f"5\0{one.id}".encode()).digest()[:8]
        other = {
            e.instruction
            for e in made
            if (e.task or e.instruction) != own and e.instruction != one.instruction
        }
        drawn = sorted(other)[int.from_bytes(number, "big") % len(other)]
        assert other_instruction(one, among=gathered, seed=5).instruction == drawn
        assert other_instruction(one, among=made, seed=5).instruction == drawn


def test_an_episode_without_video_has_nothing_to_change() -> None:
    for change in EVERY.values():
        with pytest.raises(EpisodeError, match="has no video"):
            change(episode(views={}))


def test_every_perturbation_is_tested_here_and_exported() -> None:
    two = episode(views={"top": FakeView(), "wrist": FakeView(mark="wrist")})
    made = [change(two) for change in (EVERY | OF_WORDS | OTHERS).values()]
    tested = {str(note["change"]) for one in made for note in one.metadata["changed"]}  # type: ignore[attr-defined]
    untested = sorted(set(PERTURBATIONS) - tested)
    assert not untested, f"add to EVERY, OF_WORDS or OTHERS in {__file__}: {', '.join(untested)}"
    functions = {change.__name__ for change in PERTURBATIONS.values()}
    hidden = sorted(functions - set(perturbations.__all__))
    assert not hidden, f"add to __all__ in {perturbations.__file__}: {', '.join(hidden)}"


@pytest.mark.parametrize("name", OF_WORDS)
def test_another_instruction_keeps_the_video_and_has_its_own_id_and_note(name: str) -> None:
    made = OF_WORDS[name](episode())
    assert made.views == episode().views
    assert made.instruction != episode().instruction
    assert made.id.startswith(f"e~{name}")
    assert made.metadata["changed_from"] == "e"


def test_changes_go_by_name() -> None:
    assert perturb(episode(), "shifted", dx=8).id == shift(episode(), 8).id
    with pytest.raises(UnknownNameError, match=r"Unknown perturbation 'revers'.*Did you mean 'reversed'"):
        perturb(episode(), "revers")
    with pytest.raises(
        UnknownNameError, match=r"Unknown option 'dz' in the perturbation 'shifted'.*dx, dy, fill"
    ):
        perturb(episode(), "shifted", dz=1)


def test_another_instruction_is_of_another_task_and_depends_on_id_and_seed_alone() -> None:
    goal = (Subgoal("grasp"),)
    others = [
        episode(f"{task}{i}", instruction=task, task=task, subgoals=goal)
        for task in ("pour", "wipe", "open")
        for i in range(3)
    ]
    own = replace(others[-1], goals={"top": Path("g.png")})
    drawn = {seed: other_instruction(own, among=others, seed=seed).instruction for seed in range(30)}
    assert set(drawn.values()) == {"pour", "wipe"}
    assert all(drawn[s] == other_instruction(own, among=others[::-1], seed=s).instruction for s in drawn)
    one = other_instruction(own, among=others)
    assert (one.subgoals, one.goals, one.task) == (goal, {}, "open")
    assert other_instruction(own, "wash up").subgoals == ()
    assert one.id == f"{own.id}~other-instruction-{one.id[-8:]}"
    assert one.fingerprint == others[-1].fingerprint


@pytest.mark.parametrize(
    ("perturbation", "stored"),
    [
        (Frozen(last=False), "Frozen(last=False)"),
        (Reversed(), "Reversed()"),
        (Cut(2.5), "Cut(to_s=2.5)"),
        (Slowed(2.0), "Slowed(factor=2.0)"),
        (Paused(1.0, 0.5), "Paused(at_s=1.0, seconds=0.5)"),
        (Shifted(2, -1), "Shifted(dx=2, dy=-1, fill='edge')"),
        (Zoomed(1.15), "Zoomed(factor=1.15)"),
        (Darker(0.5), "Darker(factor=0.5)"),
        (Recompressed(40), "Recompressed(quality=40)"),
    ],
)
def test_the_text_that_enters_a_digest_is_stored(perturbation: object, stored: str) -> None:
    """Caches hold answers under these texts: a renamed class or field would ask all of them again."""
    assert repr(perturbation) == stored

"""What happened in an episode, by the simulator's state: each row of the table on a hand-made episode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.diagnosis.truth import Episode, truth
from stepscore.sim import RolloutPlan, State, get_task
from stepscore.sim.rollout import Rollout

STEPS, PER_FRAME = 160, 8
TASK = get_task("pick-place")  # reach, hold, lift, finish
GOAL = np.array([0.0, 0.5, 0.2])
START = np.array([0.0, 0.0, 0.2])
OBJECT = np.array([0.2, 0.0, 0.0])


def episode(
    stages: list[int],
    hand: tuple[float, float, float],
    *,
    holds: slice = slice(0, 0),
    object_end: np.ndarray = OBJECT,
) -> Episode:
    """Make an episode of these stages whose hand and object move in a line, then rest for half the time."""
    share = np.minimum(np.arange(STEPS) / (STEPS / 2), 1.0)[:, None]
    hands, objects = START + share * (np.array(hand) - START), OBJECT + share * (object_end - OBJECT)
    held = np.zeros(STEPS, dtype=bool)
    held[holds] = True
    parts = [frozenset({"object"}) if now else frozenset[str]() for now in held]
    states = [
        State({"tcp": h, "object": o, "target": GOAL}, 0.5, part, part, success=False)
        for h, o, part in zip(hands, objects, parts, strict=True)
    ]
    frames = STEPS // PER_FRAME
    numbers = np.repeat(stages, frames // len(stages))
    numbers = np.pad(numbers, (0, frames - len(numbers)), mode="edge")
    rollout = Rollout(
        RolloutPlan("pick-place", "any", 0),
        10,
        {},
        np.zeros((frames, 4)),
        np.zeros((frames, 9)),
        np.zeros((frames, 4)),
        numbers / 4,
        numbers,
        numbers[:, None] >= np.arange(1, 5),
    )
    return Episode(TASK, rollout, states)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (episode([0, 1, 4, 4], (0.2, 0.0, 0.0)), "too slow"),  # done after 1 s; the expert takes .65 s
        (episode([4, 4, 4, 4], (0.2, 0.0, 0.0)), ""),
        (episode([0, 4, 3, 3], (0.2, 0.0, 0.0)), "undone at the end"),
        (episode([0, 0, 0, 0], (0.0, 0.05, 0.2)), "never reached"),
        (episode([0, 0, 0, 0], (0.2, 0.12, 0.0)), "wrong target"),
        (episode([1, 3, 1, 1], (0.2, 0.0, 0.0), holds=slice(30, 80)), "object lost"),
        (episode([1, 3, 3, 3], (0.2, 0.0, 0.0), holds=slice(30, STEPS)), "reached and stopped"),
        (episode([1, 3, 2, 2], (0.2, 0.0, 0.0), holds=slice(30, STEPS)), "reached and stopped"),
        (episode([0, 1, 2, 3], (0.2, 0.0, 0.0), holds=slice(30, STEPS)), "too slow"),
    ],
)
def test_the_state_says_what_happened(made: Episode, name: str) -> None:
    assert truth(made) == name


def test_an_object_that_moves_about_without_getting_nearer_is_not_clear() -> None:
    made = episode([1, 1, 1, 1], (0.2, 0.0, 0.0))
    states = [
        replace(s, points={**s.points, "object": OBJECT + np.array([0.03 * (i % 2), 0, 0])})
        for i, s in enumerate(made.states)
    ]
    assert truth(Episode(made.task, made.rollout, states)) == "not clear"

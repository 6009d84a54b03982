"""Probes of order: recordings played backwards, there and back, twice, rewound or shuffled."""

from __future__ import annotations

import math

import numpy as np

from stepscore.audit.judge_answers import TIME_TOLERANCE_S
from stepscore.audit.probe import GAIN, ORDER, Bound, Case, Probe, end_of
from stepscore.episodes import perturb

RETRY = (0.6, 0.2)
"""Share of the episode from which it is rewound, and to which."""

MIN_RISE = 0.2
"""Rise on the recorded video below which a rewind shows nothing."""

REVERSED = Probe(
    name="reversed",
    family="time",
    change=lambda episode, context: perturb(episode, "reversed"),
    effect=lambda case: case.probed.gain,
    bound=Bound(-GAIN, "below"),
    expectation="a success played backwards is undone: progress falls",
    effect_name="gain when played backwards",
    successes=True,
)

SHUFFLED = Probe(
    name="shuffled",
    family="time",
    change=lambda episode, context: perturb(episode, "shuffled", seed=context.seed),
    effect=lambda case: case.probed.order(),
    bound=Bound(ORDER, "below"),
    expectation="blocks in random order show no steady rise",
    effect_name="order along the clock",
)


def _return(case: Case) -> float:
    """Return the rank correlation with the way there and back: time until the turn, then time left."""
    turn = end_of(case.episode)
    times = case.probed.times
    return case.probed.order(np.where(times <= turn, times, 2 * turn - times))


ROUND_TRIP = Probe(
    name="round-trip",
    family="time",
    change=lambda episode, context: perturb(episode, "round-trip"),
    effect=_return,
    bound=Bound(ORDER, "above"),
    expectation="forwards then backwards, progress rises then falls",
    effect_name="order along the way there and back",
    successes=True,
    headline=True,
    length=2.0,
)


def _fall_on_the_way_back(case: Case) -> float:
    """Return how far progress falls from the turn to the end."""
    return float(case.probed.at(end_of(case.episode)) - case.probed.last)


UNDONE = Probe(
    name="undone",
    family="time",
    change=lambda episode, context: perturb(episode, "round-trip"),
    effect=_fall_on_the_way_back,
    bound=Bound(GAIN, "above"),
    expectation="forwards then backwards, what was done is undone: the second half falls",
    effect_name="fall on the way back",
    successes=True,
    length=2.0,
)


def _fall_in_rewind(case: Case) -> float:
    """Return how far progress falls while the video is rewound."""
    end = end_of(case.episode)
    peak, trough = RETRY[0] * end, (2 * RETRY[0] - RETRY[1]) * end
    risen = case.plain.at(peak) - case.plain.at(RETRY[1] * end)
    if not risen >= MIN_RISE:
        return math.nan
    return float(case.probed.at(peak) - case.probed.at(trough))


REWOUND = Probe(
    name="retry",
    family="time",
    change=lambda episode, context: perturb(episode, "retry", to=RETRY[0], back_to=RETRY[1]),
    effect=_fall_in_rewind,
    bound=Bound(GAIN, "above"),
    expectation="rewound and done again, progress falls in the rewind",
    effect_name="fall in the rewind",
    successes=True,
    length=1.0 + 2 * (RETRY[0] - RETRY[1]),
)


def _fall_at_restart(case: Case) -> float:
    """Return how far progress falls within a tenth of the length after the episode starts again."""
    end = end_of(case.episode)
    if not case.plain.gain >= MIN_RISE:
        return math.nan
    return float(case.probed.at(end) - case.probed.at(1.1 * end))


REPEATED = Probe(
    name="repeated",
    family="time",
    change=lambda episode, context: perturb(episode, "repeated"),
    effect=_fall_at_restart,
    bound=Bound(GAIN, "above"),
    expectation="played twice, progress falls where the first view recurs",
    effect_name="fall where it begins again",
    successes=True,
    length=2.0,
)


def _rise_of_recurring_views(case: Case) -> float:
    """Return how much further frames are when shown the second time than the first time."""
    info = case.episode.info
    second = end_of(case.episode) + (math.nan if info is None else 1.0 / info.fps)
    times, progress = case.probed.times, case.probed.progress
    later = times[times >= second - TIME_TOLERANCE_S]
    if not len(later):
        return math.nan
    # Frames between the last point of the first time and the first of the second are of neither.
    first = (times < second - TIME_TOLERANCE_S) & (times + second >= later[0])
    rises = case.probed.at(times[first] + second) - progress[first]
    known = rises[~np.isnan(rises)]
    return float(known.mean()) if len(known) else math.nan


TWICE = Probe(
    name="twice",
    family="time",
    change=lambda episode, context: perturb(episode, "twice"),
    effect=_rise_of_recurring_views,
    bound=Bound(GAIN, "above"),
    expectation="to be done twice, it is half done when the views recur: their second showing is further",
    effect_name="rise from the first to the second showing",
    successes=True,
    length=2.0,
)

REPLAY_PROBES = (ROUND_TRIP, UNDONE, REVERSED, SHUFFLED, REWOUND, REPEATED, TWICE)

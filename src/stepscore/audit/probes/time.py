"""Probes of time: still videos, other orders, other speeds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from stepscore.audit.probe import Bound, Case, Context, Probe
from stepscore.episodes import Episode, perturb

GAIN = 0.1
"""Change of progress up to which a judge that sees nothing happen may drift, and above which it must follow."""

DISTANCE = 0.15
"""Mean distance of two curves that should be one."""

ORDER = 0.5
"""Rank correlation between a judge that follows (1) and one that does not (0)."""

PAUSE = 0.5
"""Length of the pause as a share of the episode's duration, half-way through it."""

RETRY = (0.6, 0.2)
"""Share of the episode from which it is rewound, and to which."""

MIN_RISE = 0.2
"""Rise on the recorded video under which a rewind shows nothing: the judge did not rise there."""


def _duration(episode: Episode) -> float:
    info = episode.info
    return math.nan if info is None else info.duration_s


def _end(episode: Episode) -> float:
    """Return the timestamp of the last frame of the main view."""
    return float(episode.view(episode.main_view).timestamps()[-1])


def frozen(at: str) -> Probe:
    """Return the probe that shows one frame for the whole length."""

    def change(episode: Episode, context: Context) -> Episode:
        return perturb(episode, "frozen", at=at)

    return Probe(
        name=f"frozen-{at}",
        family="no motion",
        change=change,
        effect=(lambda case: case.probed.gain) if at == "first" else (lambda case: abs(case.probed.gain)),
        bound=Bound(GAIN, "below"),
        expectation="nothing happens, so progress stays where it is",
        effect_name="gain on a still video",
        headline=at == "first",
    )


BEYOND_LENGTH = Probe(
    name="beyond-length",
    family="no motion",
    change=lambda episode, context: perturb(episode, "frozen", at="first"),
    effect=lambda case: case.plain.gain - case.probed.gain,
    bound=Bound(GAIN, "above"),
    expectation="a success gains more than a still video of the same length",
    effect_name="gain beyond that of a still video",
    successes=True,
    headline=True,
)


def _false_success(case: Case) -> float:
    """Return whether success is claimed where labels do not say that it is there from the first frame on."""
    return math.nan if case.changed.labels.success else case.probed.success


def _null_success(name: str, perturbation: str, expectation: str, effect: Callable[[Case], float]) -> Probe:
    return Probe(
        name=name,
        family="no motion",
        change=lambda episode, context: perturb(episode, perturbation),
        effect=effect,
        bound=Bound(GAIN, "below"),
        expectation=expectation,
        effect_name="false positives: share called a success",
        headline=True,
        rate=True,
    )


def _early_success(case: Case) -> float:
    """Return whether success is claimed at a cut where labels state that it is not yet done."""
    return case.probed.success if case.changed.labels.success is False else math.nan


EARLY_SUCCESS = Probe(
    name="early-success",
    family="time",
    change=lambda episode, context: perturb(episode, "cut", share=0.5),
    effect=_early_success,
    bound=Bound(GAIN, "below"),
    expectation="cut half-way, a task that is not done by then is no success",
    effect_name="false positives: share called a success",
    rate=True,
    truncates=True,
)

BLANK = Probe(
    name="blank",
    family="no motion",
    change=lambda episode, context: perturb(episode, "blank"),
    effect=lambda case: case.probed.gain,
    bound=Bound(GAIN, "below"),
    expectation="there is nothing to see, so progress stays where it is",
    effect_name="gain on black images",
)

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
    """Return the rank correlation with the way forth and back: time up to the turn, then time still to go."""
    turn = _end(case.episode)
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
)


def _fall_in_rewind(case: Case) -> float:
    """Return how far progress falls while the video is rewound."""
    end = _end(case.episode)
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
)


def _fall_at_restart(case: Case) -> float:
    """Return how far progress falls where the episode begins again, a tenth of its length later."""
    end = _end(case.episode)
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
)


def truncated(share: float) -> Probe:
    """Return the probe that ends the video at a share of its duration."""

    def effect(case: Case) -> float:
        return abs(case.probed.last - float(case.plain.at(_end(case.changed))))

    return Probe(
        name=f"truncated-{share * 100:g}",
        family="time",
        change=lambda episode, context: perturb(episode, "cut", share=share),
        effect=effect,
        bound=Bound(DISTANCE, "below"),
        expectation="what comes later does not change how far it got by then",
        effect_name="distance at the cut",
        truncates=True,
    )


def _stretched(name: str, factor: float) -> Probe:
    def effect(case: Case) -> float:
        return case.probed.difference(case.plain, case.plain.times * factor, case.plain.times)

    return Probe(
        name=name,
        family="time",
        change=lambda episode, context: perturb(episode, "slowed", factor=factor),
        effect=effect,
        bound=Bound(DISTANCE, "below"),
        expectation="the same values at stretched times",
        effect_name="distance of the curves",
    )


def _pause(episode: Episode, context: Context) -> Episode:
    length = _duration(episode)
    return perturb(episode, "paused", at_s=length / 2, seconds=PAUSE * length)


def _rise_in_pause(case: Case) -> float:
    length = _duration(case.episode)
    return float(case.probed.at(length / 2 + PAUSE * length) - case.probed.at(length / 2))


PAUSED = Probe(
    name="paused",
    family="time",
    change=_pause,
    effect=_rise_in_pause,
    bound=Bound(GAIN, "below"),
    expectation="while the robot rests, progress rests",
    effect_name="rise in the pause",
)

TIME_PROBES = (
    BEYOND_LENGTH,
    frozen("first"),
    frozen("last"),
    BLANK,
    _null_success("still-success", "frozen", "a still first frame is no success", _false_success),
    _null_success("blank-success", "blank", "black images show no success", lambda case: case.probed.success),
    ROUND_TRIP,
    REVERSED,
    SHUFFLED,
    REWOUND,
    REPEATED,
    truncated(0.25),
    truncated(0.5),
    truncated(0.75),
    EARLY_SUCCESS,
    _stretched("slowed", 2.0),
    _stretched("sped-up", 0.5),
    PAUSED,
)

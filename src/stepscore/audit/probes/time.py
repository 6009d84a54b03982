"""Probes of time: cut short, slower, faster, paused, with fewer frames."""

from __future__ import annotations

import math

from stepscore.audit.probe import DISTANCE, GAIN, Bound, Case, Context, Probe, end_of
from stepscore.episodes import Episode, perturb

PAUSE = 0.5
"""Length of the pause as a share of the episode's duration, half-way through it."""


def distance(case: Case) -> float:
    """Return the mean absolute difference of the two curves at the recorded curve's times."""
    return case.probed.difference(case.plain, case.plain.times, case.plain.times)


def _duration(episode: Episode) -> float:
    info = episode.info
    return math.nan if info is None else info.duration_s


def truncated(share: float) -> Probe:
    """Return the probe that ends the video at a share of its duration."""

    def effect(case: Case) -> float:
        return abs(case.probed.last - float(case.plain.at(end_of(case.changed))))

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


def _early_success(case: Case) -> float:
    """Return whether success is claimed at a cut before the labelled success; NaN without such a label."""
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
        length=max(factor, 1.0),
    )


def _pause(episode: Episode, context: Context) -> Episode:
    length = _duration(episode)
    return perturb(episode, "paused", at_s=length / 2, seconds=PAUSE * length)


def _rise_in_pause(case: Case) -> float:
    length = _duration(case.episode)
    return float(case.probed.at(length / 2 + PAUSE * length) - case.probed.at(length / 2))


THINNED = Probe(
    name="thinned",
    family="time",
    change=lambda episode, context: perturb(episode, "thinned", every=2),
    effect=distance,
    bound=Bound(DISTANCE, "below"),
    expectation="recorded at half the frame rate, the curve is the same",
    effect_name="distance of the curves",
)

PAUSED = Probe(
    name="paused",
    family="time",
    change=_pause,
    effect=_rise_in_pause,
    bound=Bound(GAIN, "below"),
    expectation="while the robot rests, progress rests",
    effect_name="rise in the pause",
    length=1.0 + PAUSE,
)

TIME_PROBES = (
    truncated(0.25),
    truncated(0.5),
    truncated(0.75),
    EARLY_SUCCESS,
    _stretched("slowed", 2.0),
    _stretched("sped-up", 0.5),
    THINNED,
    PAUSED,
)

"""Probes of still videos: nothing happens, or nothing is to be seen."""

from __future__ import annotations

import math
from collections.abc import Callable

from stepscore.audit.probe import Bound, Case, Context, Probe
from stepscore.audit.probes.bounds import GAIN
from stepscore.episodes import Episode, perturb


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


BLANK = Probe(
    name="blank",
    family="no motion",
    change=lambda episode, context: perturb(episode, "blank"),
    effect=lambda case: case.probed.gain,
    bound=Bound(GAIN, "below"),
    expectation="there is nothing to see, so progress stays where it is",
    effect_name="gain on black images",
)

STILL_PROBES = (
    BEYOND_LENGTH,
    frozen("first"),
    frozen("last"),
    BLANK,
    _null_success("still-success", "frozen", "a still first frame is no success", _false_success),
    _null_success("blank-success", "blank", "black images show no success", lambda case: case.probed.success),
)

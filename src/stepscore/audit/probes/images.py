"""Probes of images: still or black videos, and scenes that look different but are the same."""

from __future__ import annotations

import math
from collections.abc import Callable

from stepscore.audit.probe import DISTANCE, GAIN, Bound, Case, Context, Probe
from stepscore.audit.probes.time import distance
from stepscore.episodes import Episode, perturb
from stepscore.errors import OptionError


def _blank_camera(episode: Episode, context: Context) -> Episode:
    names = list(episode.views)
    if len(names) < 2:
        raise OptionError(f"Episode {episode.id} has one camera; one of two or more can be made black.")
    return perturb(episode, "blank", view=names[-1])


def _alike(name: str, family: str, change: object, expectation: str) -> Probe:
    assert callable(change)
    assert family in ("camera", "image")
    return Probe(
        name=name,
        family="camera" if family == "camera" else "image",
        change=change,
        effect=distance,
        bound=Bound(DISTANCE, "below"),
        expectation=expectation,
        effect_name="distance of the curves",
    )


def _image(name: str, perturbation: str, **options: object) -> Probe:
    return _alike(
        name,
        "image",
        lambda episode, context: perturb(episode, perturbation, **options),
        "the scene is the same, so the curve is",
    )


IMAGE_PROBES = (
    _alike(
        "swapped-cameras",
        "camera",
        lambda episode, context: perturb(episode, "swapped-cameras"),
        "which camera is named first does not change the scene",
    ),
    _alike("blank-camera", "camera", _blank_camera, "another camera still shows the scene"),
    _image("low-resolution", "low-resolution", factor=2.0),
    _image("noisy", "noisy", sigma=12.0),
    _image("recompressed", "recompressed", quality=40),
    _image("darker", "darker", factor=0.7),
    _image("shifted", "shifted", dx=8),
)


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
    """Return whether success is claimed; NaN if it is labelled from the first frame on."""
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

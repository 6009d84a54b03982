"""Probes of the image: a scene that looks different and is the same."""

from __future__ import annotations

from stepscore.audit.probe import Bound, Context, Probe
from stepscore.audit.probes.bounds import DISTANCE
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

"""Which cameras the domain gate lets pass: the trained ones, the simulator's others, random ones, moved ones.

    python -m benchmarks.embedded.camera_gate [--scenes 6] [--seed 60021]

Renders the first frame of scenes of all trained tasks, by which the gate decides about a video, and asks the gate of
the packaged judge under the scene's own instruction. Random cameras look from the cells of directions that were left
out of training (``stepscore.training.gate.cameras``). Fails where a share misses its limit.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscore.episodes import resize_frames
from stepscore.metrics.stats import wilson_interval
from stepscore.models.embedded import FOLDER, GATE_FILE, DomainGate, EmbeddedModel, load_gate
from stepscore.models.qwen3vl import IMAGE_SIDE
from stepscore.sim import VIEWS, RolloutPlan, SimView, get_task
from stepscore.training.embedded.tasks import SECOND_VIEW, TRAINED, VIEW
from stepscore.training.gate.cameras import held_out, random_camera, rendered
from stepscore.types import Frames

LIMIT = 0.05
"""Most episodes of other cameras that may pass, and most of the trained ones that may be refused."""
RANDOM = 6
"""Random cameras for each scene."""
TURNS, DISTANCES = (5, 10, 15, 20, 30), (0.8, 0.9, 1.1, 1.2)
"""Degrees, and factors of the distance, by which the trained views are moved."""


@dataclass(frozen=True, eq=False)
class Shown:
    """A first frame, its camera's kind, and its instruction."""

    kind: str
    pixels: Frames
    instruction: str


def moved(view: str) -> dict[str, SimView]:
    """Return the cameras beside a trained view, by how they are moved."""
    base, found = VIEWS[view], {}
    for turn in TURNS:
        for sign in (-1, 1):
            where = base.azimuth + sign * turn
            found[f"{view}, azimuth {turn}°/{sign:+d}"] = replace(base, azimuth=where)
            if -90 < base.elevation + sign * turn < -5:
                found[f"{view}, elevation {turn}°/{sign:+d}"] = replace(
                    base, elevation=base.elevation + sign * turn
                )
    for factor in DISTANCES:
        found[f"{view}, distance x {factor:g}"] = replace(base, distance=base.distance * factor)
    return found


def render(scenes: int, seed: int) -> list[Shown]:
    """Return the first frames of scenes of all trained tasks under every camera."""
    rng = np.random.default_rng(seed)
    fixed = {**VIEWS, **moved(VIEW), **moved(SECOND_VIEW)}

    def cameras(_: RolloutPlan) -> Mapping[str, SimView]:
        others: dict[str, SimView] = {}
        while len(others) < RANDOM:
            camera = random_camera(rng)
            if held_out(camera.azimuth, camera.elevation):
                others[f"random/{len(others)}"] = camera
        return fixed | others

    plans = [RolloutPlan(task, "expert", scene, seed) for task in TRAINED for scene in range(scenes)]
    return [
        Shown(
            name.partition("/")[0],
            resize_frames(frames, (IMAGE_SIDE, IMAGE_SIDE))[0],
            get_task(plan.task).instruction,
        )
        for plan, found in rendered(plans, cameras, None)
        for name, frames in found.items()
    ]


def passed(gate: DomainGate, features: np.ndarray, shown: Sequence[Shown]) -> np.ndarray:
    """Return which images pass under their instruction."""
    fits = gate.fits(features)
    return np.array([gate.passes(fits[n : n + 1], one.instruction)[0] for n, one in enumerate(shown)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=6)
    parser.add_argument("--seed", type=int, default=60021)
    options = parser.parse_args()
    shown = render(options.scenes, options.seed)
    model = EmbeddedModel(gate=False)
    pixels = [one.pixels for one in shown]
    features = np.concatenate(
        [model._engine.image_features(pixels[n : n + 256]) for n in range(0, len(pixels), 256)]  # noqa: SLF001
    )
    gate = load_gate(FOLDER / GATE_FILE)
    assert gate.cameras is not None, "The packaged gate has no camera check."
    ways: list[np.ndarray] = [
        passed(gate, features, shown),
        np.asarray(gate.cameras.scenes_seen(gate.components(features)).any(axis=1)),
        passed(replace(gate, cameras=None), features, shown),
    ]
    kinds: dict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(shown):
        kinds[one.kind].append(number)
    others = [view for view in VIEWS if view not in (VIEW, SECOND_VIEW)]
    kinds["the simulator's other views"] = [n for view in others for n in kinds[view]]
    print("| camera | episodes | pass | by the camera check alone | without it |\n|---|---|---|---|---|")
    shares = {}
    for kind in sorted(kinds, key=lambda kind: kind.startswith((f"{VIEW},", f"{SECOND_VIEW},"))):
        rows = kinds[kind]
        count = int(ways[0][rows].sum())
        lo, hi = wilson_interval(count, len(rows))
        shares[kind] = count / len(rows)
        rest = " | ".join(f"{way[rows].mean():.3f}" for way in ways[1:])
        print(f"| {kind} | {len(rows)} | {shares[kind]:.3f} [{lo:.3f}, {hi:.3f}] | {rest} |")
    missed = [view for view in (VIEW, SECOND_VIEW) if 1 - shares[view] > LIMIT]
    missed += [kind for kind in (*others, "random") if shares[kind] > LIMIT]
    if missed:
        sys.exit(f"Beyond {LIMIT:.0%}: {', '.join(missed)}.")


if __name__ == "__main__":
    main()

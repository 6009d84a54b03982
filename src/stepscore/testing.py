"""Toy rollouts: drawn videos of a gripper that pushes a block to a goal, with known progress.

For docs and tests: real files in the folder reader's format (manifest, one H.264 video and one
recorded curve per episode), made in a second, in which every policy has a known way of failing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepscore.types import FloatArray, Frames

TASKS = (
    "push the red block to the goal",
    "push the green block to the goal",
    "push the blue block to the goal",
)
COLOURS = ((200, 60, 50), (60, 160, 70), (60, 90, 200))
N_FRAMES, SIZE, FPS = 48, 96, 12.0


@dataclass(frozen=True)
class ToyPolicy:
    """How a toy policy fails.

    Attributes:
        fails: Share of scenes in which it fails.
        how: The way it then fails: ``"stall"``, ``"drop"`` or ``"short"``.
        detours: Small losses of progress on the way, per episode on average.
    """

    fails: float
    how: str
    detours: float


POLICIES = {
    "steady": ToyPolicy(fails=0.15, how="short", detours=0.3),
    "hasty": ToyPolicy(fails=0.45, how="drop", detours=1.5),
    "timid": ToyPolicy(fails=0.55, how="stall", detours=0.6),
}


def write_toy_rollouts(folder: Path, *, scenes: int = 8, seed: int = 0) -> Path:
    """Write ``scenes`` rollouts of every policy on every task; return the folder, ready for ``open_episodes``."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for task, colour in zip(TASKS, COLOURS, strict=True):
        for policy, behaviour in POLICIES.items():
            for scene in range(scenes):
                # The same scene for every policy, so that comparisons can be paired.
                start = np.random.default_rng([seed, TASKS.index(task), scene]).uniform(0.1, 0.25)
                rng = np.random.default_rng([seed, TASKS.index(task), list(POLICIES).index(policy), scene])
                truth, success = toy_progress(behaviour, rng)
                name = f"{policy}/{task.split()[2]}_{scene:02d}"
                _write_video(folder / f"{name}.mp4", _draw(truth, colour, float(start)))
                _write_curve(folder / f"{name}.curve.csv", truth, rng)
                lines.append(
                    {
                        "id": name,
                        "video": f"{name}.mp4",
                        "instruction": task,
                        "task": task,
                        "policy": policy,
                        "success": bool(success),
                        "pair": f"scene {scene:02d}",
                    }
                )
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "manifest.jsonl").write_text(text, encoding="utf-8")
    return folder


def toy_progress(behaviour: ToyPolicy, rng: np.random.Generator) -> tuple[FloatArray, bool]:
    """Return true progress at every frame of one rollout, and whether it succeeds."""
    success = bool(rng.uniform() >= behaviour.fails)
    t = np.linspace(0.0, 1.0, N_FRAMES)
    end = rng.uniform(0.75, 0.95)
    progress = np.clip(t / end, 0.0, 1.0)
    for _ in range(rng.poisson(behaviour.detours)):
        middle = rng.uniform(0.15, 0.6)
        progress = progress - rng.uniform(0.08, 0.2) * np.exp(-(((t - middle) / 0.05) ** 2))
    if not success and behaviour.how == "stall":
        progress = np.minimum(progress, rng.uniform(0.25, 0.55))
    elif not success and behaviour.how == "short":
        progress = progress * rng.uniform(0.78, 0.92)
    elif not success:
        lost = rng.uniform(0.55, 0.7)
        progress = np.where(t < lost, progress, progress[np.searchsorted(t, lost)] * rng.uniform(0.2, 0.4))
    return np.clip(progress, 0.0, 1.0), success


def _draw(truth: FloatArray, colour: tuple[int, int, int], start: float) -> Iterator[Frames]:
    goal = SIZE - 16
    for value in truth:
        image = np.full((SIZE, SIZE, 3), 235, np.uint8)
        image[60:76, goal : goal + 12] = (170, 220, 170)
        x = int(start * SIZE + value * (goal - start * SIZE))
        image[62:74, x : x + 12] = colour
        image[40:62, x + 4 : x + 8] = (70, 70, 70)
        yield image


def _write_curve(path: Path, truth: FloatArray, rng: np.random.Generator) -> None:
    """Write the curve of an imagined judge: true progress at every fourth frame, with noise of 0.01."""
    rows = ["time_s,progress"]
    for index in range(3, N_FRAMES, 4):
        noisy = float(np.clip(truth[index] + rng.normal(0.0, 0.01), 0.0, 1.0))
        rows.append(f"{index / FPS:.4f},{1.0 if truth[index] >= 1.0 else round(noisy, 3)}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def _write_video(path: Path, frames: Iterator[Frames]) -> None:
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=int(FPS), options={"crf": "23", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = SIZE, SIZE, "yuv420p"
        for image in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())

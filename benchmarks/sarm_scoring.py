"""SARM: scoring an episode with every frame encoded once, against encoding a window for every frame.

::

    python -m benchmarks.sarm_scoring [--encoder embedded|hf/PATH] [--frames 120]

Both score every frame of one video with the same random network of the default size and must give the same progress.
A window is the published one: the first frame, 8 more, and 4 slots that stay black outside of training.
Seconds are CPU time on one thread, of the first way the median of 5 runs after a warm-up: its first run costs up to
a third more, and lasts less than a second. Limit: at least 8 times as fast.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from stepscore.models.sarm.checkpoint import save_checkpoint
from stepscore.models.sarm.config import Procedure, SarmConfig
from stepscore.models.sarm.encoders import get_encoder
from stepscore.models.sarm.model import SarmModel
from stepscore.models.sarm.network import SarmNetwork, SarmShape
from stepscore.models.sarm.window import Window
from stepscore.types import Frames

TASK, FPS, MIN_SPEEDUP, REPEATS = "open the drawer", 10.0, 8.0, 5


def random_checkpoint(folder: Path, encoder: str) -> SarmModel:
    """Write a checkpoint of the default size with random weights, and return its model."""
    frame_encoder = get_encoder(encoder)
    image = np.zeros((1, frame_encoder.side, frame_encoder.side, 3), np.uint8)
    window = Window(8, 0.5, causal=True)
    procedures = {"sparse": {TASK: Procedure(("task",), (0.0, 1.0))}}
    procedures["dense"] = {TASK: Procedure(("reach", "grasp", "pull"), (0.0, 0.3, 0.6, 1.0))}
    shape = SarmShape(
        features=frame_encoder.encode_images(image).shape[1],
        text=frame_encoder.encode_text([TASK]).shape[1],
        views=1,
        state=0,
        stages={"sparse": 1, "dense": 3},
        slots=window.slots,
        causal=True,
    )
    torch.manual_seed(0)
    config = SarmConfig(
        "dense",
        window,
        ("top",),
        (),
        dict(frame_encoder.describe()),
        dataclasses.asdict(shape),
        procedures,
        {},
        "stages",
    )
    save_checkpoint(folder, config, SarmNetwork(shape))
    return SarmModel(str(folder))


def once(model: SarmModel, frames: Frames) -> np.ndarray:
    """Return progress at every frame, each encoded once."""
    times = np.arange(len(frames)) / FPS
    features = model.encode_images([frames])
    return model.predict(times, features, TASK, TASK, np.arange(len(frames))).heads["dense"].progress


def window_by_window(model: SarmModel, frames: Frames) -> np.ndarray:
    """Return progress at every frame, the frames of its window encoded for it."""
    times, progress = np.arange(len(frames)) / FPS, []
    # As LeRobot's code does: every slot is encoded, repeats and the black images of rewind slots included.
    black = np.zeros((model.config.window.rewind, *frames.shape[1:]), np.uint8)
    for scored in range(len(frames)):
        window, _ = model.config.window.frames_at(times, np.array([scored]))
        features = model.encode_images([np.concatenate([frames[window[0]], black])])
        unique, first = np.unique(window[0], return_index=True)
        last = np.array([len(unique) - 1])
        predicted = model.predict(times[unique], features[first], TASK, TASK, last)
        progress.append(predicted.heads["dense"].progress[0])
    return np.array(progress)


def cpu_seconds(score: Callable[[SarmModel, Frames], np.ndarray], model: SarmModel, frames: Frames) -> float:
    """Return the processor time of scoring a video."""
    started = time.process_time()
    score(model, frames)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--frames", type=int, default=120)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = random_checkpoint(Path(folder), options.encoder)
        shape = (options.frames, model.frame_encoder.side, model.frame_encoder.side, 3)
        frames = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        curves = [once(model, frames)]
        started = time.process_time()
        curves.append(window_by_window(model, frames))
        windows = time.process_time() - started
        took = [statistics.median(cpu_seconds(once, model, frames) for _ in range(REPEATS)), windows]
    ratio = took[1] / took[0]
    error = float(np.abs(curves[0] - curves[1]).max())
    print(f"{options.frames} frames, encoder {options.encoder}")
    print(
        f"every frame once: {took[0]:.2f} s; a window for every frame: {took[1]:.2f} s; {ratio:.1f} times as fast"
    )
    print(f"largest difference of progress: {error:.1e}")
    if ratio < MIN_SPEEDUP or error > 1e-3:
        sys.exit(f"FAILED: at least {MIN_SPEEDUP:g} times, and the same progress to 1e-3.")


if __name__ == "__main__":
    main()

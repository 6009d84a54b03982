"""A LeRobot dataset of a small arm with state and action, and a judge to watch it by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import stepscore
from stepscore.episodes import Episode, open_episodes
from stepscore.episodes.lerobot.writing.writer import Recording, write_lerobot
from stepscore.judges import Ask
from stepscore.models import Model
from stepscore.types import Curve, FloatArray, Judgement
from tests.media import numbered

FPS = 20.0
JOINTS = ("pan", "lift", "grip")
LENGTHS = (40, 30, 50)


def recorded(episode: int) -> dict[str, FloatArray]:
    """State, action and force of an episode; the lift's state is unknown from frame 10 to 14."""
    t = np.arange(LENGTHS[episode]) / FPS
    state = np.stack([np.sin(2 * t + episode), 3 - t, np.where(t > 1, 1.0, 0.0)], axis=1)
    action = state + 0.1
    state[10:15, 1] = np.nan
    return {"observation.state": state, "action": action, "observation.force": np.cos(5 * t)[:, None]}


def write_dataset(folder: Path) -> Path:
    """Three episodes in one file; their frames show their own number."""
    recordings = []
    for episode, n in enumerate(LENGTHS):
        signals = recorded(episode)
        frames = [
            {"observation.images.top": numbered(sum(LENGTHS[:episode]) + i)}
            | {name: values[i].astype(np.float64) for name, values in signals.items()}
            for i in range(n)
        ]
        recordings.append(Recording("lift the block", frames, {"policy": "act"}))
    write_lerobot(folder, recordings, fps=FPS)
    info = folder / "meta" / "info.json"
    content = json.loads(info.read_text(encoding="utf-8"))
    for name in ("observation.state", "action"):
        content["features"][name]["names"] = list(JOINTS)
    info.write_text(json.dumps(content), encoding="utf-8")
    return folder


def write_run(folder: Path) -> Path:
    """A run over the dataset whose first episode loses half of what it had at 1 s."""
    source = write_dataset(folder / "dataset")
    stepscore.score(open_episodes(source), Onlooker(), out=folder / "run")
    return folder / "run"


@dataclass
class Onlooker:
    """Progress that is the share of the time; the first episode falls at 1 s."""

    name: str = "onlooker"
    version: int = 1
    models: tuple[Model, ...] = ()

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        times = episode.view("top").timestamps()[::5]
        progress = np.round(times / times[-1], 4)
        if episode.source_index == 0:
            progress = np.round(np.where(times > 1, progress / 3, progress), 4)
        return Judgement(Curve(times, progress), (), float(progress[-1] * 0.9))

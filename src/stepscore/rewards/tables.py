"""The rewards of a run: one row for each frame of its episodes, as a table by the dataset's index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pyarrow as pa

from stepscore._files import write_parquet
from stepscore._options import MANY, Range
from stepscore.curation import METADATA, EpisodeFrames, RunFrames, run_frames
from stepscore.errors import OptionError
from stepscore.rewards.forms import CLIP, EVERY, potential_reward, relative_reward, terminal_reward
from stepscore.runs import Run
from stepscore.types import FloatArray

Form = Literal["potential", "relative", "dense", "terminal"]
SuccessBy = Literal["label", "judge"]
SAFE: Mapping[str, str] = {
    "potential": "added to the environment's reward it changes no optimal policy",
    "relative": "for RL with a judge that is checked on the policy being trained; it can change the optimal policy",
    "dense": "a weight for imitation, not a reward for RL: standing still earns nearly the maximum",
    "terminal": "for RL; a false positive of the judge is rewarded like a success",
}
"""What each form is for."""
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "potential": ("gamma",),
    "relative": ("clip", "every"),
    "dense": ("tau", "delta_max"),
    "terminal": (),
}
"""The options of each form."""


@dataclass(frozen=True)
class RewardOptions:
    """How progress becomes a reward; the defaults are those of the form.

    Attributes:
        form: potential, relative, dense or terminal.
        gamma: potential: discount of the learner (0.99).
        tau: dense: weight of no change (2).
        delta_max: dense: largest weight (2).
        clip: relative: largest change (0.2).
        every: relative: steps between two looks (3).
        success_by: Success by label or by judge.
        channel: Channel of the curve. minmax works with form=dense only.
    """

    form: Form = "potential"
    gamma: Annotated[float | None, Range(0, 1, above=True)] = None
    tau: Annotated[float | None, Range(0, MANY, above=True)] = None
    delta_max: Annotated[float | None, Range(0, MANY, above=True)] = None
    clip: Annotated[float | None, Range(0, 1, above=True)] = None
    every: Annotated[int | None, Range(1, 1_000_000)] = None
    success_by: SuccessBy = "label"
    channel: str = "progress"

    def __post_init__(self) -> None:
        for name, allowed in (("form", get_args(Form)), ("success_by", get_args(SuccessBy))):
            if getattr(self, name) not in allowed:
                raise OptionError(f"{name} must be {', '.join(allowed)}, got {getattr(self, name)!r}.")
        for name in self._given():
            if name not in OPTIONS[self.form]:
                valid = ", ".join(OPTIONS[self.form]) or "no further option"
                raise OptionError(f"{name} does nothing with form={self.form}, which takes {valid}.")

    def content(self) -> dict[str, object]:
        """Return the options that hold, the defaults included."""
        defaults = {"gamma": 0.99, "tau": 2.0, "delta_max": 2.0, "clip": CLIP, "every": EVERY}
        chosen = {name: defaults[name] for name in OPTIONS[self.form]} | self._given()
        return {"form": self.form, **chosen, "success_by": self.success_by, "channel": self.channel}

    def _given(self) -> dict[str, Any]:
        names = ("gamma", "tau", "delta_max", "clip", "every")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True)
class RunRewards:
    """The rewards of every frame of some episodes, in the order of the dataset's index.

    Attributes:
        frames: The frames and their progress.
        rewards: One value for each; NaN for unknown.
        options: How they were made.
    """

    frames: RunFrames
    rewards: FloatArray
    options: Mapping[str, object]

    @property
    def unknown(self) -> float:
        """Share of rewards that are unknown; NaN without any."""
        return float(np.isnan(self.rewards).mean()) if len(self.rewards) else float("nan")

    def summary(self) -> str:
        """Return one sentence: how many, how many are unknown, and their range."""
        known = self.rewards[~np.isnan(self.rewards)]
        counted = f"{len(self.rewards)} rewards of {len(self.frames.episodes)} episodes"
        if not len(known):
            return f"{counted}, all of them unknown."
        ends = f"mean {known.mean():.3f}, from {known.min():.3f} to {known.max():.3f}"
        return f"{counted}, {100 * self.unknown:.1f} % unknown; {ends}."

    @property
    def sums(self) -> FloatArray:
        """Sum of each episode's known rewards."""
        parts = np.split(self.rewards, self.frames.starts[1:-1])
        return np.array([np.nansum(part) for part in parts])


def run_rewards(run: Run, options: RewardOptions | None = None) -> RunRewards:
    """Return the reward of every frame of a run.

    Args:
        run: From :func:`stepscore.open_run`.
        options: The form; the potential difference by default.
    """
    chosen = options or RewardOptions()
    if chosen.form != "dense" and chosen.channel == "minmax":
        raise OptionError("minmax lifts every failure to 1; use the channel progress, or form=dense.")
    frames = run_frames(run, chosen.channel)
    verdicts = _verdicts(run) if chosen.success_by == "judge" else {e.id: e.success for e in frames.episodes}
    content = chosen.content()
    parts = [
        _of_episode(episode, frames.progress[start:stop], frames.changes[start:stop], verdicts, content)
        for episode, start, stop in zip(frames.episodes, frames.starts[:-1], frames.starts[1:], strict=True)
    ]
    return RunRewards(frames, np.concatenate([np.zeros(0), *parts]), content)


def _of_episode(
    episode: EpisodeFrames,
    progress: FloatArray,
    changes: FloatArray,
    verdicts: Mapping[str, bool | None],
    options: Mapping[str, Any],
) -> FloatArray:
    success = verdicts.get(episode.id)
    match options["form"]:
        case "potential":
            return potential_reward(progress, gamma=options["gamma"], terminated=success)
        case "relative":
            return relative_reward(progress, clip=options["clip"], every=options["every"])
        case "dense":
            # metrics.dense_reward on the points of the curve; each frame has the weight of its step.
            weights: FloatArray = np.clip(options["tau"] * np.exp(changes), 0.0, options["delta_max"])
            return weights
        case _:
            return terminal_reward(episode.n_frames, success=success)


def _verdicts(run: Run) -> dict[str, bool | None]:
    """Return success by the judge: the probability at 0.5, else the score."""
    table = run.judgements()
    found: dict[str, bool | None] = {}
    for row in table.to_pylist():
        value = row.get("success_probability")
        value = row.get("success_score") if value is None else value
        found[row["episode_id"]] = None if value is None else bool(value >= 0.5)
    return found


def write_rewards(path: Path, made: RunRewards, provenance: Mapping[str, object]) -> None:
    """Write one row for each frame: ``index``, ``episode_index``, ``frame_index``, ``next.reward``, ``progress``.

    ``next.reward`` is the column in which LeRobot keeps the reward of a frame's action (float32); null is unknown.

    Args:
        path: Ends in ``.parquet``.
        made: The rewards.
        provenance: Run, judge and protocol, kept as JSON in the file's metadata with the options.
    """
    frames = made.frames
    columns = {
        "index": pa.array(frames.index()),
        "episode_index": pa.array(frames.episode_index()),
        "frame_index": pa.array(frames.frame_index()),
        "next.reward": _floats(made.rewards),
        "progress": _floats(frames.progress),
    }
    text = json.dumps({**provenance, "rewards": dict(made.options)}, sort_keys=True, default=str)
    write_parquet(path, pa.table(columns).replace_schema_metadata({METADATA: text}), make_folder=True)


def _floats(values: FloatArray) -> pa.Array:
    return pa.array(values.astype(np.float32), pa.float32(), mask=np.isnan(values))

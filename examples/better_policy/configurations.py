"""The configurations that are compared: whose progress, and how it becomes a weight for every sample.

Every configuration's weights have mean 1 over the dataset's frames. An unknown frame has the
mean weight, so that it decides nothing; in RA-BC as published it has 1, LeRobot's default.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from examples.better_policy.demonstrations import Record, read_facts
from examples.better_policy.judging import judged
from examples.better_policy.setting import Setting
from stepscore.analysis import measure_episodes
from stepscore.curation import (
    FrameWeights,
    RunFrames,
    Weighting,
    keep_all,
    lerobot_rabc,
    run_frames,
    select_episodes,
    topreward_awr,
    without_stalls,
    write_weights,
)
from stepscore.curation.files import read_weights
from stepscore.runs import Run
from stepscore.types import FloatArray, IntArray

PLAIN, LABELS, GOOD, SHUFFLED = "plain", "success label", "good alone", "shuffled"
TOP, BY, REVISION, STALL_S = 0.5, "PPL", "v1.0", 0.3
"""The filter: the better half of a task's demonstrations by this metric, without stalls of that many seconds."""

Weigh = Callable[[Run, RunFrames, Setting], Weighting]


def _filtered(run: Run, frames: RunFrames, setting: Setting) -> Weighting:
    kept = select_episodes(measure_episodes(run, revision=REVISION), top=TOP, by=BY).kept
    return without_stalls(keep_all(frames.select(kept)), seconds=STALL_S)


FORMS: Mapping[str, Weigh] = {
    "rabc": lambda run, frames, setting: lerobot_rabc(frames, chunk_size=setting.chunk),
    "awr": lambda run, frames, setting: topreward_awr(frames),
    "awr dense": lambda run, frames, setting: topreward_awr(
        frames, advantage="plain-change", tau_role="prefactor"
    ),
    "filter": _filtered,
}
"""How progress becomes weights: the published forms with their published values, the others with their defaults."""
SHUFFLED_FORM = "rabc"


@dataclass(frozen=True)
class Configuration:
    """One way to weight the demonstrations.

    Attributes:
        source: Whose progress: ``truth``, ``sarm``, ``embedded``; empty where none is used.
        form: A name of ``FORMS``, or ``plain``, ``success label``, ``good alone``, ``shuffled``.
    """

    source: str
    form: str

    @property
    def name(self) -> str:
        """Source and form: ``"sarm: rabc"``."""
        return f"{self.source}: {self.form}" if self.source else self.form


def all_configurations(sources: Sequence[str]) -> tuple[Configuration, ...]:
    """Return plain first, the filters by label, and every source with every form and its shuffled weights."""
    return (
        Configuration("", PLAIN),
        Configuration("", LABELS),
        Configuration("", GOOD),
        *(Configuration(source, form) for source in sources for form in (*FORMS, SHUFFLED)),
    )


def make_weights(folder: Path, setting: Setting) -> None:
    """Write the weights of every source and form for a task, as ``stepscore weights`` does."""
    for source in setting.sources:
        run = judged(folder, source)
        frames = run_frames(run)
        for form, weigh in FORMS.items():
            path = weights_file(folder, Configuration(source, form))
            if not path.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                provenance = {"source": source, "form": form, "protocol": run.protocol.hash}
                write_weights(path, weigh(run, frames, setting), provenance=provenance)


def weights_file(folder: Path, config: Configuration) -> Path:
    """Return the file of a configuration's weights."""
    return folder / "weights" / f"{config.source}-{config.form.replace(' ', '-')}.parquet"


def frame_weights(folder: Path, config: Configuration, owner: IntArray, seed: int) -> FrameWeights:
    """Return a configuration's weight of every frame of the task's demonstrations.

    Args:
        folder: The task's folder.
        config: The configuration.
        owner: Episode of every frame of the dataset.
        seed: Random seed of shuffled weights; other configurations do not depend on it.
    """
    index = np.arange(len(owner))
    if config.form == PLAIN:
        return FrameWeights.from_arrays(index, np.ones(len(owner)))
    if config.form in (LABELS, GOOD):
        kept = {"good"} if config.form == GOOD else {"good", "wasteful"}
        chosen = np.array([kind in kept for kind in read_facts(folder).kinds])
        return FrameWeights.from_arrays(index, chosen[owner])
    if config.form == SHUFFLED:
        unshuffled = frame_weights(folder, Configuration(config.source, SHUFFLED_FORM), owner, seed)
        return FrameWeights.from_arrays(index, shuffled(unshuffled.weight, folder.name, seed))
    rows, known = read_weights(weights_file(folder, config))
    unknown = 1.0 if config.form == "rabc" else float(np.nanmean(known))
    weights = np.zeros(len(owner))
    weights[rows] = np.where(np.isnan(known), unknown, known)
    return FrameWeights.from_arrays(index, weights)


def shuffled(weights: FloatArray, task: str, seed: int) -> FloatArray:
    """Return the same weights on other frames of the same task."""
    return np.random.default_rng([zlib.crc32(task.encode()), seed]).permutation(weights)


def sample_weights(folder: Path, configs: Sequence[Configuration], record: Record, seed: int) -> FloatArray:
    """Return weights (configurations, n): a sample has that of the frame shown when its action was done."""
    rows = [frame_weights(folder, config, record.owner, seed).of(record.frame).numpy() for config in configs]
    return np.stack(rows).astype(np.float64)

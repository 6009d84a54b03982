"""The arms: from whom the progress comes, and how it becomes a weight for every sample.

Every arm's weights have mean 1 over the dataset's frames. What a judge does not know counts as its mean weight, so
that it decides nothing; in RA-BC as published it counts 1, as LeRobot's default has it.
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

from stepscore.analysis.measures import measure_episodes
from stepscore.curation import (
    FrameWeights,
    RunFrames,
    Weighting,
    awr,
    awr_logistic,
    keep_all,
    rabc,
    rabc_corrected,
    run_frames,
    select_episodes,
    without_stalls,
    write_weights,
)
from stepscore.curation.files import read_weights
from stepscore.runs import Run
from stepscore.types import FloatArray, IntArray

PLAIN, LABELS, GOOD, SHUFFLED = "plain", "success label", "good alone", "shuffled"
TOP, BY, STALL_S = 0.5, "PPL", 0.3
"""The filter: the better half of a task's demonstrations by this metric, without stalls of so many seconds."""

Weigh = Callable[[Run, RunFrames, Setting], Weighting]


def _filtered(run: Run, frames: RunFrames, setting: Setting) -> Weighting:
    kept = select_episodes(measure_episodes(run), top=TOP, by=BY).kept
    return without_stalls(keep_all(frames.select(kept)), seconds=STALL_S)


FORMS: Mapping[str, Weigh] = {
    "rabc": lambda run, frames, setting: rabc(frames, chunk_size=setting.chunk),
    "rabc corrected": lambda run, frames, setting: rabc_corrected(frames, chunk_size=setting.chunk),
    "awr": lambda run, frames, setting: awr(frames),
    "awr logistic": lambda run, frames, setting: awr_logistic(frames, chunk_size=setting.chunk),
    "filter": _filtered,
}
"""How progress becomes weights: the published forms at their published values, and the others at their defaults."""
SHUFFLED_FORM = "rabc corrected"


@dataclass(frozen=True)
class Arm:
    """One way to train.

    Attributes:
        source: Whose progress; empty where no progress is asked for.
        form: A name of ``FORMS``, or ``plain``, ``success label``, ``good alone``, ``shuffled``.
    """

    source: str
    form: str

    @property
    def name(self) -> str:
        """``"sarm: rabc"``."""
        return f"{self.source}: {self.form}" if self.source else self.form


def all_arms(sources: Sequence[str]) -> tuple[Arm, ...]:
    """Plain first, the filters that know more than a judge, every source with every form and its shuffled weights."""
    return (
        Arm("", PLAIN),
        Arm("", LABELS),
        Arm("", GOOD),
        *(Arm(source, form) for source in sources for form in (*FORMS, SHUFFLED)),
    )


def make_weights(folder: Path, setting: Setting) -> None:
    """Write the weights of every source and form for a task, as ``stepscore weights`` does."""
    for source in setting.sources:
        run = judged(folder, source)
        frames = run_frames(run)
        for form, weigh in FORMS.items():
            path = weights_file(folder, Arm(source, form))
            if not path.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                made_by = {"source": source, "form": form, "protocol": run.protocol.hash}
                write_weights(path, weigh(run, frames, setting), made_by=made_by)


def weights_file(folder: Path, arm: Arm) -> Path:
    """Where an arm's weights are kept."""
    return folder / "weights" / f"{arm.source}-{arm.form.replace(' ', '-')}.parquet"


def frame_weights(folder: Path, arm: Arm, owner: IntArray, seed: int) -> FrameWeights:
    """An arm's weight of every frame of the task's demonstrations.

    Args:
        folder: The task's.
        arm: Which.
        owner: The episode of every frame of the dataset.
        seed: Of the order in which shuffled weights are dealt out; other arms do not depend on it.
    """
    index = np.arange(len(owner))
    if arm.form == PLAIN:
        return FrameWeights.of_arrays(index, np.ones(len(owner)))
    if arm.form in (LABELS, GOOD):
        kept = {"good"} if arm.form == GOOD else {"good", "wasteful"}
        chosen = np.array([kind in kept for kind in read_facts(folder).kinds])
        return FrameWeights.of_arrays(index, chosen[owner])
    if arm.form == SHUFFLED:
        straight = frame_weights(folder, Arm(arm.source, SHUFFLED_FORM), owner, seed)
        return FrameWeights.of_arrays(index, shuffled(straight.weight, folder.name, seed))
    rows, known = read_weights(weights_file(folder, arm))
    unknown = 1.0 if arm.form == "rabc" else float(np.nanmean(known))
    weights = np.zeros(len(owner))
    weights[rows] = np.where(np.isnan(known), unknown, known)
    return FrameWeights.of_arrays(index, weights)


def shuffled(weights: FloatArray, task: str, seed: int) -> FloatArray:
    """The same weights on other frames of the same task."""
    return np.random.default_rng([zlib.crc32(task.encode()), seed]).permutation(weights)


def sample_weights(folder: Path, arms: Sequence[Arm], record: Record, seed: int) -> FloatArray:
    """The weight of every arm and sample, (arms, n): that of the frame shown when the action was done."""
    found = [frame_weights(folder, arm, record.owner, seed).of(record.frame).numpy() for arm in arms]
    return np.stack(found).astype(np.float64)

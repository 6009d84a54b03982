"""The ``lerobot-train`` command for the files that this package writes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from stepscore.curation.files import episode_list
from stepscore.curation.frames import RunFrames
from stepscore.curation.rabc_lerobot import FALLBACK_WEIGHT
from stepscore.curation.weighting import Weighting
from stepscore.runs import Run


def lerobot_train_command(
    run: Run, frames: RunFrames, *, policy: str, weighting: Weighting | None, progress: Path | None
) -> str | None:
    """Return the command for LeRobot 0.6 and later, on several lines; ``None`` without a LeRobot dataset.

    ``weighting`` and ``progress`` are RA-BC as LeRobot computes it and its progress file; without them, the command
    only has the list of episodes.
    """
    if not frames.numbered:
        return None
    flags = [*_dataset_flags(run), f"--policy.type={policy}"]
    if len(frames.episodes) < run.episodes().num_rows:
        flags.append(f"--dataset.episodes={episode_list(frames)}")
    if weighting is not None and progress is not None:
        chunk = weighting.options["chunk_size"]
        flags += [
            f"--policy.chunk_size={chunk}",
            f"--policy.n_action_steps={chunk}",
            "--sample_weighting.type=rabc",
            f"--sample_weighting.progress_path={progress.resolve()}",
            "--sample_weighting.head_mode=sparse",
            f"--sample_weighting.kappa={weighting.options['kappa']:g}",
        ]
        if (fallback := weighting.options["fallback_weight"]) != FALLBACK_WEIGHT:
            extra = json.dumps({"fallback_weight": fallback})
            flags.append(f"--sample_weighting.extra_params={extra}")
    return " \\\n  ".join(["lerobot-train", *(shlex.quote(flag) for flag in flags)])


def dataset_train_command(root: Path, policy: str) -> str:
    """Return the command that trains on a whole dataset on disk, on several lines."""
    flags = [
        f"--dataset.repo_id=local/{root.name}",
        f"--dataset.root={root.resolve()}",
        f"--policy.type={policy}",
    ]
    return " \\\n  ".join(["lerobot-train", *(shlex.quote(flag) for flag in flags)])


def _dataset_flags(run: Run) -> list[str]:
    row = run.episodes().select(["source", "dataset"]).slice(0, 1).to_pylist()[0]
    source = Path(row["source"])
    if not source.exists():
        return [f"--dataset.repo_id={row['source']}"]
    # LeRobot requires a name even for a dataset on disk; any owner/name works.
    name = row["dataset"] or source.name
    return [
        f"--dataset.repo_id={name if '/' in name else f'local/{name}'}",
        f"--dataset.root={source.resolve()}",
    ]

"""The ``lerobot-train`` command that reads what was written here."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from stepscore.curation.files import episode_list
from stepscore.curation.frames import RunFrames
from stepscore.curation.rabc_lerobot import FALLBACK
from stepscore.curation.weighting import Weighting
from stepscore.runs import Run


def train_command(
    run: Run, frames: RunFrames, *, policy: str, weighting: Weighting | None, progress: Path | None
) -> str | None:
    """The command for LeRobot 0.6 and later, over several lines; ``None`` where the source is no LeRobot dataset.

    Args:
        run: Its source says which dataset.
        frames: The chosen episodes.
        policy: LeRobot's name of the policy's type.
        weighting: RA-BC as LeRobot computes it, whose options the command repeats; ``None`` for a list of
            episodes alone.
        progress: The progress file, with ``weighting``.
    """
    if not frames.numbered:
        return None
    words = [*_dataset(run), f"--policy.type={policy}"]
    if len(frames.episodes) < run.episodes().num_rows:
        words.append(f"--dataset.episodes={episode_list(frames)}")
    if weighting is not None and progress is not None:
        chunk = weighting.options["chunk_size"]
        words += [
            f"--policy.chunk_size={chunk}",
            f"--policy.n_action_steps={chunk}",
            "--sample_weighting.type=rabc",
            f"--sample_weighting.progress_path={progress.resolve()}",
            "--sample_weighting.head_mode=sparse",
            f"--sample_weighting.kappa={weighting.options['kappa']:g}",
        ]
        if (fallback := weighting.options["fallback_weight"]) != FALLBACK:
            extra = json.dumps({"fallback_weight": fallback})
            words.append(f"--sample_weighting.extra_params={extra}")
    return " \\\n  ".join(["lerobot-train", *(shlex.quote(word) for word in words)])


def _dataset(run: Run) -> list[str]:
    row = run.episodes().select(["source", "dataset"]).slice(0, 1).to_pylist()[0]
    source = Path(row["source"])
    if not source.exists():
        return [f"--dataset.repo_id={row['source']}"]
    # LeRobot wants a name even for a dataset on disk; any name with an owner will do.
    name = row["dataset"] or source.name
    return [
        f"--dataset.repo_id={name if '/' in name else f'local/{name}'}",
        f"--dataset.root={source.resolve()}",
    ]

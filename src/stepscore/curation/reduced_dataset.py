"""The kept episodes of a run as a LeRobot dataset of their own."""

from __future__ import annotations

from pathlib import Path

from stepscore.curation.frames import RunFrames
from stepscore.episodes.lerobot.writing import write_reduced
from stepscore.errors import OptionError
from stepscore.runs import Run


def write_kept_dataset(run: Run, frames: RunFrames, root: Path) -> Path:
    """Write the run's LeRobot dataset with these episodes only; return its folder.

    Args:
        run: The run; its source must be a LeRobot v3.0 dataset on this machine.
        frames: The episodes to keep.
        root: The new dataset's folder; new or empty.
    """
    sources = sorted(set(run.episodes().column("source").to_pylist()))
    if not frames.numbered or len(sources) != 1:
        raise OptionError(
            f"--write-dataset needs a run of one LeRobot dataset; {run.path} is of {', '.join(map(str, sources))}."
        )
    source = Path(sources[0])
    if not source.is_dir():
        raise OptionError(
            f"--write-dataset copies from the dataset {source}, which is not a folder on this machine. Download it, "
            "and judge the copy."
        )
    return write_reduced(source, [episode.number for episode in frames.episodes], root)

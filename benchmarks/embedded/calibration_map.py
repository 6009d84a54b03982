"""The map from log-odds to progress, fitted on episodes of other seeds with the product's own calibration."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.embedded.testset import read_any
from stepscore.analysis.calibration import calibrate
from stepscore.judges.common.calibration import (
    FittedMap,
    check_calibration,
    read_calibration,
    write_calibration,
)
from stepscore.judges.topreward import TopReward
from stepscore.models.embedded.model import CALIBRATION
from stepscore.procedures.labels_table import write_labels
from stepscore.runs import CallOptions
from stepscore.runs.scoring import score
from stepscore.training.embedded.tasks import VIEW

SHARE = 0.9
"""Share of the scenes that the map is fitted on; what it gives on the others stands in its file."""


def calibration_map(judge: TopReward, datasets: Sequence[Path], out: Path) -> FittedMap:
    """The map at ``out``, or one fitted on these datasets and kept there.

    Args:
        judge: The judge as it is evaluated.
        datasets: Simulated datasets whose seeds are neither trained on (in the main) nor tested on; without any,
            the map is the one in the package.
        out: The map's file.
    """
    if not out.is_file() and not datasets:
        write_calibration(read_calibration(CALIBRATION), out)
    elif not out.is_file():
        episodes = [e.with_views([VIEW]) for dataset in datasets for e in read_any(dataset)]
        with tempfile.TemporaryDirectory() as folder:
            labels = Path(folder) / "labels.parquet"
            write_labels(labels, {e.id: list(e.labels.rows) for e in episodes})
            plain = [replace(e, subgoals=()) for e in episodes]
            run = score(plain, judge, Path(folder) / "run", call_options=CallOptions(cache=False))
            found = calibrate(run, labels=labels, channel="margin", share=SHARE)
        write_calibration(found.fitted, out)
    fitted = read_calibration(out)
    check_calibration(fitted, judge, judge.model)
    return fitted

"""The files that training reads: LeRobot's progress file, a table of weights by index, and a list of episodes.

Every file is written under a temporary name and renamed when it is complete.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stepscore._files import write_parquet, write_text
from stepscore.curation.frames import RunFrames
from stepscore.curation.weighting import Weighting
from stepscore.errors import OptionError
from stepscore.types import FloatArray, IntArray

METADATA = "stepscore"
"""The key of the provenance in a table's metadata, by which a command knows a file of its own."""


def write_lerobot_progress(
    path: Path, frames: RunFrames, *, dense: FloatArray | None = None, provenance: Mapping[str, object]
) -> None:
    """Write the progress file that LeRobot's RA-BC reads unchanged: one row per frame, by index.

    Columns ``index``, ``episode_index`` and ``frame_index`` (int64) and ``progress_sparse`` (float32; null for
    unknown); ``dense`` adds a second head, ``progress_dense``. LeRobot takes the statistics of its weights from the
    rows of this file, so it has only the chosen episodes. ``provenance`` is kept as JSON in the file's metadata.
    """
    columns = _frame_columns(frames) | {"progress_sparse": _floats(frames.progress)}
    if dense is not None:
        columns["progress_dense"] = _floats(dense)
    _write_table(path, columns, provenance)


def write_weights(path: Path, weighting: Weighting, *, provenance: Mapping[str, object]) -> None:
    """Write one weight per frame, for :class:`stepscore.curation.FrameWeights`.

    Columns ``index``, ``episode_index``, ``frame_index`` (int64), ``weight`` (float32; null for unknown) and
    ``success`` (by label; null without a label). ``provenance`` is kept as JSON in the file's metadata.
    """
    frames = weighting.frames
    successes = pa.array([e.success for e in frames.episodes], pa.bool_())
    rows = pa.array(frames.per_frame(list(range(len(frames.episodes)))))
    columns = _frame_columns(frames) | {"weight": _floats(weighting.weights), "success": successes.take(rows)}
    _write_table(path, columns, provenance)


def write_static_weights(path: Path, weighting: Weighting, *, provenance: Mapping[str, object]) -> None:
    """Write weights as LeRobot's ``static`` sample weighting reads them (lerobot pull request 4222).

    Columns ``index`` (int64), the frame's number in the whole dataset, and ``weight`` (float32, 0 or more). Frames
    whose weight is unknown are left out: LeRobot gives them its ``fallback_weight``.
    """
    if not weighting.frames.numbered:
        raise OptionError(
            "LeRobot's static weights name frames by their number in a LeRobot dataset; the run's source is not one."
        )
    known = np.isfinite(weighting.weights)
    columns = {
        "index": pa.array(weighting.frames.index()[known]),
        "weight": pa.array(weighting.weights[known].astype(np.float32), pa.float32()),
    }
    _write_table(path, columns, provenance)


def write_episode_list(path: Path, frames: RunFrames) -> None:
    """Write the numbers of the chosen episodes as a JSON list, as ``--dataset.episodes`` takes it."""
    write_text(path, episode_list(frames) + "\n", make_folder=True)


def episode_list(frames: RunFrames) -> str:
    """Return the numbers of the chosen episodes in ascending order, as ``[0, 3, 7]``."""
    return json.dumps(sorted(episode.number for episode in frames.episodes))


def read_weights(path: str | Path) -> tuple[IntArray, FloatArray]:
    """Return the index and weight of every row of a table with these two columns; NaN for unknown."""
    try:
        table = pq.read_table(path, columns=["index", "weight"])
    except FileNotFoundError as error:
        raise OptionError(
            f"File {path} does not exist. Make it: stepscore weights RUN ... -o {shlex.quote(str(path))}"
        ) from error
    except (OSError, pa.ArrowException, ValueError) as error:
        raise OptionError(
            f"{path} is not a table of weights with the columns index and weight ({error}). "
            "Make one: stepscore weights RUN --method awr -o weights.parquet"
        ) from error
    index = np.asarray(table.column("index").to_numpy(), dtype=np.int64)
    return index, np.asarray(table.column("weight").to_numpy(), dtype=np.float64)


def _frame_columns(frames: RunFrames) -> dict[str, pa.Array]:
    return {
        "index": pa.array(frames.index()),
        "episode_index": pa.array(frames.episode_index()),
        "frame_index": pa.array(frames.frame_index()),
    }


def _floats(values: FloatArray) -> pa.Array:
    return pa.array(values.astype(np.float32), pa.float32(), mask=np.isnan(values))


def _write_table(path: Path, columns: Mapping[str, pa.Array], provenance: Mapping[str, object]) -> None:
    if path.suffix != ".parquet":
        raise OptionError(f"The table is Parquet: name the file {path.stem}.parquet, not {path.name}.")
    text = json.dumps(provenance, sort_keys=True, default=str)
    table = pa.table(dict(columns)).replace_schema_metadata({METADATA: text})
    write_parquet(path, table, make_folder=True)

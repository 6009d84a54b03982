"""Readers of the formats other than LeRobot's, one file each."""

from stepscore.episodes.readers.curve_groups import Key, grouped_rows
from stepscore.episodes.readers.curve_rows import (
    ABSENT,
    SUFFIXES,
    Rows,
    column_names,
    is_empty,
    parse_number,
    read_rows,
)
from stepscore.episodes.readers.curves import EPISODE_COLUMNS

__all__ = [
    "ABSENT",
    "EPISODE_COLUMNS",
    "SUFFIXES",
    "Key",
    "Rows",
    "column_names",
    "grouped_rows",
    "is_empty",
    "parse_number",
    "read_rows",
]

"""Pages of many episodes: what is not needed at first is kept in parts, and loaded when it is looked at."""

from stepscore.report.page.paging.judgement_pages import RunRows, always_kept, paged_judgements, verdict_table
from stepscore.report.page.paging.parts import (
    MAX_BYTES,
    FileParts,
    Parts,
    ServedParts,
    data_bytes,
    parts_folder,
    remove_parts,
)

__all__ = [
    "MAX_BYTES",
    "FileParts",
    "Parts",
    "RunRows",
    "ServedParts",
    "always_kept",
    "data_bytes",
    "paged_judgements",
    "parts_folder",
    "remove_parts",
    "verdict_table",
]

"""``hf/...``: Hugging Face checkpoints in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscore._imports import lazy_attributes

if TYPE_CHECKING:
    from stepscore.models.hf.files import checkpoint_folder as checkpoint_folder
    from stepscore.models.hf.files import load_tokenizer as load_tokenizer
    from stepscore.models.hf.files import read_json as read_json
    from stepscore.models.hf.network_loading import no_progress_bars as no_progress_bars

__all__ = ["checkpoint_folder", "load_tokenizer", "no_progress_bars", "read_json"]

__getattr__ = lazy_attributes(
    __name__,
    {
        "checkpoint_folder": "files",
        "load_tokenizer": "files",
        "no_progress_bars": "network_loading",
        "read_json": "files",
    },
)

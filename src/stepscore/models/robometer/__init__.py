"""Robometer's heads on a Qwen3-VL: progress, success and preference, from both published layouts of its checkpoint.

Liang et al. 2026, arXiv 2603.02115. Nothing of the checkpoint is run: its tensors are read from safetensors into the
network of ``network.py``. ``hf/CHECKPOINT`` recognises such a checkpoint by its tensors and answers the judge
``robometer`` with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscore._imports import lazy_attributes

if TYPE_CHECKING:
    from stepscore.models.robometer.config import RobometerConfig as RobometerConfig
    from stepscore.models.robometer.config import read_config as read_config
    from stepscore.models.robometer.engine import RobometerEngine as RobometerEngine
    from stepscore.models.robometer.tokens import SPECIAL_TOKENS as SPECIAL_TOKENS

__all__ = ["SPECIAL_TOKENS", "RobometerConfig", "RobometerEngine", "read_config"]

__getattr__ = lazy_attributes(
    __name__,
    {
        "RobometerConfig": "config",
        "RobometerEngine": "engine",
        "SPECIAL_TOKENS": "tokens",
        "read_config": "config",
    },
)

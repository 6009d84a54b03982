"""``sarm/CHECKPOINT``: the stage-aware reward model, its encoders and its checkpoint format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscore._imports import lazy_attributes

if TYPE_CHECKING:
    from stepscore.models.encoders.vision_encoder import Float32 as Float32
    from stepscore.models.encoders.vision_encoder import Half as Half
    from stepscore.models.sarm.checkpoint import save_checkpoint as save_checkpoint
    from stepscore.models.sarm.config import Decode as Decode
    from stepscore.models.sarm.config import Procedure as Procedure
    from stepscore.models.sarm.config import SarmConfig as SarmConfig
    from stepscore.models.sarm.config import SarmMode as SarmMode
    from stepscore.models.sarm.encoders import FrameEncoder as FrameEncoder
    from stepscore.models.sarm.encoders import get_encoder as get_encoder
    from stepscore.models.sarm.model import DIGITS as DIGITS
    from stepscore.models.sarm.model import SarmModel as SarmModel
    from stepscore.models.sarm.network import SarmNetwork as SarmNetwork
    from stepscore.models.sarm.network import SarmShape as SarmShape
    from stepscore.models.sarm.network import Windows as Windows
    from stepscore.models.sarm.scoring import EncodedVideo as EncodedVideo
    from stepscore.models.sarm.scoring import score_video as score_video
    from stepscore.models.sarm.window import Flags as Flags
    from stepscore.models.sarm.window import Window as Window

__all__ = [
    "DIGITS",
    "Decode",
    "EncodedVideo",
    "Flags",
    "Float32",
    "FrameEncoder",
    "Half",
    "Procedure",
    "SarmConfig",
    "SarmMode",
    "SarmModel",
    "SarmNetwork",
    "SarmShape",
    "Window",
    "Windows",
    "get_encoder",
    "save_checkpoint",
    "score_video",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "DIGITS": "model",
        "Decode": "config",
        "EncodedVideo": "scoring",
        "Flags": "window",
        "Float32": "encoders",
        "FrameEncoder": "encoders",
        "Half": "encoders",
        "SarmMode": "config",
        "Procedure": "config",
        "SarmConfig": "config",
        "SarmModel": "model",
        "SarmNetwork": "network",
        "SarmShape": "network",
        "Window": "window",
        "Windows": "network",
        "get_encoder": "encoders",
        "save_checkpoint": "checkpoint",
        "score_video": "scoring",
    },
)

"""``embedded``: the small judge in the package, and the gate that refuses what is out of its distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscore._imports import lazy_attributes

if TYPE_CHECKING:
    from stepscore.models.embedded.camera_check import CameraCheck as CameraCheck
    from stepscore.models.embedded.model import CALIBRATION as CALIBRATION
    from stepscore.models.embedded.model import CAUSAL_CALIBRATION as CAUSAL_CALIBRATION
    from stepscore.models.embedded.model import FOLDER as FOLDER
    from stepscore.models.embedded.model import EmbeddedModel as EmbeddedModel
    from stepscore.models.embedded.model import torch_network as torch_network
    from stepscore.models.embedded.ood import GATE_FILE as GATE_FILE
    from stepscore.models.embedded.ood import DomainGate as DomainGate
    from stepscore.models.embedded.ood import Float32 as Float32
    from stepscore.models.embedded.ood import gate_digest as gate_digest
    from stepscore.models.embedded.ood import load_gate as load_gate
    from stepscore.models.embedded.ood import save_gate as save_gate
    from stepscore.models.embedded.ood import words_of as words_of

__all__ = [
    "CALIBRATION",
    "CAUSAL_CALIBRATION",
    "FOLDER",
    "GATE_FILE",
    "CameraCheck",
    "DomainGate",
    "EmbeddedModel",
    "Float32",
    "gate_digest",
    "load_gate",
    "save_gate",
    "torch_network",
    "words_of",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "CALIBRATION": "model",
        "CAUSAL_CALIBRATION": "model",
        "CameraCheck": "camera_check",
        "FOLDER": "model",
        "GATE_FILE": "ood",
        "DomainGate": "ood",
        "EmbeddedModel": "model",
        "Float32": "ood",
        "gate_digest": "ood",
        "load_gate": "ood",
        "save_gate": "ood",
        "torch_network": "model",
        "words_of": "ood",
    },
)

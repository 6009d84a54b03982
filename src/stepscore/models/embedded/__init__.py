"""``embedded``: the small judge in the package, and the gate that refuses what is out of its distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscore._imports import lazy_attributes

if TYPE_CHECKING:
    from stepscore.models.embedded.camera_check import CameraCheck as CameraCheck
    from stepscore.models.embedded.domain_gate import GATE_FILE as GATE_FILE
    from stepscore.models.embedded.domain_gate import DomainGate as DomainGate
    from stepscore.models.embedded.domain_gate import Float32 as Float32
    from stepscore.models.embedded.domain_gate import gate_digest as gate_digest
    from stepscore.models.embedded.domain_gate import load_gate as load_gate
    from stepscore.models.embedded.domain_gate import save_gate as save_gate
    from stepscore.models.embedded.domain_gate import words_of as words_of
    from stepscore.models.embedded.model import CALIBRATION as CALIBRATION
    from stepscore.models.embedded.model import FOLDER as FOLDER
    from stepscore.models.embedded.model import EmbeddedModel as EmbeddedModel
    from stepscore.models.embedded.model import torch_network as torch_network

__all__ = [
    "CALIBRATION",
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
        "CameraCheck": "camera_check",
        "FOLDER": "model",
        "GATE_FILE": "domain_gate",
        "DomainGate": "domain_gate",
        "EmbeddedModel": "model",
        "Float32": "domain_gate",
        "gate_digest": "domain_gate",
        "load_gate": "domain_gate",
        "save_gate": "domain_gate",
        "torch_network": "model",
        "words_of": "domain_gate",
    },
)

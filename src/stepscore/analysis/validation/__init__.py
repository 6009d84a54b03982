"""The validation record of a judge: what an audit showed, found by protocol hash and quoted beside its scores."""

from stepscore.analysis.validation.quoted import add_validation, find_validation, validation_notes
from stepscore.analysis.validation.record import Measured, Validation, read_validation

__all__ = [
    "Measured",
    "Validation",
    "add_validation",
    "find_validation",
    "read_validation",
    "validation_notes",
]

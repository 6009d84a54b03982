"""Commands that measure a judge: audit, compare, calibrate and tune it."""

__all__ = ["PANEL"]

PANEL = "Trust a judge"
"""Heading of these commands in ``stepscore --help``."""

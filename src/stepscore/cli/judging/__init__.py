"""Commands that judge: look at a source, judge it, calibrate the judge and choose its prompt."""

__all__ = ["PANEL"]

PANEL = "Judge rollouts"
"""Heading of these commands in ``stepscore --help``."""

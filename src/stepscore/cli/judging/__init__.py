"""Commands that judge: look at a source and judge it."""

__all__ = ["PANEL"]

PANEL = "Judge rollouts"
"""Heading of these commands in ``stepscore --help``."""

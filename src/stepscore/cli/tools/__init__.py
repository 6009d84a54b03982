"""Commands that list what can be chosen and manage the answer cache."""

__all__ = ["PANEL"]

PANEL = "Tools"
"""Heading of these commands in ``stepscore --help``."""

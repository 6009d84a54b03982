"""Commands that list what can be chosen and manage the answer cache."""

PANEL = "Tools"
"""Heading of these commands in ``stepscore --help``."""

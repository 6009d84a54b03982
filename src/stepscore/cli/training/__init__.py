"""Commands that train judges, or make weights to train policies with."""

__all__ = ["PANEL"]

PANEL = "Train"
"""Heading of these commands in ``stepscore --help``."""

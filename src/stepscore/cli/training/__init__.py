"""Commands that train judges, or make weights to train policies with."""

PANEL = "Train"
"""Heading of these commands in ``stepscore --help``."""

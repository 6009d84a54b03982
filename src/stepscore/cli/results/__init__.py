"""Commands that read runs: metrics, comparisons, report, plots."""

__all__ = ["PANEL"]

PANEL = "Read results"
"""Heading of these commands in ``stepscore --help``."""

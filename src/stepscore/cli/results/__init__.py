"""Commands that read runs: metrics, comparisons, report, plots."""

PANEL = "Read results"
"""Heading of these commands in ``stepscore --help``."""

"""Commands that prepare data: subgoals, stages, progress labels, simulated rollouts."""

PANEL = "Prepare data"
"""Heading of these commands in ``stepscore --help``."""

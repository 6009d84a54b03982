"""Commands that prepare data: subgoals, stages, progress labels, simulated rollouts."""

__all__ = ["PANEL"]

PANEL = "Prepare data"
"""Heading of these commands in ``stepscore --help``."""

"""Figures for papers."""

from stepscore.report.plots.plot import plot
from stepscore.report.plots.weights import plot_weights

__all__ = ["plot", "plot_weights"]

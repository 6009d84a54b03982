"""Figures for papers: leaderboard, subgoal success vectors, curves, contact sheet, training weights."""

from stepscore.report.plots.style import BLACK, BLUE, GREEN, GREY, ORANGE, paper_style, save_figure
from stepscore.report.plots.weights import plot_weights

__all__ = ["BLACK", "BLUE", "GREEN", "GREY", "ORANGE", "paper_style", "plot_weights", "save_figure"]

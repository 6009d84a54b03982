"""Comparisons of two arms: paired, by arm, and within a few fixed scenes; errors of a judge by policy."""

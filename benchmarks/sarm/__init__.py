"""SARM's figures, a file for each step; see ``benchmarks/sarm_quality.py``."""

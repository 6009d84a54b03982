"""Ratios against peers and limits, and the tables of the docs; each is one command, ``python -m benchmarks...``."""

"""The evaluation of the embedded judge, a file for each group of figures; see ``benchmarks/embedded_judge.py``."""

"""The embedded judge from scratch: its tasks, simulated datasets, training run and gate.

``python -m stepscore.training.embedded --help`` lists the commands.
"""

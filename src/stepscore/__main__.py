"""Runs the command line as ``python -m stepscore``."""

from stepscore.cli.main import main

main()

"""What a run against a lying server imports, so that each is forked from a process that has it."""

from stepscore.cli import app
from stepscore.cli.judging import judge
from stepscore.episodes.video import packets
from stepscore.judges import gvl, topreward
from stepscore.models.api import openai
from stepscore.runs import scoring

__all__ = ["app", "gvl", "judge", "openai", "packets", "scoring", "topreward"]

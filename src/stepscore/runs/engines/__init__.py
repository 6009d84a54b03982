"""Engines: what carries out the work of a run, in this process or in others; see :class:`Engine`."""

from stepscore.runs.engines.base import Engine, FinishedEpisode, Work
from stepscore.runs.engines.chosen import choose_engine
from stepscore.runs.engines.cluster import RayEngine
from stepscore.runs.engines.episode_work import RUN_STOPPING_ERRORS, error_text
from stepscore.runs.engines.local import LocalEngine, run_episodes
from stepscore.runs.engines.processes import ProcessEngine

__all__ = [
    "RUN_STOPPING_ERRORS",
    "Engine",
    "FinishedEpisode",
    "LocalEngine",
    "ProcessEngine",
    "RayEngine",
    "Work",
    "choose_engine",
    "error_text",
    "run_episodes",
]

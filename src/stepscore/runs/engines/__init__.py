"""Engines execute the work of a run, in this process or in others; see :class:`Engine`."""

from stepscore.runs.engines.local import LocalEngine, run_episodes
from stepscore.runs.engines.processes import ProcessEngine
from stepscore.runs.engines.ray_engine import RayEngine
from stepscore.runs.engines.select import choose_engine
from stepscore.runs.work import Engine, FinishedEpisode, Work

__all__ = [
    "Engine",
    "FinishedEpisode",
    "LocalEngine",
    "ProcessEngine",
    "RayEngine",
    "Work",
    "choose_engine",
    "run_episodes",
]

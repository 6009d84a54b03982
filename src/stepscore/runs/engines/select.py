"""Select an engine by name."""

from __future__ import annotations

import os

from stepscore.errors import UnknownNameError
from stepscore.judges import Judge
from stepscore.models.calls import CallOptions
from stepscore.runs.engines.local import LocalEngine
from stepscore.runs.engines.processes import ProcessEngine
from stepscore.runs.engines.ray_engine import RayEngine
from stepscore.runs.work import IN_FLIGHT, Engine

ENGINES = ("auto", "local", "processes", "ray")


def choose_engine(
    engine: str | Engine, judge: Judge, workers: int | None, call_options: CallOptions
) -> Engine:
    """Return the engine of a name, or the given engine; ``workers=None`` takes the default number."""
    if not isinstance(engine, str):
        return engine
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    if engine == "ray":
        return RayEngine(workers, connections=call_options.connections)
    if engine == "processes":
        return ProcessEngine(os.cpu_count() or 1 if workers is None else workers)
    served = any(model.capabilities.served for model in judge.models)
    if engine == "auto" and not served and workers is not None and workers > 1:
        return ProcessEngine(workers)
    if engine == "auto" and judge.models and not served and workers in (None, 1):
        return LocalEngine(IN_FLIGHT)
    return LocalEngine(call_options.workers(judge.models) if workers is None else workers)

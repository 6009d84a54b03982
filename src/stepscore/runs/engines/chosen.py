"""The engine of a name."""

from __future__ import annotations

import os

from stepscore.errors import UnknownNameError
from stepscore.judges import Judge
from stepscore.models.calls import CallOptions
from stepscore.runs.engines.cluster import RayEngine
from stepscore.runs.engines.local import LocalEngine
from stepscore.runs.engines.processes import ProcessEngine
from stepscore.runs.work import IN_FLIGHT, Engine

ENGINES = ("auto", "local", "processes", "ray")
"""Names of engines."""


def choose_engine(
    engine: str | Engine, judge: Judge, workers: int | None, call_options: CallOptions
) -> Engine:
    """Return the engine of a name.

    Args:
        engine: A name, or an engine, which is returned as it is.
        judge: The judge, whose models decide where nothing is chosen.
        workers: Processes that judge, or, in the local engine, episodes in flight; ``None`` for the usual number.
        call_options: The connections of served models.
    """
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

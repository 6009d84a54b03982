"""The engine of a name."""

from __future__ import annotations

from stepscore.errors import UnknownNameError
from stepscore.judges import Judge
from stepscore.runs.engines.base import Engine
from stepscore.runs.engines.local import LocalEngine
from stepscore.runs.model_client import CallOptions

ENGINES = ("auto", "local")
"""Names of engines."""


def choose_engine(
    engine: str | Engine, judge: Judge, workers: int | None, call_options: CallOptions
) -> Engine:
    """Return the engine of a name.

    Args:
        engine: A name, or an engine, which is returned as it is.
        judge: The judge, whose models decide where nothing is chosen.
        workers: Episodes in flight; ``None`` for the usual number.
        call_options: The connections of served models.
    """
    if not isinstance(engine, str):
        return engine
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    return LocalEngine(call_options.workers(judge.models) if workers is None else workers)

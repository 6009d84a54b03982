"""What looks at pictures and answers.

A judge puts requests (``request.py``) to a model (``model.py``); every call goes through the ledger, which
keeps answers, attempts and money. Each backend is one file, found by the first part of the model string:
``hf/Qwen/Qwen3-VL-4B-Instruct``, ``openai-api/gpt-4o``. ``embedded`` is the small judge in the package itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

from stepscore.errors import OptionError, UnknownNameError
from stepscore.models.model import Answer as Answer
from stepscore.models.model import Capabilities as Capabilities
from stepscore.models.model import Model as Model
from stepscore.models.model import PrefixScores as PrefixScores
from stepscore.models.model import Response as Response
from stepscore.models.model import Scores as Scores
from stepscore.models.request import Film as Film
from stepscore.models.request import Generate as Generate
from stepscore.models.request import Goal as Goal
from stepscore.models.request import Prompt as Prompt
from stepscore.models.request import Request as Request
from stepscore.models.request import Score as Score
from stepscore.models.request import ScorePrefixes as ScorePrefixes
from stepscore.models.request import Shown as Shown
from stepscore.models.request import Still as Still
from stepscore.models.request import Tile as Tile
from stepscore.models.request import Turn as Turn
from stepscore.registry import Registry

__all__ = [
    "Answer",
    "Capabilities",
    "Film",
    "Generate",
    "Goal",
    "Model",
    "PrefixScores",
    "Prompt",
    "Request",
    "Response",
    "Score",
    "ScorePrefixes",
    "Scores",
    "Shown",
    "Still",
    "Tile",
    "Turn",
    "get_model",
    "models",
]

models: Registry[Callable[..., Model]] = Registry(
    "model",
    {
        "embedded": "stepscore.models.embedded:EmbeddedModel",
        "hf": "stepscore.models.hf:HfModel",
        "mock": "stepscore.models.mock:MockModel",
        "openai-api": "stepscore.models.openai_api:OpenAIModel",
        "sarm": "stepscore.models.sarm:SarmModel",
        "sglang": "stepscore.models.sglang:SglangModel",
        "vllm": "stepscore.models.vllm:VllmModel",
    },
    group="stepscore.models",
)


WHOLE = frozenset({"embedded"})
"""Backends that are one model, so that nothing stands after their name."""


def get_model(name: str, **options: object) -> Model:
    """The model named by a model string: a backend, a slash, and what that backend loads or asks.

    >>> get_model("mock/yes").name
    'mock/yes'

    Args:
        name: ``embedded``, ``hf/PATH-OR-ID``, ``sarm/CHECKPOINT``, ``vllm/NAME``, ``openai-api/NAME``,
            ``sglang/NAME``, ``mock/ANSWER``.
        options: The backend's keyword options (dtype, base_url ...); a wrong one lists the valid ones.
    """
    backend, slash, rest = name.partition("/")
    complete = not slash if backend in WHOLE else bool(rest)
    if backend not in models.names() or not complete:
        forms = ", ".join(known if known in WHOLE else f"{known}/..." for known in models.names())
        looks_local = Path(name).expanduser().exists()
        hint = f" That is a path: write hf/{name} to load a checkpoint from it." if looks_local else ""
        raise OptionError(f"{name!r} is no model string. Valid forms: {forms}.{hint}")
    make = models.get(backend)
    valid = [p for p in inspect.signature(make).parameters if p != "name"]
    for option in options:
        if option not in valid:
            raise UnknownNameError(f"option of the model backend {backend!r}", option, valid)
    try:
        return make(**options) if backend in WHOLE else make(rest, **options)
    except TypeError as error:
        raise OptionError(f"Model {name!r}: {error}.") from error

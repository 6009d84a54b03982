"""What looks at pictures and answers.

A judge puts requests (``request.py``) to a model (``model.py``); every call goes through the ledger, which
keeps answers, attempts and money. Each backend is one file, found by the first part of the model string:
``hf/Qwen/Qwen3-VL-4B-Instruct``, ``openai-api/gpt-4o``.
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
        "hf": "stepscore.models.hf:HfModel",
        "mock": "stepscore.models.mock:MockModel",
        "openai-api": "stepscore.models.openai_api:OpenAIModel",
        "sglang": "stepscore.models.sglang:SglangModel",
        "vllm": "stepscore.models.vllm:VllmModel",
    },
    group="stepscore.models",
)


def get_model(name: str, **options: object) -> Model:
    """The model named by a model string: a backend, a slash, and what that backend loads or asks.

    >>> get_model("mock/yes").name
    'mock/yes'

    Args:
        name: ``hf/PATH-OR-ID``, ``vllm/NAME``, ``openai-api/NAME``, ``sglang/NAME``, ``mock/ANSWER``.
        options: The backend's keyword options (dtype, base_url ...); a wrong one lists the valid ones.
    """
    backend, slash, rest = name.partition("/")
    if not slash or not rest or backend not in models.names():
        forms = ", ".join(f"{known}/..." for known in models.names())
        looks_local = Path(name).expanduser().exists()
        hint = f" That is a path: write hf/{name} to load a checkpoint from it." if looks_local else ""
        raise OptionError(f"{name!r} is no model string. Valid forms: {forms}.{hint}")
    make = models.get(backend)
    valid = [p for p in inspect.signature(make).parameters if p != "name"]
    for option in options:
        if option not in valid:
            raise UnknownNameError(f"option of the model backend {backend!r}", option, valid)
    try:
        return make(rest, **options)
    except TypeError as error:
        raise OptionError(f"Model {name!r}: {error}.") from error

"""Models: they read images and text, and answer a judge's requests.

A judge sends requests (``requests.py``) to a model (``base.py``); every call goes through the call chain
(``calls/chain.py``), whose account keeps answers, attempts and costs. The first part of a model string names the
backend: ``hf/Qwen/Qwen3-VL-4B-Instruct``, ``openai-api/gpt-4o``. ``embedded`` is the small judge in the package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from stepscore._untrusted import shown
from stepscore.errors import OptionError, UnknownNameError, exits_as_errors
from stepscore.models.base import (
    Capabilities,
    JudgeDefaults,
    Model,
    SyncMethods,
    check_model_extra,
    handler_of,
)
from stepscore.models.batches import BatchModel, batch_size
from stepscore.models.blocking import guard_tasks, guarded, run_blocking
from stepscore.models.chatml import chatml_parts, split_at_video
from stepscore.models.media import (
    DecodedMedia,
    FrameRef,
    GoalImage,
    MediaRef,
    TiledFrames,
    VideoFrames,
    VideoPrefix,
    media_decoder,
)
from stepscore.models.prompts import Part, Prompt, Template, Turn
from stepscore.models.requests import (
    Generate,
    PredictProgress,
    PredictStages,
    PreferVideo,
    R,
    Request,
    Score,
    ScorePrefixes,
    ScoreSimilarity,
    ScoreStream,
    TypedRequest,
)
from stepscore.models.responses import (
    Answer,
    Preference,
    PrefixScores,
    ProgressPredictions,
    Response,
    Scores,
    Similarities,
    StagePrediction,
    StagePredictions,
    TokenChoice,
    count_of,
)
from stepscore.registry import Registry

__all__ = [
    "SINGLE_MODEL_BACKENDS",
    "Answer",
    "BatchModel",
    "Capabilities",
    "DecodedMedia",
    "FrameRef",
    "Generate",
    "GoalImage",
    "JudgeDefaults",
    "MediaRef",
    "Model",
    "Part",
    "PredictProgress",
    "PredictStages",
    "PreferVideo",
    "Preference",
    "PrefixScores",
    "ProgressPredictions",
    "Prompt",
    "R",
    "Request",
    "Response",
    "Score",
    "ScorePrefixes",
    "ScoreSimilarity",
    "ScoreStream",
    "Scores",
    "Similarities",
    "StagePrediction",
    "StagePredictions",
    "SyncMethods",
    "Template",
    "TiledFrames",
    "TokenChoice",
    "Turn",
    "TypedRequest",
    "VideoFrames",
    "VideoPrefix",
    "batch_size",
    "chatml_parts",
    "check_model_extra",
    "count_of",
    "get_model",
    "guard_tasks",
    "guarded",
    "handler_of",
    "media_decoder",
    "model_registry",
    "run_blocking",
    "split_at_video",
]

model_registry: Registry[Callable[..., Model]] = Registry(
    "model",
    {
        "embedded": "stepscore.models.embedded.model:EmbeddedModel",
        "hf": "stepscore.models.hf.model:HfModel",
        "mock": "stepscore.models.mock:MockModel",
        "openai-api": "stepscore.models.api.openai:OpenAIModel",
        "sarm": "stepscore.models.sarm.model:SarmModel",
        "sglang": "stepscore.models.api.sglang:SglangModel",
        "vllm": "stepscore.models.api.vllm:VllmModel",
    },
    group="stepscore.models",
)

SINGLE_MODEL_BACKENDS = frozenset({"embedded"})
"""Backends that are one model, so that nothing follows their name."""


ALIASES = {"openai": "openai-api", "huggingface": "hf", "transformers": "hf"}
"""What other tools call a backend, for the message that names ours."""


def get_model(name: str, **options: object) -> Model:
    """Return the model of a model string: a backend, a slash, and the checkpoint or served model.

    >>> get_model("mock/yes").name
    'mock/yes'

    Args:
        name: ``embedded``, ``hf/PATH-OR-ID``, ``sarm/CHECKPOINT``, ``vllm/NAME``, ``openai-api/NAME``,
            ``sglang/NAME``, ``mock/ANSWER``.
        options: The backend's keyword options (dtype, base_url ...).

    Raises:
        OptionError: Not a model string, or an option has a wrong value.
        UnknownNameError: The backend has no such option; the message lists those it has.
    """
    backend, slash, rest = name.partition("/")
    complete = not slash if backend in SINGLE_MODEL_BACKENDS else bool(rest)
    if backend not in model_registry.names() or not complete:
        forms = ", ".join(
            known if known in SINGLE_MODEL_BACKENDS else f"{known}/..." for known in model_registry.names()
        )
        try:
            looks_local = Path(name).expanduser().exists()
        except (OSError, ValueError, RuntimeError):  # too long, a NUL, a user that does not exist
            looks_local = False
        hint = f" That is a path: write hf/{shown(name)} to load a checkpoint from it." if looks_local else ""
        closest = "" if looks_local else _closest_model_string(backend, rest)
        raise OptionError(f"Invalid model string {shown(name)!r}.{closest} Valid forms: {forms}.{hint}")
    make = model_registry.get(backend)
    valid = [p for p in inspect.signature(make).parameters if p != "name"]
    for option in options:
        if option not in valid:
            raise UnknownNameError(
                f"option of the model backend {backend!r}", option, valid, hint=_torch_hint(backend, option)
            )
    try:
        with exits_as_errors():
            return make(**options) if backend in SINGLE_MODEL_BACKENDS else make(rest, **options)
    except TypeError as error:
        raise OptionError(f"Model {shown(name)!r}: {error}.") from error


def _closest_model_string(backend: str, rest: str) -> str:
    """Return the model string that may have been meant, as a question; empty where none is close."""
    close = ALIASES.get(backend) or next(iter(get_close_matches(backend, model_registry.names(), n=1)), None)
    if close is None and backend and rest and "/" not in rest:  # an id of the Hub, as other tools take it
        name = shown(f"{backend}/{rest}")
        return f" Did you mean {f'hf/{name}'!r}, in this process, or {f'vllm/{name}'!r}, on a server?"
    if close is None or close == backend:
        return ""
    return f" Did you mean {close if close in SINGLE_MODEL_BACKENDS else f'{close}/{shown(rest) or chr(8230)}'!r}?"


def _torch_hint(backend: str, option: str) -> str:
    """Return where an option of torch is taken, for ``embedded``, which is computed without it."""
    if backend != "embedded" or option not in inspect.signature(model_registry.get("hf")).parameters:
        return ""
    from stepscore.models.embedded import FOLDER

    return f"{option} is an option of torch, which computes the same checkpoint as --model hf/{FOLDER}"

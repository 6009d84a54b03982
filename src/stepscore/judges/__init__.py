"""Judges: each scores an episode, one judge a file.

:func:`get_judge` returns one by name; ``stepscore ls judges`` lists them. Other packages add theirs through the
entry-point group ``stepscore.judges``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import cast

from stepscore._untrusted import shown
from stepscore.errors import OptionError, UnknownNameError, exits_as_errors
from stepscore.judges.base import (
    Ask,
    Judge,
    JudgeTraits,
    SingleModelJudge,
    check_subgoals,
    default_model,
    episode_rng,
    only_model,
    prepare,
)
from stepscore.judges.baselines import BASELINES
from stepscore.judges.common import calibration_mismatch, read_calibration
from stepscore.judges.common.pairs import FrameComparer, PairJudge, PairPreference, prefer
from stepscore.judges.gvl import Gvl
from stepscore.judges.hop import Hop, HopMode
from stepscore.judges.published.procvlm import ProcVlm
from stepscore.judges.stepeval import StepEval, subgoal_prompt_text
from stepscore.judges.topreward import TopReward
from stepscore.models import JudgeDefaults, Model, get_model
from stepscore.registry import Registry

__all__ = [
    "BASELINES",
    "Ask",
    "FrameComparer",
    "Gvl",
    "Hop",
    "HopMode",
    "Judge",
    "JudgeTraits",
    "PairJudge",
    "PairPreference",
    "ProcVlm",
    "SingleModelJudge",
    "StepEval",
    "TopReward",
    "check_subgoals",
    "default_model",
    "episode_rng",
    "get_judge",
    "judge_registry",
    "only_model",
    "prefer",
    "prepare",
    "subgoal_prompt_text",
]

judge_registry: Registry[Callable[..., Judge]] = Registry(
    "judge",
    {
        "cascade": "stepscore.judges.cascade:Cascade",
        "constant": "stepscore.judges.baselines:Constant",
        "grm": "stepscore.judges.published.grm:Grm",
        "gvl": "stepscore.judges.gvl:Gvl",
        "hop": "stepscore.judges.hop:Hop",
        "image-difference": "stepscore.judges.baselines:ImageDifference",
        "linear-time": "stepscore.judges.baselines:LinearTime",
        "progresslm": "stepscore.judges.published.progresslm:ProgressLm",
        "procvlm": "stepscore.judges.published.procvlm:ProcVlm",
        "random-monotone": "stepscore.judges.baselines:RandomMonotone",
        "recorded": "stepscore.judges.recorded.judge:Recorded",
        "robometer": "stepscore.judges.published.robometer:Robometer",
        "roboreward": "stepscore.judges.published.roboreward:RoboReward",
        "sarm": "stepscore.judges.sarm.judge:Sarm",
        "similarity": "stepscore.judges.similarity:Similarity",
        "sole-r1": "stepscore.judges.published.sole_r1:SoleR1",
        "stepeval": "stepscore.judges.stepeval:StepEval",
        "topreward": "stepscore.judges.topreward:TopReward",
        "vlac": "stepscore.judges.published.vlac:Vlac",
    },
    group="stepscore.judges",
)


def get_judge(name: str, **options: object) -> Judge:
    """Return the judge called ``name`` with these options.

    >>> get_judge("linear-time", points=16)
    LinearTime(points=16)

    Args:
        name: One of ``stepscore ls judges``.
        options: Its keyword options; a wrong name lists the valid ones. A ``model`` may be given as a model
            string. A model may bring defaults of its own for a judge: ``embedded`` does, with a calibration map.
    """
    factory = judge_registry.get(name)
    if isinstance(options.get("model"), str):
        options["model"] = get_model(str(options["model"]))
    elif options.get("model") is not None and not hasattr(options["model"], "answer"):
        raise OptionError(
            f"model must be a model or a model string, got {shown(repr(options['model']))}. See: stepscore ls models"
        )
    valid = [p.name for p in inspect.signature(factory).parameters.values() if p.kind is not p.VAR_KEYWORD]
    for option in options:
        if option not in valid:
            raise UnknownNameError(f"option of the judge {name!r}", option, valid)
    if "model" in valid and options.get("model") is None:
        raise OptionError(
            f"Judge {name!r} needs a model, for example --model hf/PATH-OR-ID, or --model embedded, "
            "the small one in the package, for scenes of `stepscore sim`."
        )
    try:
        with exits_as_errors():
            return factory(**_with_defaults_of_model(name, factory, options))
    except TypeError as error:
        raise OptionError(f"Judge {name!r}: {error}.") from error


def _published_defaults(name: str, model: object) -> Mapping[str, object]:
    """Return the options with which the judge of this name asks a published model as it was published."""
    from stepscore.judges.published.profiles import find_checkpoint

    found = find_checkpoint(str(getattr(model, "name", "")))
    return found[0].options if found is not None and found[0].judge == name else {}


def _with_defaults_of_model(
    name: str, factory: Callable[..., Judge], options: Mapping[str, object]
) -> dict[str, object]:
    """Return the options with the model's defaults for this judge; its map only if it is valid.

    Options of the user go first. Where the model's map does not hold under them, one line says so.
    """
    model = options.get("model")
    options = {**_published_defaults(name, model), **options}
    if not isinstance(model, JudgeDefaults):
        return dict(options)
    defaults = dict(model.judge_defaults(name))
    chosen = defaults.pop("calibration", None)
    merged = _merged(cast("Model", model), defaults, options, factory)
    if chosen is None or "calibration" in options:
        return merged
    why, judge = "", factory(**merged)
    for file in (chosen,) if isinstance(chosen, str) else cast("tuple[str, ...]", chosen):
        found = calibration_mismatch(read_calibration(file), judge, cast("Model", model))
        if found is None:
            return {**merged, "calibration": file}
        why = why or found
    warnings.warn(
        f"{cast('Model', model).name}: its calibration map was fitted {why}; progress and success are uncalibrated.",
        stacklevel=3,
    )
    return merged


def _merged(
    model: Model, defaults: Mapping[str, object], options: Mapping[str, object], factory: Callable[..., Judge]
) -> dict[str, object]:
    """Return the options with a model's defaults; without them, and a warning, where the judge refuses the two."""
    merged = {**defaults, **options}
    if not defaults:
        return merged
    try:
        factory(**merged)
    except OptionError as error:
        factory(**options)  # invalid options raise their own error
        unused = ", ".join(f"{key}={value}" for key, value in defaults.items() if key not in options)
        warnings.warn(
            f"{model.name}: its defaults for this judge ({unused}) are not used: {error}", stacklevel=4
        )
        return dict(options)
    return merged

"""Judges: each scores an episode, one judge a file.

:func:`get_judge` returns one by name; ``stepscore ls judges`` lists them. Other packages add theirs through the
entry-point group ``stepscore.judges``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from stepscore.errors import OptionError, UnknownNameError
from stepscore.judges.base import (
    Ask,
    Judge,
    SingleModelJudge,
    check_subgoals,
    default_model,
    episode_rng,
    only_model,
)
from stepscore.judges.baselines import BASELINES
from stepscore.judges.hop import Hop, HopMode
from stepscore.judges.procvlm import ProcVlm
from stepscore.judges.stepeval import StepEval, subgoal_prompt_text
from stepscore.judges.topreward import TopReward
from stepscore.models import get_model
from stepscore.registry import Registry

__all__ = [
    "BASELINES",
    "Ask",
    "Hop",
    "HopMode",
    "Judge",
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
    "subgoal_prompt_text",
]

judge_registry: Registry[Callable[..., Judge]] = Registry(
    "judge",
    {
        "cascade": "stepscore.judges.cascade:Cascade",
        "constant": "stepscore.judges.baselines:Constant",
        "gvl": "stepscore.judges.gvl:Gvl",
        "hop": "stepscore.judges.hop:Hop",
        "linear-time": "stepscore.judges.baselines:LinearTime",
        "procvlm": "stepscore.judges.procvlm:ProcVlm",
        "random-monotone": "stepscore.judges.baselines:RandomMonotone",
        "recorded": "stepscore.judges.recorded.judge:Recorded",
        "sarm": "stepscore.judges.sarm.judge:Sarm",
        "stepeval": "stepscore.judges.stepeval:StepEval",
        "topreward": "stepscore.judges.topreward:TopReward",
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
            string.
    """
    factory = judge_registry.get(name)
    if isinstance(options.get("model"), str):
        options["model"] = get_model(str(options["model"]))
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
        return factory(**options)
    except TypeError as error:
        raise OptionError(f"Judge {name!r}: {error}.") from error

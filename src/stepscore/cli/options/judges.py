"""Options that choose a judge and the model that answers it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli.key_values import read_pairs
from stepscore.cli.local_code import judge_name
from stepscore.errors import OptionError

if TYPE_CHECKING:
    from stepscore.judges import Judge
    from stepscore.models import Model

JudgeOptions = Annotated[
    list[str], typer.Option("-J", metavar="KEY=VALUE", help="An option of the judge; may be repeated.")
]
JudgeModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Model that answers the judge: hf/PATH-OR-ID, openai-api/..., embedded (simulated scenes only); "
        "see `stepscore ls models`.",
    ),
]
CalibrationFile = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="Calibration map of `stepscore calibrate`."),
]
ModelOptions = Annotated[
    list[str], typer.Option("-M", metavar="KEY=VALUE", help="An option of the model; may be repeated.")
]
Structured = Annotated[
    bool | None,
    typer.Option(
        "--structured/--no-structured",
        help="Hold answers to the JSON asked for; default: where the model supports it.",
        show_default=False,
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="URL of a served model's API.")
]


@dataclass(frozen=True)
class JudgeFlags:
    """The options of a judge, its model and its calibration map."""

    judge_options: JudgeOptions = field(default_factory=list)
    model: JudgeModel = None
    model_options: ModelOptions = field(default_factory=list)
    base_url: BaseUrl = None
    calibration: CalibrationFile = None

    def open(self, name: str) -> Judge:
        """Return the judge of ``--judge`` with its options and its model."""
        from stepscore.judges import get_judge

        name, given = self.read(name)
        return get_judge(name, **given)

    def read(self, name: str) -> tuple[str, dict[str, object]]:
        """Return the name of a judge and the options to make it with, its model opened."""
        from stepscore.judges import judge_registry

        name = judge_name(name)
        given = read_pairs(self.judge_options, "-J", judge_registry.get(name))
        if self.calibration is not None:
            given["calibration"] = str(self.calibration)
        if self.model is not None:
            given["model"] = open_model(self.model, self.model_options, self.base_url)
        elif self.model_options or self.base_url is not None:
            raise OptionError("-M and --base-url are options of a model: name one with --model.")
        return name, given


def open_model(name: str, pairs: list[str], base_url: str | None) -> Model:
    """Return the model of ``--model``, ``-M`` and ``--base-url``."""
    from stepscore.models import get_model, model_registry

    backend = name.partition("/")[0]
    # get_model has the message for a wrong name.
    given = read_pairs(
        pairs, "-M", model_registry.get(backend) if backend in model_registry.names() else None
    )
    if base_url is not None:
        given["base_url"] = base_url
    return get_model(name, **given)

"""Options that choose a judge and the model that answers it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli.key_values import read_pairs

if TYPE_CHECKING:
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
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="URL of a served model's API.")
]


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

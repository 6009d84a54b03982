"""Options that choose a judge and the model that answers it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli.key_values import read_pairs
from stepscore.cli.local_code import judge_name
from stepscore.errors import OptionError

if TYPE_CHECKING:
    from stepscore.judges import Judge
    from stepscore.models import Model

JudgeOptions = Annotated[
    list[str],
    typer.Option("-J", metavar="KEY=VALUE", help="Option of the judge (`stepscore ls judges NAME`)."),
]
JudgeModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Model that answers, for example hf/... or embedded (`stepscore ls models`).",
    ),
]
ModelOptions = Annotated[
    list[str],
    typer.Option("-M", metavar="KEY=VALUE", help="Option of the model (`stepscore ls models`)."),
]
Structured = Annotated[
    bool | None,
    typer.Option(
        "--structured/--no-structured",
        help="Constrain answers to the JSON schema. Default: if the model can.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class JudgeFlags:
    """The options of a judge and of its model."""

    judge_options: JudgeOptions = field(default_factory=list)
    model: JudgeModel = None
    model_options: ModelOptions = field(default_factory=list)

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
        if self.model is not None:
            given["model"] = open_model(self.model, self.model_options)
        elif self.model_options:
            raise OptionError("-M is an option of a model: name one with --model.")
        return name, given


def open_model(name: str, pairs: list[str]) -> Model:
    """Return the model of ``--model`` and ``-M``."""
    from stepscore.models import get_model, model_registry

    backend = name.partition("/")[0]
    # get_model has the message for a wrong name.
    given = read_pairs(
        pairs, "-M", model_registry.get(backend) if backend in model_registry.names() else None
    )
    return get_model(name, **given)

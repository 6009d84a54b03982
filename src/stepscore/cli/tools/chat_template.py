"""``stepscore chat-template``: write the chat template with which a vLLM server is asked exactly what ``hf/`` is."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from stepscore._files import write_text
from stepscore.cli.outputs import TEMPLATE, Force, check_output, new_file
from stepscore.cli.tables import err


def chat_template(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A checkpoint folder or a hub id, as `vllm serve` takes it."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_file, metavar="FILE", help="The template file to write (.jinja)."
        ),
    ],
    force: Force = False,
) -> None:
    """Write a chat template for `vllm serve`.

    With it, topreward asks a served model exactly what it asks a model under hf/. Other requests still get the
    model's own template.
    """
    from stepscore.models.api import template_with_raw_turn
    from stepscore.models.checkpoints import chat_template_of

    check_output(out, TEMPLATE, force=force)
    name = model.removeprefix("hf/")
    write_text(out, template_with_raw_turn(chat_template_of(name)))
    served, file = shlex.quote(name), shlex.quote(str(out))
    err().print(
        f"Wrote {out}\nStart the server with it: vllm serve {served} --chat-template {file}\n"
        "On a CPU add --block-size 32: the default of 128 leaves most of a prefix out of the cache.",
        soft_wrap=True,
    )

"""The texts that judges ask with: files beside them, so that a change of wording is seen as one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files


def read_prompt(name: str) -> str:
    """The text of ``prompts/NAME.txt`` without its last line break."""
    text = files("stepscore.judges").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    return text.removesuffix("\n")


def read_sections(name: str) -> Mapping[str, str]:
    """The parts of a prompt file in which each begins with a line ``[its name]``."""
    found = re.split(r"^\[(.+)\]\n", read_prompt(name) + "\n", flags=re.MULTILINE)[1:]
    return {part: text.removesuffix("\n") for part, text in zip(found[::2], found[1::2], strict=True)}


def fill(text: str, **values: object) -> str:
    """The text with ``{name}`` replaced. Braces in what is put in are left alone, unlike in str.format."""
    return re.sub(r"\{(\w+)\}", lambda m: str(values.get(m[1], m[0])), text)

"""Prompts with pictures inside, as text files beside the judges.

Three marks are all there is::

    $instruction         replaced by a text
    {{pictures}}         pictures stand here
    ?reason: some text   this line only where ``reason`` is asked for
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from string import Template

from stepscore.errors import UnknownNameError
from stepscore.judges.common.prompt_files import read_prompt
from stepscore.models import Part

_PICTURES = re.compile(r"\{\{(\w+)\}\}")
_CONDITION = re.compile(r"\?(\w+): ?(.*)", re.DOTALL)


@dataclass(frozen=True)
class ImagePrompt:
    """A prompt and its name; ``digest`` goes into the protocol."""

    name: str
    text: str

    @property
    def digest(self) -> str:
        """First 16 hex digits of the text's sha256."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def parts(
        self,
        values: Mapping[str, str],
        pictures: Mapping[str, Sequence[Part]],
        *,
        when: Collection[str] = (),
    ) -> tuple[Part, ...]:
        """The prompt as texts and pictures in order.

        Args:
            values: What each ``$name`` becomes. A ``$`` or a mark inside a value stays as it is.
            pictures: What each ``{{name}}`` becomes.
            when: The conditions whose ``?name:`` lines are kept.
        """
        kept = []
        for line in self.text.splitlines(keepends=True):
            conditional = _CONDITION.fullmatch(line)
            if conditional is None or conditional[1] in when:
                kept.append(line if conditional is None else conditional[2])
        found: list[Part] = []
        # The text is split before values go in, so that an instruction cannot place pictures.
        for number, piece in enumerate(_PICTURES.split("".join(kept).strip("\n"))):
            if number % 2:
                found += pictures[piece]
            elif piece:
                found.append(Template(piece).substitute(values))
        return tuple(found)


def prompt_names(prefix: str) -> list[str]:
    """Names of the prompt files that begin with ``prefix``, without it."""
    names = (entry.name for entry in files("stepscore.judges").joinpath("prompts").iterdir())
    return sorted(n[len(prefix) : -len(".txt")] for n in names if n.startswith(prefix) and n.endswith(".txt"))


@lru_cache(maxsize=64)
def load_prompt(name: str) -> ImagePrompt:
    """The prompt in ``prompts/<name>.txt``."""
    if name not in prompt_names(""):
        raise UnknownNameError("prompt", name, prompt_names(""))
    return ImagePrompt(name, read_prompt(name))

"""Prompt templates: text files next to the code that asks with them, filled with texts and images.

Four marks are all there is::

    {instruction}        replaced by a text
    {{images}}           images stand here
    ?reason: some text   this line only where ``reason`` is asked for
    [task]               a section of its own begins here

Braces around anything that is not a given field (a JSON example, the ``{i}`` of a published prompt) are left alone,
and so are braces inside a text that is filled in: an instruction cannot place images or fields.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from stepscore.errors import UnknownNameError
from stepscore.models import Part, Prompt, Template, Turn, VideoPrefix

_FIELD = re.compile(r"\{(\w+)\}")
_IMAGES = re.compile(r"\{\{(\w+)\}\}")
_CONDITION = re.compile(r"\?(\w+): ?(.*)", re.DOTALL)
_SECTION = re.compile(r"^\[(.+)\]\n", re.MULTILINE)


@dataclass(frozen=True)
class PromptTemplate:
    """A prompt with places for texts and images; ``digest`` enters the protocol."""

    name: str
    text: str

    @property
    def digest(self) -> str:
        """First 16 hex digits of the text's sha256."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def fill(self, **fields: object) -> str:
        """Return the text with every given ``{field}`` replaced."""
        return _fill(self.text, fields)

    def parts(
        self,
        fields: Mapping[str, object],
        images: Mapping[str, Sequence[Part]],
        *,
        when: Collection[str] = (),
    ) -> tuple[Part, ...]:
        """Return the prompt as texts and images in order.

        Args:
            fields: Text of each ``{field}``.
            images: Images of each ``{{name}}``.
            when: Conditions whose ``?name:`` lines are kept.
        """
        kept = []
        for line in self.text.splitlines(keepends=True):
            conditional = _CONDITION.fullmatch(line)
            if conditional is None or conditional[1] in when:
                kept.append(line if conditional is None else conditional[2])
        parts: list[Part] = []
        for number, piece in enumerate(_IMAGES.split("".join(kept).strip("\n"))):
            if number % 2:
                parts += images[piece]
            elif piece:
                parts.append(_fill(piece, fields))
        return tuple(parts)

    def sections(self) -> dict[str, PromptTemplate]:
        """Return the sections of the template by name."""
        found = _SECTION.split(self.text + "\n")[1:]
        return {
            name: PromptTemplate(f"{self.name}[{name}]", text.removesuffix("\n"))
            for name, text in zip(found[::2], found[1::2], strict=True)
        }

    def split_last_sentence(self) -> tuple[PromptTemplate, str]:
        """Return the template without its last sentence, and that sentence with the space before it."""
        body, stop, last = self.text.rpartition(". ")
        return PromptTemplate(self.name, body + stop.rstrip()), f" {last}"


def _fill(text: str, fields: Mapping[str, object]) -> str:
    return _FIELD.sub(lambda match: str(fields.get(match[1], match[0])), text)


def prompt_names(prefix: str = "", package: str = "stepscore.judges") -> list[str]:
    """Return the names of a package's prompt files that begin with ``prefix``, without it."""
    return sorted(name.removeprefix(prefix) for name in _files(package) if name.startswith(prefix))


@lru_cache(maxsize=64)
def load_prompt(name: str, package: str = "stepscore.judges") -> PromptTemplate:
    """Return the template in ``prompts/NAME.txt`` or ``published/NAME.txt`` of a package."""
    found = _files(package)
    if name not in found:
        raise UnknownNameError("prompt", name, sorted(found))
    text = found[name].read_text(encoding="utf-8")
    return PromptTemplate(name, text.removesuffix("\n"))


def video_prompt(text: str, *, prefill: str = "", template: Template = "chat") -> Prompt:
    """Return a prompt for prefix scoring: the video, then a text, in one user's turn."""
    return Prompt((Turn("user", (VideoPrefix(), text)),), prefill, template)


def _files(package: str) -> dict[str, Traversable]:
    """Return the prompt files of a package by name."""
    folders = (files(package).joinpath(folder) for folder in ("prompts", "published"))
    entries = (entry for folder in folders if folder.is_dir() for entry in folder.iterdir())
    return {entry.name.removesuffix(".txt"): entry for entry in entries if entry.name.endswith(".txt")}

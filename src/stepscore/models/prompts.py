"""Prompts: conversations of texts and images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from stepscore.models.media import Decode, Media, VideoPrefix, decoded, label
from stepscore.models.tagged import Tagged

Part = str | Media
Role = Literal["system", "user", "assistant"]
Template = Literal["chat", "open", "none"]


@dataclass(frozen=True)
class Turn(Tagged):
    """One turn of a conversation: texts and images in order."""

    role: Role
    parts: tuple[Part, ...]
    tag: ClassVar[str] = "turn"


@dataclass(frozen=True)
class Prompt(Tagged):
    """A conversation for the model to continue. The backend writes the markup of its own chat template.

    Attributes:
        turns: The turns in order.
        prefill: Text the model continues: the beginning of the assistant's turn, unless ``template`` says
            otherwise. Its leading space counts where it continues a text.
        template: ``"chat"``: the turns, then the assistant's turn is opened. ``"open"``: the last turn is never
            closed, and the prefill continues it (TOPReward's published code leaves the user's turn open).
            ``"none"``: only the texts and images, without markup.
    """

    turns: tuple[Turn, ...]
    prefill: str = ""
    template: Template = "chat"
    tag: ClassVar[str] = "prompt"

    @property
    def parts(self) -> list[Part]:
        """Texts and images of all turns in order."""
        return [part for turn in self.turns for part in turn.parts]

    def texts(self) -> list[str]:
        """Return its texts, a prefill included."""
        texts = [part for part in self.parts if isinstance(part, str)]
        return [*texts, self.prefill] if self.prefill else texts

    def media(self) -> list[Media]:
        """Return its images and videos."""
        return [part for part in self.parts if not isinstance(part, str)]

    def resolved(self, decode: Decode) -> Prompt:
        """Return it with decoded frames in place of names."""

        def shown(part: Part) -> Part:
            return part if isinstance(part, str | VideoPrefix) else decoded(part, decode)

        turns = tuple(Turn(turn.role, tuple(map(shown, turn.parts))) for turn in self.turns)
        return replace(self, turns=turns)

    def text_tokens(self) -> int:
        """Return the most tokens of its texts: one per byte, and a turn's markup for each."""
        return sum(len(text.encode()) + 16 for text in self.texts() if text)

    def as_text(self, prefix: str = "") -> str:
        """Return the turns, one a line; ``prefix`` names the video that a :class:`VideoPrefix` stands for."""

        def named(part: Part) -> str:
            if isinstance(part, str):
                return part
            return f"[{prefix if isinstance(part, VideoPrefix) else label(part)}]"

        lines = [f"{turn.role}: {''.join(map(named, turn.parts))}" for turn in self.turns]
        if self.prefill and self.template == "chat":
            return "\n".join([*lines, f"assistant: {self.prefill}"])
        return "\n".join(lines) + self.prefill

"""A conversation as OpenAI's chat format, and what its answers say.

Images go as data URLs. A video goes as one image per frame, each after its time (``<1.5 seconds>``, as
Qwen3-VL writes it), so that growing prefixes of it begin alike and a server's prefix cache can tell.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from stepscore.episodes import fit_size
from stepscore.errors import OptionError, TransientModelError
from stepscore.models.base import Answer, Scores
from stepscore.models.requests import DecodedMedia, Part, Prompt, Turn
from stepscore.types import Frames

LEAST = -9999.0
"""What servers write for a log-probability that JSON cannot hold; the true one is at most that."""


@dataclass(frozen=True)
class ImageCodec:
    """How images are packed.

    Attributes:
        format: ``"png"`` changes no pixel; ``"jpeg"`` is several times smaller.
        quality: Of JPEG, 1..100.
        max_side: Images whose longer side is above it are made smaller; ``None`` for never.
    """

    format: Literal["png", "jpeg"] = "png"
    quality: int = 95
    max_side: int | None = None

    def __post_init__(self) -> None:
        if self.format not in ("png", "jpeg"):
            raise OptionError(f"image_format is {self.format!r}; it must be png or jpeg.")
        if not 1 <= self.quality <= 100:
            raise OptionError(f"image_quality is {self.quality}; it must be in 1..100.")
        if self.max_side is not None and self.max_side < 1:
            raise OptionError(f"max_image_side is {self.max_side}; it must be at least 1.")

    def describe(self) -> dict[str, object]:
        """What of it changes the pixels a model sees."""
        pixels: dict[str, object] = {"format": self.format, "max_side": self.max_side}
        return {**pixels, "quality": self.quality} if self.format == "jpeg" else pixels

    def data_url(self, frame: Frames) -> str:
        """A frame as a data URL."""
        from PIL import Image

        image = Image.fromarray(frame)
        if self.max_side is not None and max(image.size) > self.max_side:
            image = image.resize(fit_size(*image.size, self.max_side), Image.Resampling.BICUBIC)
        packed = io.BytesIO()
        settings = {"quality": self.quality} if self.format == "jpeg" else {}
        image.save(packed, self.format.upper(), **settings)
        return f"data:image/{self.format};base64,{base64.b64encode(packed.getvalue()).decode()}"


def frame_time(seconds: float) -> str:
    """A frame's time as it is typed before the frame."""
    return f"<{seconds:.1f} seconds>"


def spelled_out(parts: Sequence[Part]) -> Iterator[str | Frames]:
    """Texts and single frames in order: a video becomes its frames, each after its time."""
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, DecodedMedia):
            for frame, seconds in zip(part.clip.frames, part.clip.timestamps, strict=True):
                if part.video:
                    yield frame_time(seconds)
                yield frame
        else:
            raise TypeError(f"A model sees resolved requests; {type(part).__name__} is still a name.")


def chat_messages(prompt: Prompt, codec: ImageCodec) -> list[dict[str, Any]]:
    """The conversation as ``messages``; a turn without images is a plain string."""
    turns = [*prompt.turns, Turn("assistant", (prompt.prefill,))] if prompt.prefill else prompt.turns
    return [{"role": turn.role, "content": _content(turn.parts, codec)} for turn in turns]


def _content(parts: Sequence[Part], codec: ImageCodec) -> str | list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for part in spelled_out(parts):
        if not isinstance(part, str):
            items.append({"type": "image_url", "image_url": {"url": codec.data_url(part)}})
        elif items and items[-1]["type"] == "text":
            items[-1]["text"] += part
        else:
            items.append({"type": "text", "text": part})
    if all(item["type"] == "text" for item in items):
        return "".join(item["text"] for item in items)
    return items


def read_answer(reply: Mapping[str, Any], where: str) -> Answer:
    """The text of a chat completion; empty where the model wrote none (it spent its tokens on thinking)."""
    choice = _choice(reply, where)
    message = choice.get("message")
    content = (message.get("content") if isinstance(message, dict) else None) or ""
    if isinstance(content, list):  # some servers answer in parts
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        raise TransientModelError(f"{where} answered a message whose content is no text.")
    read, written = read_usage(reply)
    return Answer(content, str(choice.get("finish_reason") or "stop"), read, written)


def read_told(reply: Mapping[str, Any], where: str) -> dict[str, float]:
    """Log-probability of every token that a chat completion tells of its first position."""
    logprobs = _choice(reply, where).get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not content:
        raise TransientModelError(
            f"{where} answered without log-probabilities. If it always does, it cannot score words: "
            "use a judge that reads text, or a model under hf/, vllm/ or sglang/."
        )
    try:
        told = [*(content[0].get("top_logprobs") or ()), content[0]]
        pairs = [(str(item["token"]), float(item["logprob"])) for item in told]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise TransientModelError(f"{where} answered log-probabilities of an unknown form.") from None
    return {token: value for token, value in reversed(pairs) if not math.isnan(value)}


Token = TypeVar("Token", bound=str | int)


def scores_of(told: Mapping[Token, float], tokens: Sequence[Token], tokens_in: int, where: str) -> Scores:
    """The scores of the tokens asked for (texts or ids), those that were not told censored.

    The likeliest tokens are told, so a missing one is at most as likely as the least likely told. A text may
    be several tokens in truth; it is then at most as likely as its beginning: where a told token is one, the
    larger of the two is the bound. Either way the true value is at most the number given.
    """
    if not told:
        raise TransientModelError(f"{where} told no log-probability that is a number.")
    least = min(told.values())
    values, censored = [], []
    for token in tokens:
        bound = max([least, *_beginnings(told, token)])
        value = told.get(token, bound)
        values.append(max(value, LEAST))
        censored.append(token not in told or value <= LEAST)
    return Scores(tuple(values), tuple(censored), tokens_in)


def _beginnings(told: Mapping[Token, float], token: Token) -> list[float]:
    if not isinstance(token, str):
        return []
    return [
        value for word, value in told.items() if isinstance(word, str) and word and token.startswith(word)
    ]


def read_usage(reply: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens read and written; 0 where the server does not say."""
    usage = reply.get("usage")
    found = usage if isinstance(usage, dict) else {}
    read, written = found.get("prompt_tokens"), found.get("completion_tokens")
    return read if isinstance(read, int) else 0, written if isinstance(written, int) else 0


def _choice(reply: Mapping[str, Any], where: str) -> dict[str, Any]:
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise TransientModelError(f"{where} answered what is no chat completion.")
    choice: dict[str, Any] = choices[0]
    return choice

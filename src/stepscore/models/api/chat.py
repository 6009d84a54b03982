"""OpenAI's chat format: prompts as messages, and the text and log-probabilities of a chat completion.

Images are sent as data URLs. A video is sent as one image per frame, each after its timestamp (``<1.5 seconds>``, as
Qwen3-VL writes it), so that growing prefixes of it begin alike and a server's prefix cache can use it.
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
from stepscore.models.media import DecodedMedia
from stepscore.models.prompts import Part, Prompt, Turn
from stepscore.models.responses import Answer, Scores, TokenChoice, count_of, logprob_of
from stepscore.types import Frames

MIN_LOGPROB = -9999.0
"""The number servers write for a log-probability of minus infinity, which JSON cannot hold."""


@dataclass(frozen=True)
class ImageCodec:
    """Encoding of images in a request.

    Attributes:
        format: ``"png"`` changes no pixel; ``"jpeg"`` is several times smaller.
        quality: JPEG quality, 1..100.
        max_side: Longer side in pixels above which an image is scaled down; ``None``: no limit.
    """

    format: Literal["png", "jpeg"] = "png"
    quality: int = 95
    max_side: int | None = None

    def __post_init__(self) -> None:
        if self.format not in ("png", "jpeg"):
            raise OptionError(f"image_format must be png or jpeg, got {self.format!r}.")
        if not 1 <= self.quality <= 100:
            raise OptionError(f"image_quality must be from 1 to 100, got {self.quality}.")
        if self.max_side is not None and self.max_side < 1:
            raise OptionError(f"max_image_side must be at least 1, got {self.max_side}.")

    def describe(self) -> dict[str, object]:
        """Return the settings that change the pixels a model gets."""
        pixels: dict[str, object] = {"format": self.format, "max_side": self.max_side}
        return {**pixels, "quality": self.quality} if self.format == "jpeg" else pixels

    def data_url(self, frame: Frames) -> str:
        """Encode a frame as a data URL."""
        from PIL import Image

        image = Image.fromarray(frame)
        if self.max_side is not None and max(image.size) > self.max_side:
            image = image.resize(fit_size(*image.size, self.max_side), Image.Resampling.BICUBIC)
        packed = io.BytesIO()
        settings = {"quality": self.quality} if self.format == "jpeg" else {}
        image.save(packed, self.format.upper(), **settings)
        return f"data:image/{self.format};base64,{base64.b64encode(packed.getvalue()).decode()}"


def frame_time(seconds: float) -> str:
    """Return the text that precedes a frame: its timestamp."""
    return f"<{seconds:.1f} seconds>"


def expand_videos(parts: Sequence[Part]) -> Iterator[str | Frames]:
    """Yield texts and single frames in order; a video becomes its frames, each after its timestamp."""
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, DecodedMedia):
            for frame, seconds in zip(part.clip.frames, part.clip.timestamps, strict=True):
                if part.video:
                    yield frame_time(seconds)
                yield frame
        else:
            raise TypeError(f"Models take resolved requests; {type(part).__name__} is still a reference.")


def chat_messages(prompt: Prompt, codec: ImageCodec) -> list[dict[str, Any]]:
    """Return the conversation as ``messages``; the content of a turn without images is a plain string."""
    turns = [*prompt.turns, Turn("assistant", (prompt.prefill,))] if prompt.prefill else prompt.turns
    return [{"role": turn.role, "content": _content(turn.parts, codec)} for turn in turns]


def _content(parts: Sequence[Part], codec: ImageCodec) -> str | list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for part in expand_videos(parts):
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
    """Return the text of a chat completion; empty if there is none (the tokens went into reasoning)."""
    choice = _choice(reply, where)
    message = choice.get("message")
    content = (message.get("content") if isinstance(message, dict) else None) or ""
    if isinstance(content, list):  # some servers return the content in parts
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        raise TransientModelError(f"{where} returned a message whose content is not text.")
    read, written = read_usage(reply)
    finish = str(choice.get("finish_reason") or "stop")
    return Answer(content, finish, read, written, _token_choices(choice, content))


def _token_choices(choice: Mapping[str, Any], content: str) -> tuple[TokenChoice, ...]:
    """Return the log-probabilities at every token of an answer; none where they are not those of its text."""
    logprobs = choice.get("logprobs")
    listed = logprobs.get("content") if isinstance(logprobs, dict) else None
    try:
        choices = [
            TokenChoice(
                str(item["token"]),
                tuple(
                    (str(top["token"]), logprob_of(top["logprob"])) for top in item.get("top_logprobs") or ()
                ),
            )
            for item in listed or ()
        ]
    except (AttributeError, KeyError, TypeError):
        return ()
    while choices and choices[-1].token not in content:  # the token that ends an answer is not of its text
        choices.pop()
    return tuple(choices)


def read_logprobs(reply: Mapping[str, Any], where: str) -> dict[str, float]:
    """Return the log-probability of every token that a chat completion lists at its first position.

    A value that is not a number, or is above 0, becomes NaN: unknown.
    """
    logprobs = _choice(reply, where).get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not content:
        raise TransientModelError(
            f"{where} returned no log-probabilities. If it never does, it cannot score words: "
            "use a judge that reads text, or a model under hf/, vllm/ or sglang/."
        )
    try:
        items = [*(content[0].get("top_logprobs") or ()), content[0]]
        pairs = [(str(item["token"]), logprob_of(item["logprob"])) for item in items]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise TransientModelError(f"{where} returned log-probabilities in an unknown format.") from None
    return dict(reversed(pairs))


Token = TypeVar("Token", bound=str | int)


def scores_of(
    returned: Mapping[Token, float],
    tokens: Sequence[Token],
    tokens_in: int,
    where: str,
    tokens_out: int = 0,
) -> Scores:
    """Return the scores of the requested tokens (texts or ids); those not among the returned ones are censored.

    A server returns its most likely tokens, so a missing one is at most as likely as the least likely of them. A
    text may be several tokens in truth; it is then at most as likely as its beginning: where a returned token is
    its beginning, the larger of the two is the bound. Either way the true value is at most the number given.
    Of a token that was returned without a usable number, no more is known than that it is at most 0.
    """
    if not returned:
        raise TransientModelError(f"{where} returned no log-probability.")
    least = min((value for value in returned.values() if not math.isnan(value)), default=0.0)
    values, censored = [], []
    for token in tokens:
        bound = max([least, *_beginnings(returned, token)])
        value = returned.get(token, bound)
        unknown = math.isnan(value)
        values.append(0.0 if unknown else max(value, MIN_LOGPROB))
        censored.append(unknown or token not in returned or value <= MIN_LOGPROB)
    return Scores(tuple(values), tuple(censored), tokens_in, tokens_out)


def _beginnings(returned: Mapping[Token, float], token: Token) -> list[float]:
    if not isinstance(token, str):
        return []
    return [
        0.0 if math.isnan(value) else value
        for word, value in returned.items()
        if isinstance(word, str) and word and token.startswith(word)
    ]


def read_usage(reply: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of input and output tokens; 0 where the server does not report it, or what cannot be."""
    usage = reply.get("usage")
    found = usage if isinstance(usage, dict) else {}
    return count_of(found.get("prompt_tokens")), count_of(found.get("completion_tokens"))


def _choice(reply: Mapping[str, Any], where: str) -> dict[str, Any]:
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise TransientModelError(f"{where} returned something other than a chat completion.")
    choice: dict[str, Any] = choices[0]
    return choice

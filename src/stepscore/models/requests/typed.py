"""The base of all requests: a type declares its media, token bound, answer checks and response type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from stepscore.errors import TransientModelError
from stepscore.models.media import Decode, DecodedMedia, Media, MediaRef, VideoFrames, decoded
from stepscore.models.prompts import Prompt
from stepscore.models.responses import MAX_ADDED_IN, MAX_ADDED_OUT, Response, count_of
from stepscore.models.tagged import Tagged

MAX_TOKENS_PER_IMAGE = 16_384
"""No vision model in use reads one image as more tokens than this."""

R = TypeVar("R", bound=Response)


@dataclass(frozen=True)
class TypedRequest(Tagged, Generic[R]):
    """A request with a response of type ``R``.

    Attributes:
        response: The response type ``R``.
        shown: Names of the fields that hold images, videos, or prompts that contain them.
        unanswered: The error message for a model that does not support this type of request.
        cached: Whether the answer depends only on the request and can therefore be cached.
        writes_text: Whether the model decides the length of the answer; otherwise the number of tokens is known.
    """

    response: ClassVar[type[Response]]
    shown: ClassVar[tuple[str, ...]] = ("prompt",)
    unanswered: ClassVar[str] = "does not answer this"
    cached: ClassVar[bool] = True
    writes_text: ClassVar[bool] = False

    def media(self) -> list[Media]:
        """Return the request's images and videos, in order."""
        return [part for name in self.shown for part in _media(getattr(self, name))]

    def refs(self) -> list[MediaRef]:
        """Return the request's images and videos that are not decoded yet."""
        return [part for part in self.media() if isinstance(part, MediaRef)]

    def resolved(self, decode: Decode) -> Self:
        """Return the request with references replaced by decoded frames."""
        return replace(self, **{name: _resolved(getattr(self, name), decode) for name in self.shown})

    def words(self) -> list[str]:
        """Return all texts of the request."""
        return []

    def as_text(self) -> str:
        """Return the request as readable text, with images replaced by their names."""
        raise NotImplementedError

    def token_bound(self) -> tuple[int, int]:
        """Return upper bounds of its input and output tokens."""
        return 0, 0

    def token_estimate(self, image_tokens: int, frames_per_block: int) -> tuple[int, int]:
        """Estimate the input tokens, at four bytes of text per token, and bound the output tokens.

        ``frames_per_block`` is above 1 for a model that reads several frames of a video prefix as one image.
        """
        return image_tokens, 0

    def unknown(self, text: str = "") -> R:
        """Return a response with all values unknown; ``text`` becomes the text of a generated answer."""
        raise NotImplementedError

    def check(self, response: object, where: str) -> R:
        """Return a response with unknown in place of impossible values.

        Raises:
            TransientModelError: The model named by ``where`` returned a type, length or shape that was not
                requested.
        """
        checked = self.checked(response) if isinstance(response, self.response) else None
        if checked is None:
            raise TransientModelError(f"{where} returned something other than what was requested.")
        return checked

    def checked(self, response: Any) -> R | None:
        """Return a checked response of the right type; ``None`` if it is not a valid answer."""
        raise NotImplementedError

    def possible_counts(self, response: Response) -> tuple[int, int]:
        """Return the token counts of a response; a count above the request's bound becomes 0."""
        most_in, most_out = self.token_bound()
        read, written = count_of(response.tokens_in), count_of(response.tokens_out)
        return (
            read if read <= most_in + MAX_ADDED_IN else 0,
            written if written <= most_out + MAX_ADDED_OUT else 0,
        )


Request: TypeAlias = TypedRequest[Any]


def _media(value: Prompt | tuple[Media, ...] | Media) -> list[Media]:
    if isinstance(value, Prompt):
        return value.media()
    return list(value) if isinstance(value, tuple) else [value]


def _resolved(value: Any, decode: Decode) -> Any:
    if isinstance(value, Prompt):
        return value.resolved(decode)
    if isinstance(value, tuple):
        return tuple(decoded(each, decode) for each in value)
    return decoded(value, decode)


def text_bytes(texts: Iterable[str]) -> int:
    """Return the total number of bytes of the texts."""
    return sum(len(text.encode()) for text in texts)


@dataclass(frozen=True)
class PromptRequest(TypedRequest[R]):
    """A request with a single prompt."""

    prompt: Prompt

    def words(self) -> list[str]:
        """Return the texts of the prompt."""
        return self.prompt.texts()

    def as_text(self) -> str:
        """Return the turns, one per line."""
        return self.prompt.as_text()

    def token_bound(self) -> tuple[int, int]:
        """Return upper bounds of its input and output tokens."""
        images = sum(part.images for part in self.media())
        return self.prompt.text_tokens() + images * MAX_TOKENS_PER_IMAGE, 0

    def token_estimate(self, image_tokens: int, frames_per_block: int) -> tuple[int, int]:
        """Estimate the input tokens and bound the output tokens."""
        return image_tokens + text_bytes(self.words()) // 4, self.token_bound()[1]

    @property
    def video_frames(self) -> int:
        """Number of frames in all videos of the prompt."""
        return sum(part.images for part in self.media() if isinstance(part, VideoFrames | DecodedMedia))

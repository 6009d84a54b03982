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
        response: That type.
        shown: Names of the fields that hold images and videos, or prompts with them.
        unanswered: The message about a model that does not answer such requests.
        cached: Whether the answer depends only on the request, so that it is cached.
        writes_text: Whether the model decides the length of the answer; others have a known number of tokens.
    """

    response: ClassVar[type[Response]]
    shown: ClassVar[tuple[str, ...]] = ("prompt",)
    unanswered: ClassVar[str] = "does not answer this"
    cached: ClassVar[bool] = True
    writes_text: ClassVar[bool] = False

    def media(self) -> list[Media]:
        """Return its images and videos, in order."""
        return [part for name in self.shown for part in _media(getattr(self, name))]

    def refs(self) -> list[MediaRef]:
        """Return those of its images and videos that are not decoded."""
        return [part for part in self.media() if isinstance(part, MediaRef)]

    def resolved(self, decode: Decode) -> Self:
        """Return it with decoded frames in place of names."""
        return replace(self, **{name: _resolved(getattr(self, name), decode) for name in self.shown})

    def words(self) -> list[str]:
        """Return all its texts."""
        return []

    def as_text(self) -> str:
        """Return it as readable text, with images as their names."""
        raise NotImplementedError

    def token_bound(self) -> tuple[int, int]:
        """Return upper bounds of its input and output tokens."""
        return 0, 0

    def token_estimate(self, image_tokens: int, frames_per_block: int) -> tuple[int, int]:
        """Return an estimate of its input tokens and a bound of its output tokens; a token is four bytes of text.

        A model that reads blocks of frames of a video's prefix as one image has ``frames_per_block`` above 1.
        """
        return image_tokens, 0

    def unknown(self, text: str = "") -> R:
        """Return the response in which nothing is known; ``text`` is the text of a generated one."""
        raise NotImplementedError

    def check(self, response: object, where: str) -> R:
        """Return a response with unknown in place of impossible values.

        Raises:
            TransientModelError: The model ``where`` returned another type, length or shape than requested.
        """
        checked = self.checked(response) if isinstance(response, self.response) else None
        if checked is None:
            raise TransientModelError(f"{where} returned something other than what was requested.")
        return checked

    def checked(self, response: Any) -> R | None:
        """Return a response of the right type as :meth:`check` does; ``None`` if it is not an answer."""
        raise NotImplementedError

    def possible_counts(self, response: Response) -> tuple[int, int]:
        """Return the token counts of a response, with 0 for one above the request's bound."""
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
    """Return the number of bytes of texts."""
    return sum(len(text.encode()) for text in texts)


@dataclass(frozen=True)
class PromptRequest(TypedRequest[R]):
    """A request that is one prompt."""

    prompt: Prompt

    def words(self) -> list[str]:
        """Return the texts of the prompt."""
        return self.prompt.texts()

    def as_text(self) -> str:
        """Return the turns, one a line."""
        return self.prompt.as_text()

    def token_bound(self) -> tuple[int, int]:
        """Return upper bounds of its input and output tokens."""
        images = sum(part.images for part in self.media())
        return self.prompt.text_tokens() + images * MAX_TOKENS_PER_IMAGE, 0

    def token_estimate(self, image_tokens: int, frames_per_block: int) -> tuple[int, int]:
        """Return an estimate of its input tokens and a bound of its output tokens."""
        return image_tokens + text_bytes(self.words()) // 4, self.token_bound()[1]

    @property
    def video_frames(self) -> int:
        """Number of frames of all its videos."""
        return sum(part.images for part in self.media() if isinstance(part, VideoFrames | DecodedMedia))

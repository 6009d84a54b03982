"""What a token costs.

The user's prices (``--price-in``, ``--price-out``) come first. Else a model of the table below is priced as
its vendor listed it on the date there. A model that neither knows has no price: its cost is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepscore.models.requests import (
    DecodedMedia,
    Generate,
    PredictStages,
    Prompt,
    Request,
    ScorePrefixes,
    VideoFrames,
)

if TYPE_CHECKING:
    from stepscore.models.calls.call import Call

LISTED = "2025-08"
"""Month of the vendors' price lists below; US dollars per million tokens, in and out."""

TABLE = {
    "gpt-4o": (2.50, 10.00),
    "gpt-4o-mini": (0.15, 0.60),
    "gpt-4.1": (2.00, 8.00),
    "gpt-4.1-mini": (0.40, 1.60),
    "gemini-2.5-pro": (1.25, 10.00),
    "gemini-2.5-flash": (0.30, 2.50),
}

MOST_TOKENS_PER_IMAGE = 16_384
"""No vision model in use reads one image as more tokens than this."""


@dataclass(frozen=True)
class Price:
    """Money per million tokens, and where the figure is from."""

    tokens_in: float
    tokens_out: float
    source: str

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """What so many tokens cost."""
        return (tokens_in * self.tokens_in + tokens_out * self.tokens_out) / 1e6

    def most(self, call: Call) -> float:
        """The most a call can cost: a byte of text is at most one token."""
        tokens_in, tokens_out = most_tokens(call.request)
        return self.of(tokens_in, tokens_out)


def price_of(model: str, tokens_in: float | None = None, tokens_out: float | None = None) -> Price | None:
    """The price of a model: the user's, else the table's, else ``None``."""
    if tokens_in is not None or tokens_out is not None:
        return Price(tokens_in or 0.0, tokens_out or 0.0, "given by the user")
    name = model.rsplit("/", 1)[-1]
    return Price(*TABLE[name], f"vendor's list of {LISTED}") if name in TABLE else None


def most_tokens(request: Request) -> tuple[int, int]:
    """An upper bound of the tokens a request reads and writes."""
    if isinstance(request, ScorePrefixes):
        # Asked one by one, as a server is; sharing work can only make it less.
        text = sum(_text_tokens(prompt) for prompt in request.prompts)
        asked = len(request.lengths) * len(request.prompts)
        frames = sum(request.lengths) * len(request.prompts)
        return len(request.lengths) * text + frames * MOST_TOKENS_PER_IMAGE, asked
    if isinstance(request, PredictStages):
        return 0, 0
    images = sum(
        _frames(part) for turn in request.prompt.turns for part in turn.parts if not isinstance(part, str)
    )
    tokens_out = request.max_tokens if isinstance(request, Generate) else 1
    return _text_tokens(request.prompt) + images * MOST_TOKENS_PER_IMAGE, tokens_out


def _text_tokens(prompt: Prompt) -> int:
    """At most a token a byte, and a turn's markup for each text."""
    texts = [part for turn in prompt.turns for part in turn.parts if isinstance(part, str)]
    return sum(len(text.encode()) + 16 for text in (*texts, prompt.prefill) if text)


def _frames(part: object) -> int:
    if isinstance(part, DecodedMedia):
        return len(part.clip)
    return len(part.indices) if isinstance(part, VideoFrames) else 1

"""Models behind any server that speaks OpenAI's chat completions: hosted APIs, gateways, local servers.

``openai-api/gpt-4o`` asks OpenAI with ``OPENAI_API_KEY``. ``openai-api/PROVIDER/MODEL`` asks another provider
with ``PROVIDER_API_KEY`` at ``PROVIDER_BASE_URL``, or at the option ``base_url``.

Scores come from ``top_logprobs``: the server tells its likeliest tokens, at most 20, and a word that is not
among them comes back censored, with a number that its true value does not exceed.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from stepscore.errors import (
    CapabilityError,
    ModelError,
    OptionError,
    RefusedError,
    StatusError,
    UnknownNameError,
)
from stepscore.models.api.chat import ImageCodec, chat_messages, read_answer, read_told, read_usage, scores_of
from stepscore.models.api.http import Server, status_of
from stepscore.models.api.prefix_requests import chat_prompt, is_single, of_scores, score_one_by_one
from stepscore.models.base import (
    Answer,
    Capabilities,
    PrefixScores,
    Response,
    Scores,
    SyncMethods,
    run_blocking,
)
from stepscore.models.requests import Generate, PredictStages, Prompt, Request, Score, ScorePrefixes

OPENAI = "https://api.openai.com/v1"
MOST_TOLD = 20
"""Tokens that OpenAI, and vLLM by default, tell at most."""


@dataclass(frozen=True)
class OpenAIModel(SyncMethods):
    """A model behind a chat completions server.

    Attributes:
        model: What follows ``openai-api/``: a model's name, or a provider, a slash and a model's name.
        base_url: The server, up to and with ``/v1``; ``None`` takes it from the environment.
        image_format: ``"png"`` (no pixel changes) or ``"jpeg"`` (smaller).
        image_quality: Of JPEG, 1..100.
        max_image_side: Larger images are made smaller before they are sent; ``None`` for never.
        timeout_s: Seconds for one answer, its last byte included.
        top_logprobs: How many of the likeliest tokens to ask for when scoring, 1..20; 0 for a server that
            tells none, and the model is then known not to score.
        json_mode: Whether ``response_format`` may be sent; ``False`` for servers that refuse it.
        limit_field: How the server calls the limit of written tokens; OpenAI's newer models take only
            ``"max_completion_tokens"``.
    """

    model: str
    base_url: str | None = None
    image_format: Literal["png", "jpeg"] = "png"
    image_quality: int = 95
    max_image_side: int | None = None
    timeout_s: float = 300.0
    top_logprobs: int = MOST_TOLD
    json_mode: bool = True
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    backend: ClassVar[str] = "openai-api"
    prefill: ClassVar[bool] = False
    """Whether the server can go on from an unfinished answer."""
    lists_all: ClassVar[bool] = False
    """Whether the server's list of models holds every model it serves."""

    def __post_init__(self) -> None:
        if not 0 <= self.top_logprobs <= MOST_TOLD:
            raise OptionError(f"top_logprobs is {self.top_logprobs}; it must be in 0..{MOST_TOLD}.")
        if self.limit_field not in ("max_tokens", "max_completion_tokens"):
            raise OptionError(
                f"limit_field is {self.limit_field!r}; it must be max_tokens or max_completion_tokens."
            )
        if not self.asked:
            raise OptionError(f"{self.name!r} names a provider and no model: {self.backend}/PROVIDER/MODEL.")
        _ = self.codec  # a wrong image option is told at once
        if self.base_url is not None:
            _ = self.server

    @property
    def name(self) -> str:
        """The model string."""
        return f"{self.backend}/{self.model}"

    @property
    def provider(self) -> str:
        """Who is asked; names the environment variables."""
        provider, slash, _ = self.model.partition("/")
        return provider if slash else "openai"

    @property
    def asked(self) -> str:
        """The model's name as the server knows it."""
        return self.model.partition("/")[2] if "/" in self.model else self.model

    @property
    def codec(self) -> ImageCodec:
        """How images are packed."""
        return ImageCodec(self.image_format, self.image_quality, self.max_image_side)

    @cached_property
    def server(self) -> Server:
        """Where it is asked."""
        prefix = re.sub(r"[^A-Z0-9]", "_", self.provider.upper())
        url = self.base_url or os.environ.get(f"{prefix}_BASE_URL") or self._default_url()
        if url is None:
            raise OptionError(
                f"{self.name}: where is {self.provider!r}? Give --base-url URL, or set {prefix}_BASE_URL. "
                f"(A model whose own name has a slash is {self.backend}/PROVIDER/{self.model}.)"
            )
        # On one's own server it is always there, and easily forgotten; a gateway may have it elsewhere.
        url = url.rstrip("/").removesuffix("/v1") + "/v1" if self.lists_all else url
        return Server(url, f"{prefix}_API_KEY", self.timeout_s)

    def _default_url(self) -> str | None:
        return OPENAI if self.provider == "openai" else None

    @property
    def capabilities(self) -> Capabilities:
        """Text, images, and the likeliest tokens' probabilities (unless ``top_logprobs`` is 0)."""
        return Capabilities(scores="top" if self.top_logprobs else "none", videos=True, served=True)

    def describe(self) -> Mapping[str, object]:
        """Name, the revision the server reports, and how images are packed. Not where the server is."""
        return {
            "name": self.name,
            "revision": self._card.get("revision"),
            "root": self._card.get("root"),
            "images": self.codec.describe(),
            "top_logprobs": self.top_logprobs,
            "json_mode": self.json_mode,
        }

    @cached_property
    def _card(self) -> dict[str, Any]:
        """What ``/v1/models`` says of the model; empty for servers that keep no such list."""
        return run_blocking(self._find_card())

    async def _find_card(self) -> dict[str, Any]:
        try:
            listed = (await self.server.get("models")).get("data")
        except (StatusError, RefusedError) as error:
            status = status_of(error)
            if status in (401, 403):
                raise ModelError(f"{error} Is {self.server.key_name} set, and right?") from None
            # `transformers serve` fails at its list where there is no hub cache, and answers all the same.
            if isinstance(error, RefusedError) and (self.lists_all or status != 500):
                raise
            return {}
        cards = [card for card in listed if isinstance(card, dict)] if isinstance(listed, list) else []
        card: dict[str, Any] = next((card for card in cards if card.get("id") == self.asked), {})
        if self.lists_all and cards and not card:
            raise UnknownNameError("model", self.asked, [str(c.get("id")) for c in cards], where=self.backend)
        # A model served under another name says which it is; most repeat their name, which tells nothing.
        return card | {"root": None if card.get("root") == self.asked else card.get("root")}

    async def answer(self, request: Request) -> Response:
        """The answer to a resolved request; see :class:`stepscore.models.Model`."""
        if isinstance(request, Generate):
            return await self._write(request)
        if isinstance(request, PredictStages):
            raise CapabilityError(f"{self.name} predicts no stages; a checkpoint under sarm/ does.")
        if self.capabilities.scores == "none":
            raise CapabilityError(f"{self.name} gives no token scores; hf/, vllm/ and sglang/ give them.")
        if isinstance(request, Score):
            return await self._score(request.prompt, request.candidates)
        if not is_single(request):
            return await score_one_by_one(request, self._score_prefix)
        return await self._score_prefix(request)

    async def _write(self, request: Generate) -> Answer:
        body: dict[str, Any] = {self.limit_field: request.max_tokens, "temperature": request.temperature}
        if request.top_p != 1.0:
            body["top_p"] = request.top_p
        if request.seed is not None:
            body["seed"] = request.seed
        if request.json and self.json_mode:
            body["response_format"] = {"type": "json_object"}
        return read_answer(await self._chat(request.prompt, body), self.name)

    async def _score(self, prompt: Prompt, candidates: tuple[str, ...]) -> Scores:
        body = {
            self.limit_field: 1,
            "temperature": 0.0,
            "logprobs": True,
            "top_logprobs": self.top_logprobs,
        }
        reply = await self._chat(prompt, body)
        return scores_of(read_told(reply, self.name), candidates, read_usage(reply)[0], self.name)

    async def _score_prefix(self, request: ScorePrefixes) -> PrefixScores:
        prompt, candidates = chat_prompt(request, prefill=self.prefill)
        return of_scores(await self._score(prompt, candidates))

    async def _chat(self, prompt: Prompt, body: dict[str, Any]) -> dict[str, Any]:
        if prompt.template != "chat":
            raise CapabilityError(
                f"{self.name} cannot leave a turn open; hf/ and sglang/ take text as it is."
            )
        body |= self._continuing(prompt)
        messages = await asyncio.to_thread(chat_messages, prompt, self.codec)
        return await self.server.post("chat/completions", {"model": self.asked, "messages": messages} | body)

    def _continuing(self, prompt: Prompt) -> dict[str, Any]:
        """Return the fields that make the server continue an unfinished answer."""
        if prompt.prefill:
            raise CapabilityError(
                f"{self.name} cannot continue an unfinished answer; hf/, vllm/ and sglang/ can."
            )
        return {}

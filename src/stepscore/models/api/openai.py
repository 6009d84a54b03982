"""Models behind any server with OpenAI's chat completions: hosted APIs, gateways, local servers.

``openai-api/gpt-4o`` is OpenAI's, with ``OPENAI_API_KEY``; ``openai-api/gemini/gemini-2.5-flash`` is Google's, with
``GEMINI_API_KEY``. ``openai-api/PROVIDER/MODEL`` is another provider's, with
``PROVIDER_API_KEY`` at ``PROVIDER_BASE_URL``, or at the option ``base_url``.

Scores come from ``top_logprobs``: the server returns its most likely tokens, at most 20, and a word that is not
among them comes back censored, with a number that its true value does not exceed.
"""

from __future__ import annotations

import asyncio
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from stepscore.models.api.chat import (
    ImageCodec,
    chat_messages,
    read_answer,
    read_logprobs,
    read_usage,
    scores_of,
)
from stepscore.models.api.http import Server, status_of
from stepscore.models.api.prefix_requests import chat_prompt, of_scores, score_one_by_one
from stepscore.models.base import Capabilities, Handlers, SyncMethods, handler_of
from stepscore.models.blocking import run_blocking
from stepscore.models.prompts import Prompt
from stepscore.models.requests import Generate, Request, Score, ScorePrefixes
from stepscore.models.responses import Answer, PrefixScores, Response, Scores
from stepscore.models.schemas import Schema, from_object, object_schema
from stepscore.registry import names

PROVIDERS = {
    "openai": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
}
"""Addresses of providers that need no ``base_url``; Gemini's is its OpenAI-compatible endpoint."""
EFFORTS = ("none", "minimal", "low", "medium", "high")
MAX_TOP_LOGPROBS = 20
"""The most tokens for which OpenAI, and vLLM by default, return log-probabilities."""

REFUSED_SCHEMA = re.compile(
    r"schema|structured|response_format|guided|grammar|regex|pattern|extra_forbidden|unknown field",
    re.IGNORECASE,
)
"""What a server's message mentions when it refuses a schema, and not the question."""

MAX_LISTED = 1000
"""Most models of a server's list that an error compares a wrong name with."""


def json_schema_format(schema: dict[str, object]) -> dict[str, object]:
    """Return the ``response_format`` of a JSON schema."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def _name(value: object) -> str | None:
    """Return a name or revision that a server states, as a message can hold it; ``None`` for others."""
    if isinstance(value, int | float):
        value = str(value)
    return (
        "".join(char if char.isprintable() else "?" for char in value[:200])
        if isinstance(value, str)
        else None
    )


@dataclass(frozen=True)
class OpenAIModel(SyncMethods):
    """A model behind a chat completions server.

    Attributes:
        model: The part after ``openai-api/``: a model's name, or a provider, a slash and a model's name.
        base_url: The server's address, ``/v1`` included; ``None`` takes it from the environment.
        image_format: ``"png"`` (no pixel changes) or ``"jpeg"`` (smaller).
        image_quality: JPEG quality, 1..100.
        max_image_side: Longer side in pixels above which an image is scaled down; ``None``: no limit.
        timeout_s: Seconds for one response, its last byte included.
        top_logprobs: Number of most likely tokens to request when scoring, 1..20; 0 for a server that returns
            none, and the model then does not score.
        json_mode: Whether ``response_format``, or another form of a schema, may be sent; ``False`` for servers that
            refuse it.
        limit_field: The server's name for the limit of output tokens; OpenAI's newer models take only
            ``"max_completion_tokens"``.
        reasoning_effort: How much a reasoning model thinks before it answers, where the server takes it; thoughts
            count as output tokens, so that a score of the first one needs ``"none"``. ``None`` sends nothing.
    """

    model: str = field(metadata=names("text"))
    base_url: str | None = field(default=None, metadata=names("server"))
    image_format: Literal["png", "jpeg"] = "png"
    image_quality: int = 95
    max_image_side: int | None = None
    timeout_s: float = 300.0
    top_logprobs: int = MAX_TOP_LOGPROBS
    json_mode: bool = True
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None

    backend: ClassVar[str] = "openai-api"
    prefill: ClassVar[bool] = False
    """Whether the server can continue an unfinished assistant's turn."""
    lists_all: ClassVar[bool] = False
    """Whether the server's list of models holds every model it serves."""

    def __post_init__(self) -> None:
        if not 0 <= self.top_logprobs <= MAX_TOP_LOGPROBS:
            raise OptionError(f"top_logprobs must be from 0 to {MAX_TOP_LOGPROBS}, got {self.top_logprobs}.")
        if self.limit_field not in ("max_tokens", "max_completion_tokens"):
            raise OptionError(
                f"limit_field must be max_tokens or max_completion_tokens, got {self.limit_field!r}."
            )
        if self.reasoning_effort is not None and self.reasoning_effort not in EFFORTS:
            raise OptionError(
                f"reasoning_effort must be one of {', '.join(EFFORTS)}, got {self.reasoning_effort!r}."
            )
        if not self.served_name:
            raise OptionError(
                f"{self.name!r} names a provider without a model. Write {self.backend}/PROVIDER/MODEL."
            )
        _ = self.codec  # raises at once for a wrong image option
        if self.base_url is not None:
            _ = self.server

    @property
    def name(self) -> str:
        """The model string."""
        return f"{self.backend}/{self.model}"

    @property
    def provider(self) -> str:
        """The provider; the environment variables are named after it."""
        provider, slash, _ = self.model.partition("/")
        return provider if slash else "openai"

    @property
    def served_name(self) -> str:
        """The model's name as the server knows it."""
        return self.model.partition("/")[2] if "/" in self.model else self.model

    @property
    def codec(self) -> ImageCodec:
        """Encoding of images."""
        return ImageCodec(self.image_format, self.image_quality, self.max_image_side)

    @cached_property
    def server(self) -> Server:
        """The server, at ``base_url``, else as the environment says."""
        prefix = re.sub(r"[^A-Z0-9]", "_", self.provider.upper())
        url = self.base_url or os.environ.get(f"{prefix}_BASE_URL") or self._default_url()
        if url is None:
            raise OptionError(
                f"{self.name}: the address of {self.provider!r} is not known. Give -M base-url=URL, or set "
                f"{prefix}_BASE_URL. "
                f"(A model whose own name has a slash is {self.backend}/PROVIDER/{self.model}.)"
            )
        # A self-hosted server always has it, and it is easily forgotten; a gateway may have it elsewhere.
        url = url.rstrip("/").removesuffix("/v1") + "/v1" if self.lists_all else url
        return Server(url, f"{prefix}_API_KEY", self.timeout_s)

    def _default_url(self) -> str | None:
        return PROVIDERS.get(self.provider)

    @property
    def capabilities(self) -> Capabilities:
        """Text, images, and log-probabilities of the most likely tokens (unless ``top_logprobs`` is 0)."""
        scores: Literal["top", "none"] = "top" if self.top_logprobs else "none"
        return Capabilities(scores=scores, videos=True, served=True, structured=self.json_mode)

    def describe(self) -> Mapping[str, object]:
        """Return name, the revision the server reports, and the encoding of images; not the server's address."""
        return {
            "name": self.name,
            "revision": self._card.get("revision"),
            "root": self._card.get("root"),
            "images": self.codec.describe(),
            "top_logprobs": self.top_logprobs,
            "json_mode": self.json_mode,
            # Stated only if it is sent: its default is the server's.
            **({"reasoning_effort": self.reasoning_effort} if self.reasoning_effort is not None else {}),
        }

    @cached_property
    def _card(self) -> dict[str, Any]:
        """Revision and root of the model's entry in ``/v1/models``; empty for servers without such a list."""
        return run_blocking(self._find_card())

    async def _find_card(self) -> dict[str, Any]:
        try:
            listed = (await self.server.get("models")).get("data")
        except (StatusError, RefusedError) as error:
            status = status_of(error)
            if status in (401, 403):
                raise ModelError(f"{error} Is {self.server.key_name} set, and is it right?") from None
            # `transformers serve` fails at its list where there is no hub cache, and answers all the same.
            if isinstance(error, RefusedError) and (self.lists_all or status != 500):
                raise
            return {}
        cards = [card for card in listed if isinstance(card, dict)] if isinstance(listed, list) else []
        card: dict[str, Any] = next((card for card in cards if card.get("id") == self.served_name), {})
        if self.lists_all and cards and not card:
            names = [name for c in cards[:MAX_LISTED] if (name := _name(c.get("id"))) is not None]
            raise UnknownNameError("model", self.served_name, names, where=self.backend)
        revision, root = _name(card.get("revision")), _name(card.get("root"))
        # A model served under another name reports its own; most repeat their name, which adds nothing.
        return {"revision": revision, "root": None if root == self.served_name else root}

    async def answer(self, request: Request) -> Response:
        """Return the response to a resolved request; see :class:`stepscore.models.Model`."""
        response: Response = await handler_of(self._handlers, request, self.name)(request)
        return response

    @property
    def _handlers(self) -> Handlers:
        return {Generate: self._generate, Score: self._answer_score, ScorePrefixes: self._answer_prefixes}

    async def _answer_score(self, request: Score) -> Scores:
        self._check_scores(request)
        return await self._score(request.prompt, request.candidates)

    async def _answer_prefixes(self, request: ScorePrefixes) -> PrefixScores:
        self._check_scores(request)
        return await score_one_by_one(request, self._score_prefix)

    def _check_scores(self, request: Request) -> None:
        if self.capabilities.scores == "none":
            raise CapabilityError(f"{self.name} {request.unanswered}.")

    async def _generate(self, request: Generate) -> Answer:
        body: dict[str, Any] = {self.limit_field: request.max_tokens, "temperature": request.temperature}
        if request.top_p != 1.0:
            body["top_p"] = request.top_p
        if request.top_k is not None:
            body["top_k"] = request.top_k  # not OpenAI's own, but of the servers that have such models
        if request.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        if request.seed is not None:
            body["seed"] = request.seed
        if request.schema is not None and self.json_mode and not self._schema_refused:
            return await self._generate_by_schema(request.prompt, request.schema, body)
        if request.json and self.json_mode:
            body["response_format"] = {"type": "json_object"}
        return read_answer(await self._chat(request.prompt, body), self.name)

    async def _generate_by_schema(self, prompt: Prompt, schema: Schema, body: dict[str, Any]) -> Answer:
        """Return an answer that the server holds to a schema; one that refuses it is asked without from now on.

        Raises:
            RefusedError: The server refused the schema; the next attempt is made without it.
        """
        try:
            answer = read_answer(await self._chat(prompt, body | self._schema_fields(schema)), self.name)
        except StatusError as error:
            if error.status not in (400, 422) or not REFUSED_SCHEMA.search(str(error)):
                raise
            if not self._schema_refused:
                self._schema_refused.append(str(error))
                warnings.warn(
                    f"{self.name}: the server refuses to hold answers to a schema, so it is asked without one "
                    f"(-J structured=false does that from the beginning). {error}",
                    stacklevel=2,
                )
            raise RefusedError(f"{error} Asking without a schema instead.", 0.0) from None
        return replace(answer, text=self._read_by_schema(schema, answer.text))

    def _schema_fields(self, schema: Schema) -> dict[str, Any]:
        """Return the fields of a request that hold its answer to a schema; OpenAI's answers are JSON objects."""
        return {"response_format": json_schema_format(object_schema(schema))}

    def _read_by_schema(self, schema: Schema, text: str) -> str:
        """Return an answer in the schema's own form."""
        return from_object(schema, text)

    @cached_property
    def _schema_refused(self) -> list[str]:
        """What the server said when it refused a schema; empty while it did not."""
        return []

    async def _score(self, prompt: Prompt, candidates: tuple[str, ...]) -> Scores:
        body = {
            self.limit_field: 1,
            "temperature": 0.0,
            "logprobs": True,
            "top_logprobs": self.top_logprobs,
        }
        try:
            reply = await self._chat(prompt, body)
        except StatusError as error:
            if error.status == 400 and "logprobs" in str(error).lower():
                raise CapabilityError(
                    f"{self.name} gives no log-probabilities: {error} Use a judge that reads text, or another model."
                ) from error
            raise
        read, written = read_usage(reply)
        return scores_of(read_logprobs(reply, self.name), candidates, read, self.name, written)

    async def _score_prefix(self, request: ScorePrefixes) -> PrefixScores:
        prompt, candidates = chat_prompt(request, prefill=self.prefill)
        return of_scores(await self._score(prompt, candidates))

    async def _chat(self, prompt: Prompt, body: dict[str, Any]) -> dict[str, Any]:
        if prompt.template != "chat":
            raise CapabilityError(
                f"{self.name} cannot leave a turn open; hf/ and sglang/ take text as it is."
            )
        body |= self._continuing(prompt)
        if self.reasoning_effort is not None:
            body["reasoning_effort"] = self.reasoning_effort
        messages = await asyncio.to_thread(chat_messages, prompt, self.codec)
        return await self.server.post(
            "chat/completions", {"model": self.served_name, "messages": messages} | body
        )

    def _continuing(self, prompt: Prompt) -> dict[str, Any]:
        """Return the fields that make the server continue an unfinished answer."""
        if prompt.prefill:
            raise CapabilityError(
                f"{self.name} cannot continue an unfinished answer; hf/, vllm/ and sglang/ can."
            )
        return {}

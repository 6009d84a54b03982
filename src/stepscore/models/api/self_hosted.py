"""Self-hosted servers, vLLM and SGLang: what both can do beyond OpenAI's chat completions.

Such a server has one model or few, lists all of them, continues an unfinished answer, and returns the ids of a
word's tokens (``/tokenize``), so that the score of exactly that token can be requested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from stepscore.errors import ModelError, OptionError, TransientModelError
from stepscore.models.api.openai import OpenAIModel
from stepscore.models.calls.prefix_cache import PrefixCacheCounts, read_prefix_cache

MAX_TEXTS = 100_000
"""Texts whose tokens are remembered; with more, all are forgotten."""


@dataclass(frozen=True)
class SelfHostedModel(OpenAIModel):
    """A model behind a self-hosted server; the environment variables are named after the backend."""

    prefill: ClassVar[bool] = True
    lists_all: ClassVar[bool] = True
    default_url: ClassVar[str]
    """The server's address where neither an option nor the environment states one."""

    @property
    def provider(self) -> str:
        """The backend; the environment variables are named after it."""
        return self.backend

    @property
    def served_name(self) -> str:
        """The model's name as the server knows it."""
        return self.model

    def _default_url(self) -> str | None:
        return self.default_url

    async def prefix_cache(self) -> PrefixCacheCounts | None:
        """Return the counts of the server's prefix cache so far; ``None`` where it does not state them."""
        try:
            return read_prefix_cache(await self.server.get_text("metrics"), self.served_name)
        except ModelError:
            return None

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {}

    async def _token_ids(self, words: Sequence[str]) -> list[int]:
        """Return the token id of each word, which must be a single token; each is requested once."""
        for word in words:
            if word not in self._ids:
                self._ids[word] = await self._token_id(word)
        return [self._ids[word] for word in words]

    async def _token_id(self, word: str) -> int:
        tokens = await self._tokenize({"prompt": word, "add_special_tokens": False})
        if len(tokens) != 1:
            raise OptionError(
                f"{self.name}: {word!r} is {len(tokens)} tokens, and only a single token can be scored. "
                "Choose another word; its leading space counts."
            )
        return tokens[0]

    @cached_property
    def _texts(self) -> dict[str, list[int]]:
        return {}

    async def _tokens(self, text: str) -> list[int]:
        """Return the token ids of a text, special tokens included; each is requested once."""
        if text not in self._texts:
            found = await self._tokenize({"prompt": text, "add_special_tokens": False})
            if len(self._texts) >= MAX_TEXTS:
                self._texts.clear()
            self._texts[text] = found
        return self._texts[text]

    async def _tokenize(self, body: Mapping[str, object]) -> list[int]:
        """Return the token ids of a text or a conversation; the server reads it and computes nothing."""
        reply = await self.server.post("tokenize", {"model": self.served_name, **body}, at_root=True)
        tokens = reply.get("tokens")
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise TransientModelError(f"{self.name}: /tokenize did not return a list of tokens.")
        return tokens

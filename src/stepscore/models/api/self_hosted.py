"""Self-hosted servers, vLLM and SGLang: what both can do beyond OpenAI's chat completions.

Such a server has one model or few, lists all of them, continues an unfinished answer, and returns the ids of a
word's tokens (``/tokenize``), so that the score of exactly that token can be requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from stepscore.errors import OptionError, TransientModelError
from stepscore.models.api.openai import OpenAIModel


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
        body = {"model": self.served_name, "prompt": word, "add_special_tokens": False}
        tokens = (await self.server.post("tokenize", body, at_root=True)).get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise TransientModelError(f"{self.name}: /tokenize did not return a list of tokens.")
        if len(tokens) != 1:
            raise OptionError(
                f"{self.name}: {word!r} is {len(tokens)} tokens, and only a single token can be scored. "
                "Choose another word; its leading space counts."
            )
        return int(tokens[0])

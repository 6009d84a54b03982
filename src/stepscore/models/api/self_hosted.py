"""What vLLM's and SGLang's servers share: a server of one's own, which tells what its tokens are.

Such a server has one model or few, lists all of them, goes on from an unfinished answer, and tells the ids of
a word's tokens (``/tokenize``), by which a score can ask for exactly that token.
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
    """A model behind a server of one's own; the environment variables are named after the backend."""

    prefill: ClassVar[bool] = True
    lists_all: ClassVar[bool] = True
    home: ClassVar[str]
    """Where the server is when nothing says otherwise."""

    @property
    def provider(self) -> str:
        """Names the environment variables."""
        return self.backend

    @property
    def asked(self) -> str:
        """The model's name as the server knows it."""
        return self.model

    def _default_url(self) -> str | None:
        return self.home

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {}

    async def _token_ids(self, words: Sequence[str]) -> list[int]:
        """The one token that each word is; the server is asked once a word."""
        for word in words:
            if word not in self._ids:
                self._ids[word] = await self._token_id(word)
        return [self._ids[word] for word in words]

    async def _token_id(self, word: str) -> int:
        body = {"model": self.asked, "prompt": word, "add_special_tokens": False}
        tokens = (await self.server.post("tokenize", body, at_root=True)).get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise TransientModelError(f"{self.name}: /tokenize answered no list of tokens.")
        if len(tokens) != 1:
            raise OptionError(
                f"{self.name}: {word!r} is {len(tokens)} tokens, and only a single token can be scored. "
                "Choose another word, and mind its leading space."
            )
        return int(tokens[0])

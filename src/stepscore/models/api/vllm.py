"""Models behind a vLLM server: ``vllm/Qwen/Qwen3-VL-8B-Instruct``.

Scores are exact for any token where the server knows ``logprob_token_ids`` (vLLM of July 2026 and newer): it
then tells the log-probability of the tokens asked for, whatever their rank; ``/tokenize`` tells their ids.
Older servers ignore or refuse the field, and tell their likeliest tokens, as OpenAI-compatible servers do.
No call is spent on finding out: the server's own description (``/openapi.json``) says it, and where there is
none the first score shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from stepscore.errors import RefusedError, StatusError, TransientModelError
from stepscore.models.api.chat import read_told, read_usage, scores_of
from stepscore.models.api.self_hosted import SelfHostedModel
from stepscore.models.base import Capabilities, Scores, run_blocking
from stepscore.models.requests import Prompt

FIELD = "logprob_token_ids"
_ID = "token_id:"


@dataclass(frozen=True)
class VllmModel(SelfHostedModel):
    """A model behind a vLLM server.

    Options are those of :class:`OpenAIModel`. The server is ``base_url``, else ``VLLM_BASE_URL``, else
    ``http://localhost:8000/v1``; the key, where it wants one, is ``VLLM_API_KEY``.
    """

    backend: ClassVar[str] = "vllm"
    home: ClassVar[str] = "http://localhost:8000/v1"

    @property
    def capabilities(self) -> Capabilities:
        """Exact scores where the server has ``logprob_token_ids``, else those of the likeliest tokens.

        A server that does not describe itself is taken to have it; a score that shows otherwise comes back
        censored, never wrong, and from then on the scores are those of the likeliest tokens.
        """
        return Capabilities(scores=self._scores(exact=self._asks_ids), videos=True, served=True)

    def _scores(self, *, exact: bool) -> Literal["exact", "top", "none"]:
        return "exact" if exact else "top" if self.top_logprobs else "none"

    def describe(self) -> dict[str, object]:
        """As of :class:`OpenAIModel`, and which scores the server says it gives."""
        return {**super().describe(), "scores": self._scores(exact=self._has_field)}

    @cached_property
    def _has_field(self) -> bool:
        return run_blocking(self._describes_field())

    async def _describes_field(self) -> bool:
        try:
            described = await self.server.get("openapi.json", at_root=True)
            return FIELD in described["components"]["schemas"]["ChatCompletionRequest"]["properties"]
        except (StatusError, KeyError, TypeError):
            return True

    @property
    def _asks_ids(self) -> bool:
        return self._has_field and not self._learnt.get("no ids")

    @cached_property
    def _learnt(self) -> dict[str, bool]:
        """What the server's answers showed of it."""
        return {}

    async def _score(self, prompt: Prompt, candidates: tuple[str, ...]) -> Scores:
        if not self._asks_ids:
            return await super()._score(prompt, candidates)
        try:
            return await self._score_ids(prompt, candidates)
        except StatusError as error:
            # 404: a gateway that passes on no /tokenize. Else a server that refuses what it does not know.
            if error.status != 404 and FIELD not in str(error):
                raise
            self._learnt["no ids"] = True
            raise RefusedError(f"{error} Asking for the likeliest tokens instead.", 0.0) from None

    async def _score_ids(self, prompt: Prompt, candidates: tuple[str, ...]) -> Scores:
        ids = await self._token_ids(candidates)
        body = {
            self.limit_field: 1,
            "temperature": 0.0,
            "logprobs": True,
            # Asked beside the ids: a server that does not know them still tells its likeliest tokens.
            "top_logprobs": self.top_logprobs,
            "return_tokens_as_token_ids": True,
            FIELD: ids,
        }
        reply = await self._chat(prompt, body)
        told = self._told_ids(reply)
        if not set(ids) <= told.keys():
            if len(told) < max(1, self.top_logprobs):
                # Neither what was asked for nor the likeliest tokens: nothing bounds what is missing.
                raise TransientModelError(f"{self.name} told {len(told)} tokens, and not those asked for.")
            self._learnt["no ids"] = True
        return scores_of(told, ids, read_usage(reply)[0], self.name)

    def _told_ids(self, reply: dict[str, Any]) -> dict[int, float]:
        told = read_told(reply, self.name)
        try:
            return {int(token.removeprefix(_ID)): value for token, value in told.items()}
        except ValueError:
            self._learnt["no ids"] = True
            message = f"{self.name} names no tokens by id; asking for the likeliest tokens instead."
            raise TransientModelError(message, 0.0) from None

    def _continuing(self, prompt: Prompt) -> dict[str, Any]:
        if not prompt.prefill:
            return {}
        return {"continue_final_message": True, "add_generation_prompt": False}

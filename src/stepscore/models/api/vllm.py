"""Models behind a vLLM server: ``vllm/Qwen/Qwen3-VL-8B-Instruct``.

Scores are exact for any token where the server has ``logprob_token_ids`` (vLLM of July 2026 and newer): it then
returns the log-probability of the requested tokens, whatever their rank; ``/tokenize`` returns their ids. Older
servers ignore or refuse the field, and return their most likely tokens, as OpenAI-compatible servers do. No call
is spent on finding out: the server's schema (``/openapi.json``) says it, and where there is none the first score
shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from stepscore.errors import RefusedError, StatusError, TransientModelError
from stepscore.models.api.chat import read_logprobs, read_usage, scores_of
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
    default_url: ClassVar[str] = "http://localhost:8000/v1"

    @property
    def capabilities(self) -> Capabilities:
        """Exact scores where the server has ``logprob_token_ids``, else those of the most likely tokens.

        A server without a schema is assumed to have it; a score that shows otherwise comes back censored, never
        wrong, and from then on the scores are those of the most likely tokens.
        """
        return Capabilities(scores=self._scores(exact=self._requests_ids), videos=True, served=True)

    def _scores(self, *, exact: bool) -> Literal["exact", "top", "none"]:
        return "exact" if exact else "top" if self.top_logprobs else "none"

    def describe(self) -> dict[str, object]:
        """Return those of :class:`OpenAIModel`, and the kind of scores by the server's schema."""
        return {**super().describe(), "scores": self._scores(exact=self._has_field)}

    @cached_property
    def _has_field(self) -> bool:
        return run_blocking(self._describes_field())

    async def _describes_field(self) -> bool:
        try:
            schema = await self.server.get("openapi.json", at_root=True)
            return FIELD in schema["components"]["schemas"]["ChatCompletionRequest"]["properties"]
        except (StatusError, KeyError, TypeError):
            return True

    @property
    def _requests_ids(self) -> bool:
        return self._has_field and not self._observed.get("no ids")

    @cached_property
    def _observed(self) -> dict[str, bool]:
        """Limits of the server that its responses showed."""
        return {}

    async def _score(self, prompt: Prompt, candidates: tuple[str, ...]) -> Scores:
        if not self._requests_ids:
            return await super()._score(prompt, candidates)
        try:
            return await self._score_ids(prompt, candidates)
        except StatusError as error:
            # 404: a gateway that does not forward /tokenize. Else a server that refuses an unknown field.
            if error.status != 404 and FIELD not in str(error):
                raise
            self._observed["no ids"] = True
            raise RefusedError(f"{error} Requesting the most likely tokens instead.", 0.0) from None

    async def _score_ids(self, prompt: Prompt, candidates: tuple[str, ...]) -> Scores:
        ids = await self._token_ids(candidates)
        body = {
            self.limit_field: 1,
            "temperature": 0.0,
            "logprobs": True,
            # Requested as well: a server that ignores the ids still returns its most likely tokens.
            "top_logprobs": self.top_logprobs,
            "return_tokens_as_token_ids": True,
            FIELD: ids,
        }
        reply = await self._chat(prompt, body)
        returned = self._logprobs_by_id(reply)
        if not set(ids) <= returned.keys():
            if len(returned) < max(1, self.top_logprobs):
                # Neither the requested nor the most likely tokens: nothing bounds what is missing.
                raise TransientModelError(
                    f"{self.name} returned log-probabilities for other tokens than requested "
                    f"({len(returned)} in all)."
                )
            self._observed["no ids"] = True
        read, written = read_usage(reply)
        return scores_of(returned, ids, read, self.name, written)

    def _logprobs_by_id(self, reply: dict[str, Any]) -> dict[int, float]:
        returned = read_logprobs(reply, self.name)
        try:
            return {int(token.removeprefix(_ID)): value for token, value in returned.items()}
        except ValueError:
            self._observed["no ids"] = True
            message = f"{self.name} does not name tokens by id; requesting the most likely tokens instead."
            raise TransientModelError(message, 0.0) from None

    def _continuing(self, prompt: Prompt) -> dict[str, Any]:
        if not prompt.prefill:
            return {}
        return {"continue_final_message": True, "add_generation_prompt": False}

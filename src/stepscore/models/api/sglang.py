r"""Models behind an SGLang server: ``sglang/Qwen/Qwen3-VL-8B-Instruct``.

Text comes from its chat completions, scores from its native ``/generate``, which returns the log-probability of
chosen tokens (``token_ids_logprob``) and takes a prompt as it is, special tokens included. A conversation is
written in ChatML, the markup of the Qwen family (``<|im_start|>user\n ... <|im_end|>``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from stepscore.errors import TransientModelError
from stepscore.models.api.chat import expand_videos, read_usage, scores_of
from stepscore.models.api.prefix_requests import of_scores
from stepscore.models.api.self_hosted import SelfHostedModel
from stepscore.models.base import Capabilities, PrefixScores, Scores
from stepscore.models.calls.response_checks import logprob_of
from stepscore.models.chatml import chatml_parts
from stepscore.models.requests import Part, Prompt, ScorePrefixes, VideoPrefix


@dataclass(frozen=True)
class SglangModel(SelfHostedModel):
    """A model of the Qwen family behind an SGLang server.

    Options are those of :class:`OpenAIModel`, and one more. The server is ``base_url``, else
    ``SGLANG_BASE_URL``, else ``http://localhost:30000/v1``; the key, where it wants one, is
    ``SGLANG_API_KEY``.

    Attributes:
        image_token: Text that stands for an image in a prompt.
    """

    image_token: str = "<|vision_start|><|image_pad|><|vision_end|>"

    backend: ClassVar[str] = "sglang"
    default_url: ClassVar[str] = "http://localhost:30000/v1"

    @property
    def capabilities(self) -> Capabilities:
        """Exact scores of any token."""
        return Capabilities(scores="exact", videos=True, served=True)

    def describe(self) -> dict[str, object]:
        """Return those of :class:`OpenAIModel`, and the text that stands for an image."""
        return {**super().describe(), "image_token": self.image_token}

    async def _score(self, prompt: Prompt, candidates: tuple[str, ...]) -> Scores:
        return await self._score_text(chatml_parts(prompt), candidates)

    async def _score_prefix(self, request: ScorePrefixes) -> PrefixScores:
        (prompt,) = request.prompts
        parts = [request.video if isinstance(part, VideoPrefix) else part for part in chatml_parts(prompt)]
        return of_scores(await self._score_text(parts, request.candidates))

    async def _score_text(self, parts: Sequence[Part], candidates: tuple[str, ...]) -> Scores:
        ids = await self._token_ids(candidates)
        text, images = await asyncio.to_thread(self._render, parts)
        body = {
            "text": text,
            "image_data": images,
            "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
            "return_logprob": True,
            "token_ids_logprob": ids,
        }
        if not images:
            del body["image_data"]
        meta = (await self.server.post("generate", body, at_root=True)).get("meta_info")
        returned = self._logprobs(meta)
        if not set(ids) <= returned.keys():
            raise TransientModelError(
                f"{self.name} returned log-probabilities for other tokens than requested."
            )
        read, written = read_usage({"usage": meta})
        return scores_of(returned, ids, read, self.name, written)

    def _logprobs(self, meta: object) -> dict[int, float]:
        try:
            first = meta["output_token_ids_logprobs"][0]  # type: ignore[index]
            return {int(item[1]): logprob_of(item[0]) for item in first}
        except (IndexError, KeyError, OverflowError, TypeError, ValueError):
            raise TransientModelError(f"{self.name} returned no log-probabilities.") from None

    def _render(self, parts: Sequence[Part]) -> tuple[str, list[str]]:
        """Return the prompt as one text, and its images in order."""
        text, images = "", []
        for part in expand_videos(parts):
            if isinstance(part, str):
                text += part
            else:
                text += self.image_token
                images.append(self.codec.data_url(part))
        return text, images

    def _continuing(self, prompt: Prompt) -> dict[str, Any]:
        return {"continue_final_message": True} if prompt.prefill else {}

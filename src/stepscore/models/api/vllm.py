"""Models behind a vLLM server: ``vllm/Qwen/Qwen3-VL-8B-Instruct``.

Scores are exact for any token where the server has ``logprob_token_ids`` (vLLM of July 2026 and newer): it then
returns the log-probability of the requested tokens, whatever their rank; ``/tokenize`` returns their ids. Older
servers ignore or refuse the field, and return their most likely tokens, as OpenAI-compatible servers do. No call
is spent on finding out: the server's schema (``/openapi.json``) says it, and if there is none the first score
shows it.

Prefixes of a video are asked about token by token as ``hf/`` does (``raw_turn.py``), where the server reads a message
as it is; ``/tokenize`` shows whether it does, before anything is scored, and the tokens that it read are compared at
every score. Elsewhere they are asked about within the chat template: another question, and another protocol.
"""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from stepscore.errors import (
    ModelError,
    OptionError,
    RefusedError,
    StatusError,
    TransientModelError,
    UnavailableError,
)
from stepscore.models.api.chat import read_logprobs, read_usage, scores_of
from stepscore.models.api.frame_pairs import ENCODING, GEOMETRY, SentPairs, frame_pairs
from stepscore.models.api.prefix_requests import of_scores
from stepscore.models.api.raw_turn import Way, expected_ids, probe, raw_message, target_ids, ways
from stepscore.models.api.self_hosted import SelfHostedModel
from stepscore.models.base import Capabilities
from stepscore.models.blocking import run_blocking
from stepscore.models.chatml import split_at_video
from stepscore.models.media import DecodedMedia
from stepscore.models.prompts import Prompt
from stepscore.models.requests import ScorePrefixes
from stepscore.models.responses import PrefixScores, Scores
from stepscore.models.schemas import Schema

FIELD = "logprob_token_ids"
_ID = "token_id:"

Question = Literal["auto", "raw", "chat"]
HOW_TO_SERVE = (
    "Write a template (stepscore chat-template MODEL -o raw.jinja) and start the server with it: "
    "vllm serve MODEL --chat-template raw.jinja"
)


@dataclass(frozen=True)
class VllmModel(SelfHostedModel):
    """A model behind a vLLM server.

    Options are those of :class:`OpenAIModel`, and one more. The server is ``base_url``, else ``VLLM_BASE_URL``,
    else ``http://localhost:8000/v1``; the key, where it wants one, is ``VLLM_API_KEY``.

    Attributes:
        question: How prefixes of a video are asked about: ``"raw"``, token by token as ``hf/`` does, which needs a
            server with the template of ``stepscore chat-template``; ``"chat"``, within the chat template;
            ``"auto"``, raw where the server can.
    """

    question: Question = "auto"

    backend: ClassVar[str] = "vllm"
    default_url: ClassVar[str] = "http://localhost:8000/v1"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.question not in ("auto", "raw", "chat"):
            raise OptionError(f"question must be auto, raw or chat, got {self.question!r}.")

    @property
    def capabilities(self) -> Capabilities:
        """Exact scores where the server has ``logprob_token_ids``, else those of the most likely tokens.

        A server without a schema is assumed to have it; a score that shows otherwise comes back censored, never
        wrong, and from then on the scores are those of the most likely tokens.
        """
        return Capabilities(
            scores=self._scores(exact=self._requests_ids),
            videos=True,
            served=True,
            structured=self.json_mode,
            answer_logprobs=self.top_logprobs,
        )

    def _scores(self, *, exact: bool) -> Literal["exact", "top", "none"]:
        return "exact" if exact else "top" if self.top_logprobs else "none"

    def describe(self) -> dict[str, object]:
        """Return those of :class:`OpenAIModel`, the kind of scores by the server's schema, and the question."""
        raw = self._way is not None
        return {
            **super().describe(),
            "scores": self._scores(exact=self._has_field),
            "question": {"prefixes": "raw", "frames": ENCODING} if raw else {"prefixes": "chat"},
        }

    @property
    def frames_per_block(self) -> int:
        """Number of frames of a video's prefix that are read as one image: two where they are sent in pairs."""
        return 1 if self._way is None else GEOMETRY.temporal

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

    @cached_property
    def _way(self) -> Way | None:
        """How the server is asked about a prefix token by token; ``None`` where it is asked within its template.

        Raises:
            ModelError: ``question`` is ``"raw"``, and the server cannot.
        """
        if self.question == "chat" or self._scores(exact=self._has_field) == "none":
            return None
        way, why = run_blocking(self._find_way())
        self._refusal.append(why)
        if way is None and self.question == "raw":
            raise ModelError(
                f"{self.name} cannot be asked token by token (question=raw): {why} {HOW_TO_SERVE}"
            )
        return way

    @cached_property
    def _refusal(self) -> list[str]:
        """Why the server is asked within its chat template."""
        return []

    async def _find_way(self) -> tuple[Way | None, str]:
        """Return the first way by which the server reads the expected tokens, or the reason why there is none."""
        head, pairs, tail = probe()
        reasons: list[str] = []
        try:
            expected = await expected_ids(self._tokens, head, pairs, tail)
        except TransientModelError:
            raise
        except ModelError as error:  # no /tokenize, or no tokens for images
            return None, str(error)
        videos = [{"type": "video_url", "video_url": {"url": pair.data_url()}} for pair in pairs]
        for way in ways():
            body = {"messages": raw_message(head, videos, tail), "add_generation_prompt": False, **way.fields}
            try:
                if await self._tokenize(body) == expected:
                    return way, ""
                reasons.append("it reads other tokens than the question has.")
            except (StatusError, RefusedError) as error:
                if isinstance(error, UnavailableError):
                    raise
                reasons.append(str(error))
        return None, f"By the {ways()[0].name}, {reasons[0]}"

    async def _score_prefix(self, request: ScorePrefixes) -> PrefixScores:
        way = self._way
        if way is not None:
            return of_scores(await self._score_raw(request, way))
        self._warn_of_chat()
        return await super()._score_prefix(request)

    def _warn_of_chat(self) -> None:
        """Warn once that the question is asked within the chat template, which was not requested."""
        if self.question == "auto" and not self._observed.get("warned"):
            self._observed["warned"] = True
            warnings.warn(
                f"{self.name}: the server is asked about prefixes within its chat template. That is another question "
                f"than hf/ asks, with other scores. {' '.join(self._refusal)} {HOW_TO_SERVE} "
                "(where the chat template is meant: -M question=chat)",
                stacklevel=2,
            )

    async def _score_raw(self, request: ScorePrefixes, way: Way) -> Scores:
        """Score one prefix token by token; what the server read must be what was asked."""
        (prompt,), video = request.prompts, request.video
        assert isinstance(video, DecodedMedia)
        head, tail = split_at_video(prompt)
        pairs = await asyncio.to_thread(frame_pairs, video.clip, self.max_image_side)
        expected = await expected_ids(self._tokens, head, pairs, tail)
        targets = await target_ids(self._tokens, tail, request.candidates, self.name)
        async with self._sent.sending(pairs) as videos:
            body = {"messages": raw_message(head, videos, tail), "add_generation_prompt": False, **way.fields}
            reply = await self.server.post(
                "chat/completions",
                {"model": self.served_name, **body, "return_token_ids": True, **self._scoring(targets)},
            )
        if reply.get("prompt_token_ids") != expected:
            raise ModelError(
                f"{self.name} read other tokens than the question has, so that its answer is not used. Was the "
                f"server restarted with other options during the run? {HOW_TO_SERVE}"
            )
        return self._read_scores(reply, targets)

    @cached_property
    def _sent(self) -> SentPairs:
        return SentPairs()

    async def _score(self, prompt: Prompt, candidates: tuple[str, ...]) -> Scores:
        if not self._requests_ids:
            return await super()._score(prompt, candidates)
        try:
            ids = await self._token_ids(candidates)
            return self._read_scores(await self._chat(prompt, self._scoring(ids)), ids)
        except StatusError as error:
            # 404: a gateway that does not forward /tokenize. Else a server that refuses an unknown field.
            if error.status != 404 and FIELD not in str(error):
                raise
            self._observed["no ids"] = True
            raise RefusedError(f"{error} Requesting the most likely tokens instead.", 0.0) from None

    def _scoring(self, ids: list[int]) -> dict[str, Any]:
        """Return the fields of a request for the scores of tokens."""
        return {
            self.limit_field: 1,
            "temperature": 0.0,
            "logprobs": True,
            # Requested as well: a server that ignores the ids still returns its most likely tokens.
            "top_logprobs": self.top_logprobs,
            "return_tokens_as_token_ids": True,
            FIELD: ids,
        }

    def _read_scores(self, reply: dict[str, Any], ids: list[int]) -> Scores:
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

    def _schema_fields(self, schema: Schema) -> dict[str, Any]:
        if schema.is_json:
            form: dict[str, Any] = {"json": schema.json_schema()}
        elif schema.choices:
            form = {"choice": list(schema.choices)}
        else:
            form = {"regex": schema.written().regex()}
        return {"structured_outputs": form}

    def _read_by_schema(self, schema: Schema, text: str) -> str:
        return text

    def _continuing(self, prompt: Prompt) -> dict[str, Any]:
        if not prompt.prefill:
            return {}
        return {"continue_final_message": True, "add_generation_prompt": False}

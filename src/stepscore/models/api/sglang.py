r"""Models behind an SGLang server: ``sglang/Qwen/Qwen3-VL-8B-Instruct``.

Text comes from its chat completions, scores from its native ``/generate``, which returns the log-probability of
chosen tokens (``token_ids_logprob``) and takes a prompt as it is, special tokens included. A conversation is
written in ChatML, the markup of the Qwen family (``<|im_start|>user\n ... <|im_end|>``).

Prefixes of a video can be asked about token by token as ``hf/`` does (``question="raw"``), in pairs of frames as on
vLLM (``frame_pairs.py``), for frames of some sizes only: SGLang resizes the frames of a video to multiples of 28
pixels, whatever the model, before the model's own processor resizes them to multiples of 32 (its source of
2026-08-23, ``multimodal/processors/qwen_vl.py``). Frames whose sides are multiples of both are read as they are;
others would be resampled twice, which the ids of the tokens need not show. The ids that the server read are compared
at every score.
"""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

from stepscore.errors import ModelError, OptionError, RefusedError, TransientModelError
from stepscore.models.api.chat import expand_videos, read_usage, scores_of
from stepscore.models.api.frame_pairs import ENCODING, GEOMETRY, FramePair, frame_pairs
from stepscore.models.api.openai import json_schema_format
from stepscore.models.api.prefix_requests import of_scores
from stepscore.models.api.raw_turn import BARE, WRAPPED, expected_ids, target_ids
from stepscore.models.api.self_hosted import SelfHostedModel
from stepscore.models.base import Capabilities
from stepscore.models.chatml import chatml_parts, split_at_video
from stepscore.models.media import DecodedMedia, VideoPrefix
from stepscore.models.prompts import Part, Prompt
from stepscore.models.requests import ScorePrefixes
from stepscore.models.responses import PrefixScores, Scores, logprob_of
from stepscore.models.schemas import Schema
from stepscore.registry import names

Question = Literal["auto", "raw", "frames"]
VIDEO_UNIT = 28
"""Multiple of pixels to which SGLang resizes the sides of a video's frames (``IMAGE_FACTOR``)."""
EXACT_UNIT = math.lcm(VIDEO_UNIT, GEOMETRY.unit)
"""Sides that are multiples of this are never resized."""


@dataclass(frozen=True)
class SglangModel(SelfHostedModel):
    """A model of the Qwen family behind an SGLang server.

    Options are those of :class:`OpenAIModel`, and two more. The server is ``base_url``, else
    ``SGLANG_BASE_URL``, else ``http://localhost:30000/v1``; the key, where it wants one, is
    ``SGLANG_API_KEY``.

    Attributes:
        image_token: Text that stands for an image in a prompt.
        question: How prefixes of a video are asked about: ``"raw"``, token by token as ``hf/`` does, for frames whose
            sides are multiples of 224 pixels; ``"frames"``, every frame as a separate image after its timestamp;
            ``"auto"``, by frames, with a warning that this is another question.
    """

    image_token: str = field(default="<|vision_start|><|image_pad|><|vision_end|>", metadata=names("text"))
    question: Question = "auto"

    backend: ClassVar[str] = "sglang"
    default_url: ClassVar[str] = "http://localhost:30000/v1"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.question not in ("auto", "raw", "frames"):
            raise OptionError(f"question must be auto, raw or frames, got {self.question!r}.")

    @property
    def capabilities(self) -> Capabilities:
        """Exact scores of any token."""
        return Capabilities(
            scores="exact",
            videos=True,
            served=True,
            structured=self.json_mode,
            answer_logprobs=self.top_logprobs,
        )

    def describe(self) -> dict[str, object]:
        """Return those of :class:`OpenAIModel`, the text that stands for an image, and the question."""
        raw = {"prefixes": "raw", "frames": ENCODING}
        return {
            **super().describe(),
            "image_token": self.image_token,
            "question": raw if self.question == "raw" else {"prefixes": "frames"},
        }

    @property
    def frames_per_block(self) -> int:
        """Number of frames of a video's prefix that are read as one image: two where they are sent in pairs."""
        return GEOMETRY.temporal if self.question == "raw" else 1

    async def _score(self, prompt: Prompt, candidates: tuple[str, ...]) -> Scores:
        return await self._score_text(chatml_parts(prompt), candidates)

    async def _score_prefix(self, request: ScorePrefixes) -> PrefixScores:
        if self.question == "raw":
            return of_scores(await self._score_raw(request))
        self._warn_of_frames()
        (prompt,) = request.prompts
        parts = [request.video if isinstance(part, VideoPrefix) else part for part in chatml_parts(prompt)]
        return of_scores(await self._score_text(parts, request.candidates))

    def _warn_of_frames(self) -> None:
        """Warn once that every frame is sent as an image, which was not requested."""
        if self.question == "auto" and not self._observed.get("warned"):
            self._observed["warned"] = True
            warnings.warn(
                f"{self.name}: the server is asked about prefixes with every frame as a separate image. That is "
                "another question than hf/ asks, with other scores. -M question=raw asks what hf/ asks, of frames "
                f"whose sides are multiples of {EXACT_UNIT} pixels (where images are meant: -M question=frames)",
                stacklevel=2,
            )

    @cached_property
    def _observed(self) -> dict[str, bool]:
        """What the server's responses showed."""
        return {}

    async def _score_raw(self, request: ScorePrefixes) -> Scores:
        """Score one prefix token by token; what the server read must be what was asked."""
        (prompt,), video = request.prompts, request.video
        assert isinstance(video, DecodedMedia)
        head, tail = split_at_video(prompt)
        pairs = await asyncio.to_thread(frame_pairs, video.clip, self.max_image_side)
        self._check_size(pairs)
        expected = await expected_ids(self._tokens, head, pairs, tail)
        targets = await target_ids(self._tokens, tail, request.candidates, self.name)
        wrapped = bool(self._observed.get("wrapped"))
        body = {
            "text": head + (WRAPPED if wrapped else BARE) * len(pairs) + tail,
            "video_data": await asyncio.to_thread(lambda: [pair.data_url() for pair in pairs]),
            "return_prompt_token_ids": True,
        }
        reply = await self._generate_one(body, targets)
        if reply.get("prompt_token_ids") != expected:
            self._raise_other_tokens(reply, wrapped=wrapped)
        self._observed["read"] = True
        return self._read_scores(reply, targets)

    def _check_size(self, pairs: Sequence[FramePair]) -> None:
        height, width = pairs[0].frames.shape[1:3]
        if height % EXACT_UNIT or width % EXACT_UNIT:
            raise ModelError(
                f"{self.name} cannot be asked token by token (question=raw) about frames of {width}x{height}: SGLang "
                f"resizes the frames of a video to multiples of {VIDEO_UNIT} pixels, the model reads multiples of "
                f"{GEOMETRY.unit}. Both sides must be multiples of {EXACT_UNIT} (-J size={2 * EXACT_UNIT} for square "
                "videos); -M question=frames asks frame by frame, and vllm/ reads any size."
            )

    def _raise_other_tokens(self, reply: dict[str, Any], *, wrapped: bool) -> None:
        """Raise: the next attempt writes a video in the other way where none was right yet, else there is none."""
        if "prompt_token_ids" not in reply:
            raise ModelError(
                f"{self.name} does not return the tokens that it read (return_prompt_token_ids), so that they cannot "
                "be compared. A newer SGLang does; -M question=frames asks frame by frame."
            )
        if not wrapped and not self._observed.get("read"):
            self._observed["wrapped"] = True
            raise RefusedError(f"{self.name} writes a video in another way. Asking by it.", 0.0)
        raise ModelError(
            f"{self.name} read other tokens than the question has, so that its answer is not used. It enlarges "
            "frames of a video to 100,352 pixels unless it is started with --mm-process-config "
            """'{"video": {"min_pixels": 1024}}'; -M question=frames asks frame by frame."""
        )

    async def _score_text(self, parts: Sequence[Part], candidates: tuple[str, ...]) -> Scores:
        ids = await self._token_ids(candidates)
        text, images = await asyncio.to_thread(self._render, parts)
        media = {"image_data": images} if images else {}
        return self._read_scores(await self._generate_one({"text": text, **media}, ids), ids)

    async def _generate_one(self, prompt: dict[str, Any], ids: list[int]) -> dict[str, Any]:
        """Return the reply to a request for one token and the scores of tokens."""
        body = {
            **prompt,
            "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
            "return_logprob": True,
            "token_ids_logprob": ids,
        }
        return await self.server.post("generate", body, at_root=True)

    def _read_scores(self, reply: dict[str, Any], ids: list[int]) -> Scores:
        meta = reply.get("meta_info")
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

    def _schema_fields(self, schema: Schema) -> dict[str, Any]:
        if schema.is_json:
            return {"response_format": json_schema_format(schema.json_schema())}
        return {"regex": schema.written().regex()}

    def _read_by_schema(self, schema: Schema, text: str) -> str:
        return text

    def _continuing(self, prompt: Prompt) -> dict[str, Any]:
        return {"continue_final_message": True} if prompt.prefill else {}

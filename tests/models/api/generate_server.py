"""A server that reads a native request as SGLang does: texts as they are, videos resized to multiples of 28 pixels.

It follows SGLang's source of 2026-08-23 (`multimodal/processors/qwen_vl.py`, `managers/tokenizer_manager.py`): frames
are resized to sides that are multiples of 28 within 100,352 and 602,112 pixels (`--mm-process-config` changes these
two), then as the model's own processor does, to multiples of 32; `<|video_pad|>` is replaced; `prompt_token_ids` come
back where asked for. As of the server it builds on, scores are a digest of the tokens and the pixels.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any

from stepscore.episodes import resize_frames
from stepscore.models.qwen3vl.inputs import fitted_size
from stepscore.types import Frames
from tests.models.api.template_server import BARE, TemplateServer, decoded, scores, token_ids

FACTOR, OWN_FACTOR = 28, 32
LEAST, MOST = 128 * FACTOR**2, 768 * FACTOR**2


@dataclass
class GenerateServer(TemplateServer):
    """What it is like: as its base, and the least pixels of a frame."""

    least: int = LEAST

    def reply(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer a request."""
        if path != "/generate":
            return super().reply(path, body)
        self.bodies.append(body)
        text, videos = body["text"], []
        for packed in body.get("video_data", []):
            frames, seconds = decoded(base64.b64decode(packed.partition(",")[2]))
            videos.append(self.resized(frames))
            rows, columns = (side // OWN_FACTOR for side in videos[-1].shape[1:3])
            pads = BARE.replace("video", "block") * (rows * columns)
            block = f"<{seconds + self.late:.1f} seconds><|vision_start|>{pads}<|vision_end|>"
            text = text.replace(self.place, block, 1)
        ids = token_ids(text.replace("<|block_pad|>", BARE))
        self.look_up(ids)
        self.answered += 1
        values = scores(ids, videos)
        listed = [
            [value, number, None] for number, value in zip(body["token_ids_logprob"], values, strict=True)
        ]
        meta = {"prompt_tokens": len(ids), "completion_tokens": 1, "output_token_ids_logprobs": [listed]}
        found: dict[str, Any] = {"text": "x", "meta_info": meta}
        if body.get("return_prompt_token_ids") and self.returns_ids:
            found["prompt_token_ids"] = ids
        return 200, found

    def resized(self, frames: Frames) -> Frames:
        """Resize twice, as it does."""
        _, height, width, _ = frames.shape
        height, width = smart_resize(height, width, self.least)
        fitted = fitted_size(height, width, OWN_FACTOR, (4_096 // 2, 25_165_824 // 2))
        return resize_frames(resize_frames(frames, (height, width)), fitted)

    def metrics(self) -> str:
        """Return the counters of its cache, as SGLang prints them."""
        names = {"sglang:prompt_tokens_total": self.looked_up, "sglang:cached_tokens_total": self.found}
        return "".join(f'{name}{{model_name="tiny"}} {float(value)}\n' for name, value in names.items())


def smart_resize(height: int, width: int, least: int) -> tuple[int, int]:
    """Return the sides to which it resizes the frames of a video first."""
    rows, columns = (max(FACTOR, round(side / FACTOR) * FACTOR) for side in (height, width))
    if rows * columns > MOST:
        shrink = math.sqrt(height * width / MOST)
        rows, columns = (math.floor(side / shrink / FACTOR) * FACTOR for side in (height, width))
    elif rows * columns < least:
        grow = math.sqrt(least / (height * width))
        rows, columns = (math.ceil(side * grow / FACTOR) * FACTOR for side in (height, width))
    return rows, columns

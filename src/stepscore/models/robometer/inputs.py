"""Inputs of Robometer: a prompt's frames as numbered images, each followed by a token that the heads read.

As in the published code: one closed user's turn by the chat template with ``add_vision_id`` (a number before each
image) and no generation prompt; a video's frames as single images, resized to multiples of a token's side
by ``qwen_vl_utils`` (4 to 16,384 tokens), not by the processor's own limits; sequences padded at their end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from stepscore._untrusted.chat_templates import render_chat
from stepscore.episodes import Clip
from stepscore.errors import ModelError
from stepscore.models.hf.chat import split_at_images
from stepscore.models.media import DecodedMedia
from stepscore.models.prompts import Prompt
from stepscore.models.qwen3vl.inputs import Geometry, VisionTokens
from stepscore.models.qwen3vl.prompts import QwenInputs

SPLIT, PREFERENCE, PROGRESS = "<|split_token|>", "<|pref_token|>", "<|prog_token|>"
SPECIAL_TOKENS = (SPLIT, "<|reward_token|>", PREFERENCE, "<|sim_token|>", PROGRESS)
"""The added tokens, in the order of their embedding rows after those of the base model's tokenizer."""

MIN_TOKENS, MAX_TOKENS = 4, 16384
"""Fewest and most tokens of an image, as in ``qwen_vl_utils`` 0.0.14."""


@dataclass(frozen=True, eq=False)
class ReadRequest:
    """The inputs of one request, and the positions of the tokens that the heads read."""

    inputs: Mapping[str, Tensor]
    positions: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Number of tokens in the request."""
        return int(self.inputs["input_ids"].shape[1])


@dataclass(frozen=True)
class RobometerInputs:
    """Makes the inputs of requests."""

    tokenizer: Any
    tokens: VisionTokens
    geometry: Geometry
    max_pixels: int | None = None

    def read(self, prompt: Prompt, *, preference: bool) -> ReadRequest:
        """Return the inputs of a resolved prompt, with one video or with two videos to compare.

        Raises:
            ModelError: The prompt's texts contain special tokens, or the number of videos is wrong for this
                kind of prompt.
        """
        content, images = self._content(prompt, 2 if preference else 1, preference=preference)
        inputs = self._qwen().inputs(split_at_images(self._text(content), images))
        ids = inputs["input_ids"][0]
        wanted = self.tokenizer.convert_tokens_to_ids(PREFERENCE if preference else PROGRESS)
        positions = tuple((ids == wanted).nonzero()[:, 0].tolist())
        if len(positions) != (1 if preference else len(images)):
            raise ModelError(
                f"The chat template wrote {len(positions)} tokens for the heads, not one for each image or pair."
            )
        return ReadRequest(inputs, positions)

    def _qwen(self) -> QwenInputs:
        unit = self.geometry.unit**2
        most = MAX_TOKENS * unit if self.max_pixels is None else self.max_pixels
        sized = replace(self.geometry, still_pixels=(min(MIN_TOKENS * unit, most), most))
        return QwenInputs(self._encode, self.tokens, sized)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _content(
        self, prompt: Prompt, videos: int, *, preference: bool
    ) -> tuple[list[dict[str, str]], list[DecodedMedia]]:
        """Return the parts of the single turn in the form a chat template expects, and the images in order."""
        parts = [part for turn in prompt.turns for part in turn.parts]
        media = [part for part in parts if not isinstance(part, str)]
        if len(media) != videos or len(prompt.turns) != 1 or prompt.turns[0].role != "user":
            raise ModelError(f"Robometer reads one user's turn with {videos} videos; this has {len(media)}.")
        content: list[dict[str, str]] = []
        images: list[DecodedMedia] = []
        after_video = iter([[{"type": "text", "text": SPLIT}], []] if preference else [[]])
        for part in parts:
            if isinstance(part, str):
                _check_text(part)
                content.append({"type": "text", "text": part})
                continue
            assert isinstance(part, DecodedMedia)
            for image in frames_of(part.clip):
                images.append(image)
                content += [{"type": "image"}, {"type": "text", "text": PROGRESS}]
            content += next(after_video)
        return [*content, *([{"type": "text", "text": PREFERENCE}] if preference else [])], images

    def _text(self, content: list[dict[str, str]]) -> str:
        if not self.tokenizer.chat_template:
            return qwen3vl_text(content)
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        options = {"add_generation_prompt": False, "add_vision_id": True, "enable_thinking": False, "fps": 1}
        return render_chat(self.tokenizer, messages, **options)


def qwen3vl_text(content: Sequence[Mapping[str, str]]) -> str:
    """Return one user turn, formatted like Qwen3-VL's chat template with ``add_vision_id``."""
    texts, image = [], 0
    for part in content:
        if part["type"] == "image":
            image += 1
            texts.append(f"Picture {image}: <|vision_start|><|image_pad|><|vision_end|>")  # stored name
        else:
            texts.append(part["text"])
    return f"<|im_start|>user\n{''.join(texts)}<|im_end|>\n"


def frames_of(clip: Clip) -> Iterator[DecodedMedia]:
    """Yield the frames of a clip as single images."""
    for i in range(len(clip)):
        one = slice(i, i + 1)
        yield DecodedMedia(Clip(clip.frames[one], clip.timestamps[one], clip.indices[one]))


def _check_text(text: str) -> None:
    for token in (
        *SPECIAL_TOKENS,
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
        "<|im_start|>",
        "<|im_end|>",
    ):
        if token in text:
            raise ModelError(
                f"A text of the request holds {token}, which is a token of Robometer's own and would be read as one. "
                "Take it out of the instruction or the prompt."
            )


def batched(requests: Sequence[ReadRequest]) -> dict[str, Tensor]:
    """Return the inputs of several requests as one batch, shorter ones padded at their end."""
    longest = max(request.tokens for request in requests)
    names = ("input_ids", "attention_mask", "mm_token_type_ids")
    made = {
        name: torch.cat([torch.nn.functional.pad(r.inputs[name], (0, longest - r.tokens)) for r in requests])
        for name in names
    }
    return made | {
        name: torch.cat([r.inputs[name] for r in requests]) for name in ("pixel_values", "image_grid_thw")
    }


def add_special_tokens(tokenizer: Any, rows: int, name: str) -> None:
    """Add the five tokens to a tokenizer that lacks them, and check that each has a separate embedding row.

    Args:
        tokenizer: The checkpoint's tokenizer, or the base model's, which lacks these tokens.
        rows: Number of rows of the embedding.
        name: The model string, for messages.

    Raises:
        ModelError: The tokenizer has only some of the tokens, has them in another order, or belongs to
            another model.
    """
    known = [token for token in SPECIAL_TOKENS if token in tokenizer.get_vocab()]
    if known and len(known) < len(SPECIAL_TOKENS):
        missing = next(token for token in SPECIAL_TOKENS if token not in known)
        raise ModelError(
            f"{name}: its tokenizer knows {known[0]} and not {missing}. Give the tokenizer of the base model, to "
            "which all five tokens are added: -M tokenizer=FOLDER-OR-ID"
        )
    if not known:
        if len(tokenizer) + len(SPECIAL_TOKENS) != rows:
            raise ModelError(
                f"{name}: its embedding has {rows} rows, and the tokenizer {len(tokenizer)} tokens, not "
                f"{rows - len(SPECIAL_TOKENS)}: it is another model's. Give the tokenizer of its base model: "
                "-M tokenizer=FOLDER-OR-ID"
            )
        tokenizer.add_tokens(list(SPECIAL_TOKENS), special_tokens=True)
    ids = tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS))
    if ids != list(range(rows - len(SPECIAL_TOKENS), rows)):
        raise ModelError(
            f"{name}: its tokenizer numbers {', '.join(SPECIAL_TOKENS)} as {', '.join(map(str, ids))}; their rows in "
            f"the embedding are {rows - len(SPECIAL_TOKENS)} to {rows - 1}, in this order."
        )

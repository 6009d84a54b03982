"""Conversations with a model in this process: the chat as the model was taught it, answers, next words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from stepscore.errors import ModelError
from stepscore.models.base import Answer, Scores
from stepscore.models.chatml import chatml_parts
from stepscore.models.qwen3vl.full_forward import next_logprobs
from stepscore.models.qwen3vl.prefix_plan import target_ids
from stepscore.models.qwen3vl.prompts import QwenInputs
from stepscore.models.requests import DecodedMedia, Generate, Prompt, Score


class Chat(Protocol):
    """Makes inputs of a prompt for one family of models."""

    def inputs(self, prompt: Prompt) -> tuple[Mapping[str, Tensor], str]:
        """The inputs, and the text after the last image, which the answer follows."""


@dataclass(frozen=True)
class QwenChat:
    """Chats of the Qwen-VL family, by the checkpoint's template, or as ChatML where it has none."""

    tokenizer: Any
    prompts: QwenInputs

    def inputs(self, prompt: Prompt) -> tuple[Mapping[str, Tensor], str]:
        """See :class:`Chat`."""
        templated = prompt.template == "chat" and self.tokenizer.chat_template
        text = chat_text(prompt, self.tokenizer) if templated else "".join(map(_mark, chatml_parts(prompt)))
        parts = self._with_images(text, media_in(prompt))
        last = parts[-1]
        return self.prompts.inputs(parts), last if isinstance(last, str) else ""

    def _with_images(self, text: str, images: Sequence[DecodedMedia]) -> list[str | DecodedMedia]:
        """The text cut at its marks, each mark replaced by its image."""
        marks = re.compile(r"<\|vision_start\|><\|(?:image|video)_pad\|><\|vision_end\|>")
        texts = marks.split(text)
        if len(texts) != len(images) + 1:
            raise ModelError(
                f"The prompt shows {len(images)} images, and its text has marks for {len(texts) - 1}. "
                "Its texts may not contain <|vision_start|>, and the chat template must write one mark an image."
            )
        parts: list[str | DecodedMedia] = [texts[0]]
        for image, after in zip(images, texts[1:], strict=True):
            parts += [image, after]
        return parts


def media_in(prompt: Prompt) -> list[DecodedMedia]:
    """The images of a resolved prompt, in order."""
    return [part for turn in prompt.turns for part in turn.parts if isinstance(part, DecodedMedia)]


def chat_text(prompt: Prompt, templated: Any) -> str:
    """Return the prompt by a tokenizer's or processor's chat template, the prefill included.

    Raises:
        ModelError: The template fails, or the prompt leaves a turn open, which no chat template writes.
    """
    if prompt.template != "chat":
        raise ModelError(f"A chat template cannot write a prompt of template={prompt.template!r}.")
    messages = [
        {"role": turn.role, "content": [_content(part) for part in turn.parts]} for turn in prompt.turns
    ]
    try:
        text = templated.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # templates are programs of others; they raise anything
        raise ModelError(f"The checkpoint's chat template failed: {type(error).__name__}: {error}") from error
    return str(text) + prompt.prefill


def _content(part: object) -> dict[str, str]:
    if isinstance(part, DecodedMedia):
        return {"type": "video" if part.video else "image"}
    return {"type": "text", "text": str(part)}


def _mark(part: object) -> str:
    if isinstance(part, DecodedMedia):
        return f"<|vision_start|><|{'video' if part.video else 'image'}_pad|><|vision_end|>"
    return str(part)


@torch.inference_mode()
def generate(model: Any, tokenizer: Any, chat: Chat, request: Generate) -> Answer:
    """The answer in words. With a temperature, drawn by the request's seed (0 if none) and repeat number."""
    inputs, _ = chat.inputs(request.prompt)
    moved = {name: value.to(model.device) for name, value in inputs.items()}
    stops = stop_tokens(model, tokenizer)
    drawn = request.temperature > 0
    how = {"do_sample": True, "temperature": request.temperature, "top_p": request.top_p, "top_k": 0}
    devices = range(torch.cuda.device_count()) if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(1_000_003 * (request.seed or 0) + request.repeat)
        out = model.generate(
            **moved,
            max_new_tokens=request.max_tokens,
            eos_token_id=stops or None,
            pad_token_id=stops[0] if stops else 0,
            **(how if drawn else {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}),
        )
    read = moved["input_ids"].shape[1]
    written = out[0, read:].tolist()
    finish = "stop" if written and written[-1] in stops else "length"
    text = tokenizer.decode(written, skip_special_tokens=True)
    return Answer(text, finish, tokens_in=read, tokens_out=len(written))


def stop_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Tokens that end an answer: what the checkpoint says, and the end of a turn in ChatML."""
    said = model.generation_config.eos_token_id
    found = set(said if isinstance(said, list) else [] if said is None else [said])
    if tokenizer.eos_token_id is not None:
        found.add(int(tokenizer.eos_token_id))
    vocabulary = tokenizer.get_vocab()
    found |= {vocabulary[mark] for mark in ("<|im_end|>", "<|endoftext|>") if mark in vocabulary}
    return sorted(found)


def score(model: Any, encode: Any, chat: Chat, request: Score) -> Scores:
    """The candidates' log-probabilities as the next token."""
    inputs, last = chat.inputs(request.prompt)
    targets = target_ids(encode, [last], request.candidates)[0]
    values = next_logprobs(model, inputs, targets)
    told = tuple(float(value) for value in values)
    return Scores(told, (False,) * len(told), tokens_in=int(inputs["input_ids"].shape[1]))

"""Conversations with a model in this process: chat templates, generated text, scores of the next token."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList

from stepscore._untrusted.chat_templates import render_chat
from stepscore._untrusted.checkpoint_folder import brief
from stepscore.errors import ModelError
from stepscore.models.chatml import chatml_parts
from stepscore.models.checkpoints.network_size import MAX_NUMBER
from stepscore.models.media import DecodedMedia
from stepscore.models.prompts import Prompt
from stepscore.models.qwen3vl.full_forward import next_logprobs
from stepscore.models.qwen3vl.prefix_plan import target_ids
from stepscore.models.qwen3vl.prompts import QwenInputs
from stepscore.models.requests import Generate, Score
from stepscore.models.responses import Answer, Scores, TokenChoice
from stepscore.models.schemas.token_mask import AnswerTokens, Vocabulary, token_bytes

THINKS = (
    "The checkpoint's chat template begins every answer with thoughts, which no schema describes, so its answers are "
    "not held to one. (-J structured=false asks without it from the beginning.)"
)


class Chat(Protocol):
    """Makes the inputs of a prompt for one family of models."""

    def inputs(self, prompt: Prompt) -> tuple[Mapping[str, Tensor], str]:
        """Return the inputs, and the text after the last image, which the answer follows."""


@dataclass(frozen=True)
class QwenChat:
    """Chats of the Qwen-VL family, by the checkpoint's template, or as ChatML where it has none."""

    tokenizer: Any
    prompt_inputs: QwenInputs

    def inputs(self, prompt: Prompt) -> tuple[Mapping[str, Tensor], str]:
        """See :class:`Chat`."""
        templated = prompt.template == "chat" and self.tokenizer.chat_template
        text = chat_text(prompt, self.tokenizer) if templated else "".join(map(_mark, chatml_parts(prompt)))
        parts = split_at_images(text, media_in(prompt))
        last = parts[-1]
        return self.prompt_inputs.inputs(parts), last if isinstance(last, str) else ""


def split_at_images(text: str, images: Sequence[DecodedMedia]) -> list[str | DecodedMedia]:
    """Return a text split at its marks of images, each mark replaced by its image.

    Raises:
        ModelError: It has another number of marks than there are images.
    """
    marks = re.compile(r"<\|vision_start\|><\|(?:image|video)_pad\|><\|vision_end\|>")
    texts = marks.split(text)
    if len(texts) != len(images) + 1:
        raise ModelError(
            f"The prompt has {len(images)} images, and its text has marks for {len(texts) - 1}. "
            "Its texts may not contain <|vision_start|>, and the chat template must write one mark per image."
        )
    parts: list[str | DecodedMedia] = [texts[0]]
    for image, after in zip(images, texts[1:], strict=True):
        parts += [image, after]
    return parts


def media_in(prompt: Prompt) -> list[DecodedMedia]:
    """Return the images and videos of a resolved prompt, in order."""
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
    return render_chat(templated, messages, add_generation_prompt=True) + prompt.prefill


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
    """Generate text. With a temperature, it is sampled with the request's seed (0 if none) and repeat number."""
    inputs, last = chat.inputs(request.prompt)
    moved = {name: value.to(model.device) for name, value in inputs.items()}
    stops = stop_tokens(model, tokenizer)
    sampled = request.temperature > 0
    sampling = {
        "do_sample": True,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": request.top_k or 0,
    }
    devices = range(torch.cuda.device_count()) if model.device.type == "cuda" else []
    answer = None
    if request.schema is not None and last.rstrip().endswith("<think>"):
        warnings.warn(THINKS, stacklevel=2)
    elif request.schema is not None:
        vocabulary = vocabulary_of(tokenizer, tuple(stops))
        answer = AnswerTokens(vocabulary, request.schema, request.max_tokens, request.top_logprobs)
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(1_000_003 * (request.seed or 0) + request.repeat)
        out = model.generate(
            **moved,
            max_new_tokens=request.max_tokens,
            **({} if answer is None else {"logits_processor": LogitsProcessorList([SchemaMask(answer)])}),
            eos_token_id=stops or None,
            pad_token_id=stops[0] if stops else 0,
            return_dict_in_generate=True,
            output_logits=bool(request.top_logprobs) and answer is None,
            **(
                sampling
                if sampled
                else {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
            ),
        )
    read = moved["input_ids"].shape[1]
    written = out.sequences[0, read:].tolist()
    finish = "stop" if written and written[-1] in stops else "length"
    if answer is not None:
        if written:
            answer.take(written[-1])
        finish = "stop" if answer.is_complete else finish
        return Answer(answer.text, finish, read, len(written), answer.choices, answer.mass)
    text = tokenizer.decode(written, skip_special_tokens=True)
    answered = [token for token in written if token not in stops]
    logits = out.logits[: len(answered)] if request.top_logprobs else ()
    choices = tuple(
        _token_choice(tokenizer, token, values[0], request.top_logprobs)
        for token, values in zip(answered, logits, strict=False)
    )
    return Answer(text, finish, tokens_in=read, tokens_out=len(written), choices=choices)


class SchemaMask(LogitsProcessor):
    """Leaves the allowed tokens of an answer; follows it by the tokens that were generated."""

    def __init__(self, answer: AnswerTokens) -> None:
        self._answer = answer
        self._begun = False

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the logits of the next token, minus infinity for those that are not allowed."""
        if self._begun:
            self._answer.take(int(input_ids[0, -1]))
        self._begun = True
        allowed = self._answer.allowed(scores[0].float().cpu().numpy())
        return scores.masked_fill(~torch.from_numpy(allowed).to(scores.device), -torch.inf)


@lru_cache(maxsize=4)
def vocabulary_of(tokenizer: Any, stops: tuple[int, ...]) -> Vocabulary:
    """Return the bytes of every token of a tokenizer, for answers that are held to a schema.

    Raises:
        ModelError: It has no tokens for single bytes.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError("The tokenizer is not one of the tokenizers library. Use -J structured=false.")
    return Vocabulary(token_bytes(backend), stops)


def _token_choice(tokenizer: Any, token: int, logits: Tensor, n: int) -> TokenChoice:
    """Return a generated token with the n most likely ones at its place."""
    values, ids = torch.log_softmax(logits.float(), dim=-1).topk(min(n, logits.shape[-1]))
    pairs = zip(ids.tolist(), values.tolist(), strict=True)
    return TokenChoice(
        tokenizer.decode([token]), tuple((tokenizer.decode([one]), value) for one, value in pairs)
    )


def stop_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Return the tokens that end an answer: those of the checkpoint, and the end of a turn in ChatML."""
    stated = model.generation_config.eos_token_id
    found = set(stated if isinstance(stated, list) else [] if stated is None else [stated])
    if any(not isinstance(token, int) or not 0 <= token <= MAX_NUMBER for token in found):
        raise ModelError(
            f"generation_config.json: eos_token_id is {brief(stated)}; it is a token's id or a list of them."
        )
    if tokenizer.eos_token_id is not None:
        found.add(int(tokenizer.eos_token_id))
    vocabulary = tokenizer.get_vocab()
    found |= {vocabulary[mark] for mark in ("<|im_end|>", "<|endoftext|>") if mark in vocabulary}
    return sorted(found)


def score(model: Any, encode: Any, chat: Chat, request: Score) -> Scores:
    """Return the candidates' log-probabilities as the next token."""
    inputs, last = chat.inputs(request.prompt)
    targets = target_ids(encode, [last], request.candidates)[0]
    logprobs = tuple(float(value) for value in next_logprobs(model, inputs, targets))
    return Scores(logprobs, (False,) * len(logprobs), tokens_in=int(inputs["input_ids"].shape[1]))

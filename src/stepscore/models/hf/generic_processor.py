"""Models of any other family, through the processor that comes with their checkpoint.

A video is given as images, each after its timestamp (``<0.5 seconds>``), as families differ in how they take a
video and most video processors need torchvision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from stepscore._untrusted.chat_templates import render_chat
from stepscore.episodes import Clip
from stepscore.errors import ModelError
from stepscore.models.hf.chat import chat_text, media_in
from stepscore.models.media import DecodedMedia
from stepscore.models.prompts import Prompt, Turn
from stepscore.models.qwen3vl.inputs import Encode, time_text


def load_processor(folder: Path, name: str, family: str, *, remote_code: bool) -> Any:
    """Load the checkpoint's own processor.

    Raises:
        ModelError: It cannot be loaded here; the message says why and what to do.
    """
    import transformers

    loader: Any = transformers.AutoProcessor
    try:
        return loader.from_pretrained(folder, trust_remote_code=remote_code, local_files_only=True)
    except ImportError as error:
        lacks = "torchvision" if "orchvision" in str(error) else "a library"
        raise ModelError(
            f"{name}: the processor of {family} needs {lacks} that is not installed here "
            f"({_first_line(error)}). Install it, or use a Qwen-VL model, which needs none."
        ) from error
    except Exception as error:
        raise ModelError(
            f"{name}: the processor of {family} cannot be loaded ({type(error).__name__}: {_first_line(error)})."
        ) from error


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "no message")


@dataclass(frozen=True)
class GenericInputs:
    """Inputs made by the checkpoint's processor: of chats, and of prefixes of videos."""

    processor: Any
    encode: Encode

    def inputs(self, prompt: Prompt) -> tuple[Mapping[str, Tensor], str]:
        """Return the inputs of a chat, and the text after the last image."""
        if not getattr(self.processor, "chat_template", None):
            raise ModelError("The checkpoint has no chat template, so it cannot chat.")
        turns = tuple(Turn(turn.role, tuple(_stills(turn.parts))) for turn in prompt.turns)
        text = chat_text(replace(prompt, turns=turns), self.processor)
        images = [media.clip for media in media_in(Prompt(turns))]
        tail = text.rsplit(self.mark(), 1)[-1] if images else text
        return self._processed(text, images), tail

    def prefix(self, clip: Clip, length: int, head: str, tail: str) -> Mapping[str, Tensor]:
        """Return the inputs for a head, the first frames of a video, and a text after them."""
        prefix = Clip(clip.frames[:length], clip.timestamps[:length], clip.indices[:length])
        mark = self.mark()
        video = "".join(time_text(seconds) + mark for seconds in prefix.timestamps)
        images = [
            still.clip
            for still in _stills([DecodedMedia(prefix, video=True)])
            if isinstance(still, DecodedMedia)
        ]
        return self._processed(head + video + tail, images)

    def mark(self) -> str:
        """Return the text that stands for an image: what the chat template writes between two words."""
        words = ("before the image", "after the image")
        if getattr(self.processor, "chat_template", None):
            content = [
                {"type": "text", "text": words[0]},
                {"type": "image"},
                {"type": "text", "text": words[1]},
            ]
            text = render_chat(self.processor, [{"role": "user", "content": content}])
            between = text.partition(words[0])[2].partition(words[1])[0].strip()
            if between:
                return str(between)
        token = getattr(self.processor, "boi_token", None) or getattr(self.processor, "image_token", None)
        if not token:
            raise ModelError("The processor does not state which text stands for an image.")
        return str(token)

    def _processed(self, text: str, clips: Sequence[Clip]) -> Mapping[str, Tensor]:
        from PIL import Image

        images = [Image.fromarray(clip.frames[0]) for clip in clips]
        begin = getattr(self.processor.tokenizer, "bos_token", None)
        try:
            made = self.processor(
                text=[text],
                images=images or None,
                return_tensors="pt",
                add_special_tokens=not (begin and text.startswith(begin)),
            )
        except Exception as error:  # processors are many and raise anything
            raise ModelError(
                f"The processor refused a prompt with {len(images)} images "
                f"({type(error).__name__}: {_first_line(error)})."
            ) from error
        return {key: value for key, value in made.items() if isinstance(value, Tensor)}


def _stills(parts: Sequence[object]) -> list[str | DecodedMedia]:
    """Return the parts with every video as images, each after its timestamp."""
    made: list[str | DecodedMedia] = []
    for part in parts:
        if isinstance(part, DecodedMedia) and part.video:
            clip = part.clip
            for i in range(len(clip)):
                still = Clip(clip.frames[i : i + 1], clip.timestamps[i : i + 1], clip.indices[i : i + 1])
                made += [time_text(float(clip.timestamps[i])), DecodedMedia(still)]
        else:
            made.append(part if isinstance(part, DecodedMedia) else str(part))
    return made

"""OpenAI's ``/v1/chat/completions`` as RLinf's reward worker of type ``api`` uses it: images, then the question.

The answer is one word: ``positive`` where progress rises over the images by at least the threshold, ``negative`` if
it falls by as much, else ``unclear``, also where the judge does not know.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import re
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscore.episodes import Clip
from stepscore.server.reward_api.limits import Limits, RefusedError
from stepscore.server.reward_api.received import Received
from stepscore.server.reward_api.robometer import instruction_of, shown
from stepscore.types import Curve, Frames

TREND = 0.05
"""Change of progress from which a trend is positive or negative."""

_INSTRUCTION = (
    re.compile(r"performing the task:\s*(.+?)\.\s+You are given", re.DOTALL),
    re.compile(r"(?:^|\n)\s*Task:\s*(.+?)\s*(?:\n|$)"),
)
_VIDEOS = re.compile(r"\b(one|two|three|four|\d{1,2})\s+synchronized\s+(\d{1,3})-frame videos", re.IGNORECASE)
_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4}
_DATA_URL = re.compile(r"data:image/(?:jpeg|jpg|png|webp);base64,", re.IGNORECASE)


@dataclass(frozen=True)
class Question:
    """A question about images.

    Attributes:
        video: The images, by camera.
        model: The model that was asked for; only repeated in the answer.
    """

    video: Received
    model: str


def question_of(content: object, limits: Limits, fps: float) -> Question:
    """Return the question of a request.

    The instruction is between "performing the task:" and ". You are given", or after "Task:"; else it is the
    whole text. Where the text says "two synchronized 5-frame videos", the first five images are the first camera's.
    """
    if not isinstance(content, dict) or not isinstance(content.get("messages"), list):
        raise RefusedError(400, "Send an object with the list messages.")
    if content.get("stream"):
        raise RefusedError(400, "stream is not supported.")
    if content.get("n") not in (None, 1):
        raise RefusedError(400, "n must be 1.")
    parts = _parts(content["messages"])
    texts = [
        part["text"] for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str)
    ]
    urls = [part.get("image_url") for part in parts if part.get("type") == "image_url"]
    if not urls:
        raise RefusedError(400, "The last message of the user has no image.")
    if len(urls) > limits.frames:
        raise RefusedError(413, f"{len(urls)} images; at most {limits.frames} are taken.")
    text = "\n".join(texts)
    images = [_image(url, number, limits) for number, url in enumerate(urls)]
    times = np.arange(len(images) // _cameras(text, len(images))) / fps
    groups = [images[start : start + len(times)] for start in range(0, len(images), len(times))]
    clips = {f"camera_{number}": _clip(group, times) for number, group in enumerate(groups)}
    found = next((match[1] for form in _INSTRUCTION if (match := form.search(text))), text)
    return Question(Received(clips, instruction_of(found, "The text")), str(content.get("model", ""))[:200])


def answer(question: Question, curve: Curve, threshold: float) -> dict[str, Any]:
    """Return the response, with the progress that it was made of."""
    return {
        "id": f"chatcmpl-{time.time_ns():x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": question.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": trend(curve, threshold)},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 1, "total_tokens": 1},
        "stepscore": {"progress": shown(curve.progress, None), "threshold": threshold},
    }


def trend(curve: Curve, threshold: float) -> str:
    """Return the trend from the first known point to the last image."""
    known = curve.progress[~np.isnan(curve.progress)]
    change = float(curve.progress[-1] - known[0]) if len(known) > 1 else math.nan
    if math.isnan(change) or abs(change) < threshold:
        return "unclear"
    return "positive" if change > 0 else "negative"


def _parts(messages: Sequence[Any]) -> list[dict[str, Any]]:
    for message in reversed(messages):
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return [{"type": "text", "text": content}]
            if isinstance(content, list):
                return [part for part in content if isinstance(part, dict)]
    raise RefusedError(400, "messages must hold one of the role user.")


def _cameras(text: str, images: int) -> int:
    found = _VIDEOS.search(text)
    if found is None:
        return 1
    cameras = _NUMBERS.get(found[1].lower()) or int(found[1])
    # Each camera has as many images as the text says, or at least the same number of them.
    return cameras if cameras and images % cameras == 0 else 1


def _image(given: object, number: int, limits: Limits) -> Frames:
    from PIL import Image

    url = given.get("url") if isinstance(given, dict) else given
    where = f"Image {number}"
    head = _DATA_URL.match(url) if isinstance(url, str) else None
    if head is None or not isinstance(url, str):
        raise RefusedError(400, f"{where} must be a data URL with base64 of a JPEG, PNG or WebP image.")
    try:
        content = base64.b64decode(url[head.end() :], validate=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes, which are checked here
            with Image.open(io.BytesIO(content), formats=("JPEG", "PNG", "WEBP")) as image:
                width, height = image.size
                if width * height > limits.pixels:
                    raise RefusedError(
                        413, f"{where}: {width}x{height} pixels; at most {limits.pixels} are taken."
                    )
                return np.asarray(image.convert("RGB"), dtype=np.uint8)
    except (binascii.Error, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise RefusedError(400, f"{where} cannot be read ({str(error)[:100]}).") from None


def _clip(images: list[Frames], times: Any) -> Clip:
    if len({image.shape for image in images}) > 1:
        raise RefusedError(400, "The images of a camera must have one size.")
    return Clip(np.stack(images), times, np.arange(len(images)))

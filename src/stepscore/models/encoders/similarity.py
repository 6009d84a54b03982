"""Cosine similarities of what an encoder makes of frames, images and texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stepscore.errors import CapabilityError, ModelError
from stepscore.models.media import DecodedMedia
from stepscore.models.requests import ScoreSimilarity
from stepscore.models.responses import Similarities
from stepscore.types import FloatArray, Frames

DIGITS = 6
"""Decimals of a cosine; features are float32, so that further ones differ between machines."""

MAX_TEXT_CHARS = 4096
"""Longest text that is encoded; encoders read some 64 tokens of it."""

Features = NDArray[np.float32]


def score_similarity(
    request: ScoreSimilarity,
    encode_images: Callable[[Sequence[Frames]], Features],
    name: str,
    encode_texts: Callable[[Sequence[str]], Features] | None = None,
) -> Similarities:
    """Return the similarities that a resolved request asks for.

    Args:
        request: The request.
        encode_images: Returns the features of images of any sizes, each (h, w, 3); one row per image.
        name: The model string, for messages.
        encode_texts: Returns the features of texts in the same space; ``None`` for a model without such.

    Raises:
        CapabilityError: Texts are asked for, and the model has no text encoder.
    """
    if request.texts and encode_texts is None:
        raise CapabilityError(
            f"{name} has no text encoder, so it compares images alone: give goal images (--goal), or choose an "
            "encoder with texts, for example --model hf/clip"
        )
    assert isinstance(request.video, DecodedMedia)
    frames = request.video.clip.frames
    images = [image.clip.frames[0] for image in request.images if isinstance(image, DecodedMedia)]
    features = encode_images([*frames, *images])
    references = [features[len(frames) :]]
    if request.texts and encode_texts is not None:
        references.append(encode_texts([text[:MAX_TEXT_CHARS] for text in request.texts]))
    if len({part.shape[1] for part in (features, *references)}) > 1:
        raise ModelError(f"{name}: its images and its texts have features of different sizes.")
    return similarities(features[: len(frames)], np.concatenate(references))


def similarities(frames: Features, references: Features) -> Similarities:
    """Return the cosines of features (n, d) with those of references (r, d); NaN for features of length 0."""
    unit_frames, unit_references = _unit(frames), _unit(references)
    return Similarities(
        np.round(unit_frames @ unit_references.T, DIGITS),
        np.round(unit_references @ unit_references.T, DIGITS),
    )


def _unit(features: Features) -> FloatArray:
    values = np.asarray(features, dtype=np.float64)
    length = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.where(length > 0, length, np.nan))

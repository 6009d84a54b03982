"""The domain gate applied to requests: the images that decide, the words they are matched with, the warning."""

from __future__ import annotations

import hashlib
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from stepscore._untrusted import shown
from stepscore.errors import ModelError
from stepscore.models.embedded.domain_gate import GATE_FILE, DomainGate, load_gate
from stepscore.models.media import DecodedMedia
from stepscore.models.requests import Request, ScoreSimilarity
from stepscore.types import FloatArray, Frames

MAX_CACHED_IMAGES = 4096
"""Number of images whose fits are cached."""


def decisive_images(request: Request) -> list[Frames]:
    """Return the images by which a request is accepted: the first frame of a video, and every single image.

    Of a video only the first frame counts, so that a prefix is answered the same whatever follows it.
    """
    media = request.media()[:1] if isinstance(request, ScoreSimilarity) else request.media()
    return [part.clip.frames[0] for part in media if isinstance(part, DecodedMedia)]


class DomainCheck:
    """Decides whether a model answers a request; caches the fits of images.

    Args:
        folder: The checkpoint's folder, which holds the gate.
        encode: Returns the vision encoder's features of images, (n, features).
        refusal: The warning at the first refusal; it is not repeated.
    """

    def __init__(
        self, folder: Path, encode: Callable[[Sequence[Frames]], NDArray[np.float32]], refusal: str
    ) -> None:
        self._folder, self._encode, self._refusal = folder, encode, refusal
        self._deciding = Lock()
        self._warned = False
        self._gate: DomainGate | None = None
        self._known: OrderedDict[bytes, FloatArray] = OrderedDict()

    def accepts(self, request: Request) -> bool:
        """Return whether to answer a request: at least half of its decisive images pass, or it has none."""
        return self.accepts_images(decisive_images(request), " ".join(request.words()))

    def accepts_images(self, images: Sequence[Frames], text: str = "") -> bool:
        """Return whether at least half of the images are of scenes the text may be about; true without images."""
        if not images:
            return True
        with self._deciding:  # requests of several episodes come from several threads
            passed = self._decide(images, text)
        if not passed:
            self.warn()
        return passed

    def warn(self) -> None:
        """Warn of a refusal, the first time."""
        if not self._warned:
            self._warned = True
            warnings.warn(self._refusal, stacklevel=3)

    def _decide(self, images: Sequence[Frames], text: str) -> bool:
        keys = [hashlib.sha256(f"{image.shape}".encode() + image.tobytes()).digest() for image in images]
        new = {key: image for key, image in zip(keys, images, strict=True) if key not in self._known}
        if self._gate is None:
            self._gate = load_gate(self._folder / GATE_FILE)
        if new:
            features = self._encode(list(new.values()))
            if features.shape[1] != self._gate.n_features:
                raise ModelError(
                    f"{shown(self._folder / GATE_FILE)} is the gate of another network: it takes "
                    f"{self._gate.n_features} features of an image, and this one has {features.shape[1]}."
                )
            fits = self._gate.fits(features)
            self._known.update(zip(new, fits, strict=True))
        passed = self._gate.passes(np.stack([self._known[key] for key in keys]), text)
        while len(self._known) > MAX_CACHED_IMAGES:
            self._known.popitem(last=False)
        return bool(np.mean(passed) >= 0.5)

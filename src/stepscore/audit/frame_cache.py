"""Cache decoded frames, so that the many probes of one episode decode each frame once per size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscore.episodes import Episode, View, ViewInfo
from stepscore.types import FloatArray, Frames

Key = tuple[bytes, int | None, int]


class FrameCache:
    """Decoded frames; the least recently used are dropped beyond ``max_bytes``."""

    def __init__(self, max_bytes: int = 256 * 2**20) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._frames: OrderedDict[Key, Frames] = OrderedDict()
        self._lock = threading.Lock()
        self.decoded = 0
        """Frames that were decoded, for they were not kept."""

    def read(self, view: View, digest: bytes, indices: Sequence[int], size: int | None) -> Frames:
        """Return frames of a view, decoding only those that are not cached."""
        with self._lock:
            found = {index: self._take((digest, size, index)) for index in dict.fromkeys(indices)}
            missing = [index for index, frame in found.items() if frame is None]
            if missing:
                decoded = view.read(missing, size)
                self.decoded += len(missing)
                for index, frame in zip(missing, decoded, strict=True):
                    found[index] = frame
                    self._put((digest, size, index), frame.copy())
        frames = [frame for index in indices if (frame := found[index]) is not None]
        return np.stack(frames) if frames else view.read([], size)

    def _take(self, key: Key) -> Frames | None:
        frame = self._frames.get(key)
        if frame is not None:
            self._frames.move_to_end(key)
        return frame

    def _put(self, key: Key, frame: Frames) -> None:
        self._frames[key] = frame
        self._bytes += frame.nbytes
        while self._bytes > self._max_bytes and len(self._frames) > 1:
            self._bytes -= self._frames.popitem(last=False)[1].nbytes


@dataclass(frozen=True)
class CachedView:
    """A view whose frames are cached; otherwise the same view with the same digest."""

    view: View
    cache: FrameCache

    def info(self) -> ViewInfo:
        """Return the info of the wrapped view."""
        return self.view.info()

    def timestamps(self) -> FloatArray:
        """Return the view's timestamps."""
        return self.view.timestamps()

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Read frames from the cache, else decode them."""
        return self.cache.read(self.view, self.digest(), list(indices), size)

    def digest(self) -> bytes:
        """Return the view's digest."""
        return self.view.digest()

    def location(self) -> str:
        """Return where the frames are."""
        return self.view.location()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only the view: cached frames stay in this process."""
        return (_itself, (self.view,))


def _itself(view: View) -> View:
    return view


def with_frame_cache(episode: Episode, cache: FrameCache) -> Episode:
    """Return the episode with cached views; an unreadable episode is returned unchanged."""
    if episode.error is not None:
        return episode
    return replace(episode, views={name: CachedView(view, cache) for name, view in episode.views.items()})

"""What the reward server takes, and how much of it at a time. What is above a limit is refused with a status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated

from stepscore._options import MANY, Range


@dataclass(frozen=True)
class Limits:
    """Limits of the reward server.

    Attributes:
        body_mb: Largest request, in megabytes.
        memory_mb: All requests that are being answered, in megabytes.
        frames: Most frames in a video.
        pixels: Most pixels in a frame.
        samples: Most videos in a request.
        waiting: Most videos that wait to be scored.
        at_once: Videos that are scored at a time.
        sessions: Most open sessions.
        idle_s: Seconds after which an unused session is closed.
        read_s: Seconds for sending a request.
        answer_s: Seconds for answering a request.
        stop_s: Seconds for answering what is under way when the server stops.
    """

    body_mb: Annotated[float, Range(0, MANY, above=True)] = 64.0
    memory_mb: Annotated[float, Range(0, MANY, above=True)] = 1024.0
    frames: Annotated[int, Range(1, 1_000_000)] = 1024
    pixels: Annotated[int, Range(1, 100_000_000)] = 4_000_000
    samples: Annotated[int, Range(1, 1_000_000)] = 256
    waiting: Annotated[int, Range(1, 1_000_000)] = 512
    at_once: Annotated[int, Range(1, 4096)] = 4
    sessions: Annotated[int, Range(1, 1_000_000)] = 256
    idle_s: Annotated[float, Range(0, MANY, above=True)] = 600.0
    read_s: Annotated[float, Range(0, MANY, above=True)] = 30.0
    answer_s: Annotated[float, Range(0, MANY, above=True)] = 120.0
    stop_s: Annotated[float, Range(0, MANY, above=True)] = 30.0

    @property
    def body_bytes(self) -> int:
        """Largest request in bytes."""
        return int(self.body_mb * 1e6)


class RefusedError(Exception):
    """A request that is not answered.

    Attributes:
        status: The HTTP status.
        message: Why, and what is allowed.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Admission:
    """Lets requests in, first come first served, as many as the limits allow.

    Attributes:
        waiting: Videos that wait.
        scoring: Videos that are scored now.
        held_bytes: Bytes of the requests that are being answered.
        stopping: Whether new requests are refused, because the server stops.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.at_once)
        self.waiting = self.scoring = self.held_bytes = 0
        self.stopping = False

    def check(self) -> None:
        """Refuse what comes while the server stops."""
        if self.stopping:
            raise RefusedError(503, "The server is stopping.")

    @contextmanager
    def memory(self, size: int) -> Iterator[None]:
        """Hold the bytes of a request."""
        most = self._limits.memory_mb * 1e6
        if self.held_bytes and self.held_bytes + size > most:
            raise RefusedError(
                503, f"The server is busy: it holds {self.held_bytes} bytes of requests. Try again."
            )
        self.held_bytes += size
        try:
            yield
        finally:
            self.held_bytes -= size

    def reserve(self, videos: int) -> None:
        """Refuse a request that would make too many videos wait."""
        if self.waiting and self.waiting + videos > self._limits.waiting:
            raise RefusedError(
                429, f"{self.waiting} videos wait to be scored (at most {self._limits.waiting}). Try again."
            )

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a turn."""
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        self.scoring += 1
        try:
            yield
        finally:
            self.scoring -= 1
            self._slots.release()

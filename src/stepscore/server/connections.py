"""Limits of the live server: how many connections it holds, and how long each may keep it waiting.

uvicorn has a timeout between two requests only, and accepts connections until no file can be opened any more. Here

- a connection sends a whole request within :data:`REQUEST_S` of its start or of the last response;
- a client takes some byte of its response in every :data:`STALL_S`; a slow one is never cut off;
- at the limit (:func:`most_connections`) the one that has waited longest is closed for a new one: idle, or for
  :data:`STALL_AT_LIMIT_S` for its client to take something. If there is none, the new one is answered with 503.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from stepscore.errors import OptionError

MOST_CONNECTIONS = 128
"""Most connections; a browser has six to one server."""
LEAST_CONNECTIONS = 4
REQUEST_S = 10.0
STALL_S = 300.0
"""Long, since a browser reads nothing of a video that is paused; it asks for the rest when it is played on."""
STALL_AT_LIMIT_S = 10.0
KEEP_ALIVE_S = 5
"""Seconds without any byte after which a connection is closed between two requests."""
TICK_S = 1.0
LINGER_S = 1.0
"""Seconds for a refused client to read why: closing with its request unread would reset the connection."""

ACCEPTED_AT_ONCE = 4
"""Connections that the event loop accepts before it looks at them."""
MOST_REFUSED = 16
"""Refused clients that may read why at a time; for a further one the first is cut off."""
SPARE_FILES = 4 * ACCEPTED_AT_ONCE + MOST_REFUSED + 12
"""Files that are no connection: those accepted or refused just now, and those of the runs while they are read."""

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: 22\r\n\r\nToo many connections.\n"
)


def most_connections() -> int:
    """Return how many connections this process can hold, each with a video open.

    Raises:
        OptionError: It may open too few files.
    """
    try:
        import resource
    except ImportError:  # Windows, where sockets are not files
        return MOST_CONNECTIONS
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    used = len(os.listdir("/dev/fd"))
    room = (limit - used - SPARE_FILES) // 2
    if room < LEAST_CONNECTIONS:
        needed = used + SPARE_FILES + 2 * LEAST_CONNECTIONS
        raise OptionError(
            f"This process may have {limit} files open; the server needs {needed}. Raise the limit: ulimit -n 1024"
        )
    return min(room, MOST_CONNECTIONS)


class Connections:
    """The open connections of a server.

    Args:
        most: How many there may be.
        on_refused: Called when one is refused.
    """

    def __init__(self, most: int, on_refused: Callable[[], None]) -> None:
        self.most, self._on_refused = most, on_refused
        self._open: dict[LimitedConnection, None] = {}  # in the order in which they were opened
        self._refused: dict[asyncio.Transport, None] = {}

    @property
    def protocol(self) -> Any:
        """What uvicorn calls for each new connection."""
        return partial(LimitedConnection, limits=self)

    def admit(self, connection: LimitedConnection) -> bool:
        """Return whether there is room for a connection, or could be made by closing one that waits."""
        if len(self._open) >= self.most:
            limit = asyncio.get_running_loop().time() - STALL_AT_LIMIT_S
            waiting = [one for one in self._open if one.is_idle or one.since < limit]
            if not waiting:
                return False
            self._end(min(waiting, key=lambda one: one.since))
        self._open[connection] = None
        return True

    def refuse(self, transport: asyncio.Transport) -> None:
        """Answer that there is no room."""
        self._on_refused()
        if len(self._refused) >= MOST_REFUSED:
            self._forget(next(iter(self._refused)))
        self._refused[transport] = None
        transport.write(BUSY)
        transport.write_eof()
        asyncio.get_running_loop().call_later(LINGER_S, self._forget, transport)

    def lost(self, connection: LimitedConnection) -> None:
        """Note that a connection has ended."""
        self._open.pop(connection, None)
        self._refused.pop(connection.transport, None)

    async def watch(self) -> None:
        """Close connections that keep the server waiting, until this is cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            now = asyncio.get_running_loop().time()
            for connection in list(self._open):
                if connection.is_overdue(now):
                    self._end(connection)

    def close(self) -> None:
        """End all connections."""
        for connection in list(self._open):
            self._end(connection)

    def _end(self, connection: LimitedConnection) -> None:
        self._open.pop(connection, None)
        connection.transport.abort()

    def _forget(self, transport: asyncio.Transport) -> None:
        self._refused.pop(transport, None)
        transport.abort()


class LimitedConnection(H11Protocol):
    """A connection of uvicorn that knows how long it has been waiting for its client.

    Attributes:
        since: When it began to wait for a request, or when its client last took something of a response.
    """

    def __init__(self, *args: Any, limits: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits, self._admitted = limits, False
        self.since, self._unsent = 0.0, 0

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return not answering and not self.transport.get_write_buffer_size()

    def is_overdue(self, now: float) -> bool:
        """Return whether its client has kept the server waiting for too long; to be called about once a second."""
        unsent, before = self.transport.get_write_buffer_size(), self._unsent
        self._unsent = unsent
        if unsent == before == 0 and self.is_idle:
            return now - self.since > REQUEST_S
        if unsent != before or not unsent:  # something was taken, or the answer is being made
            self.since = now
        return now - self.since > STALL_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit or refuse the connection."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self._admitted = self._limits.admit(self)
        if not self._admitted:
            self._limits.refuse(transport)

    def data_received(self, data: bytes) -> None:
        """Read requests, unless the connection was refused."""
        if self._admitted:
            super().data_received(data)

    def resume_writing(self) -> None:
        """Send more of a response: its client has taken what was waiting, though as much may wait again soon."""
        self.since = self.loop.time()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for another connection."""
        self._limits.lost(self)
        super().connection_lost(exc)

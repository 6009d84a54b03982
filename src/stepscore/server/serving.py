"""Run the web application on the loopback interface until it is interrupted."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from stepscore.errors import OptionError
from stepscore.server.app import make_app
from stepscore.server.live_page import LivePage

if TYPE_CHECKING:
    import uvicorn

LOOPBACK = "127.0.0.1"
REPEAT_S = 60.0
"""Seconds after which a problem that persists is reported again."""

_QUEUE = 128
"""Connections that may wait in the system, where they need no file."""

SEND_BUFFER_BYTES = 1 << 18
"""How much of a response the system holds: with megabytes, a slow client would long seem to take nothing."""

_LOGGERS = ("uvicorn.error", "asyncio")


def serve(
    live: LivePage,
    port: int,
    on_ready: Callable[[str], None],
    on_warning: Callable[[str], None] = warnings.warn,
) -> None:
    """Serve until interrupted.

    Args:
        live: The page to serve.
        port: Port on the loopback interface; 0 chooses a free one.
        on_ready: Called with the page's address once the port is bound.
        on_warning: Called with one line about a problem, at most once a minute about each.
    """
    from stepscore.server.connections import most_connections

    with closing(bind(port)) as listening, _one_line_logs(on_warning):
        most = most_connections()
        listening.listen(_QUEUE)  # clients may connect as soon as they know the address
        on_ready(f"http://{LOOPBACK}:{listening.getsockname()[1]}/")
        asyncio.run(serve_on(listening, live, most))


async def serve_on(
    listening: socket.socket,
    live: LivePage,
    most: int,
    on_start: Callable[[uvicorn.Server], None] = lambda server: None,
) -> None:
    """Serve on a bound socket until interrupted, within the limits of :mod:`stepscore.server.connections`.

    Args:
        listening: The socket.
        live: The page to serve.
        most: Most connections.
        on_start: Called with uvicorn's server, by which others stop it.
    """
    import uvicorn

    from stepscore.server.connections import ACCEPTED_AT_ONCE, KEEP_ALIVE_S, Connections

    log = logging.getLogger("uvicorn.error")
    connections = Connections(
        most,
        lambda: log.warning("All %d connections are in use. Further ones are refused with status 503.", most),
    )

    class Server(uvicorn.Server):
        """Ends clients that take nothing when it ends itself; uvicorn would wait for them."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            listening.listen(_QUEUE)  # asyncio has set it to what it accepts at once

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            connections.close()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        make_app(live),
        http=connections.protocol,
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    server = Server(config)
    on_start(server)
    watch = asyncio.create_task(connections.watch())
    try:
        await server.serve([listening])
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch


def bind(port: int) -> socket.socket:
    """Return a socket on the loopback interface.

    Raises:
        OptionError: The port cannot be used.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":
        # Elsewhere the option would let two servers share the port.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Inherited by every connection.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    try:
        listening.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise OptionError(
            f"Cannot use port {port} ({error}). Choose another one, or any free one: --port 0"
        ) from None
    return listening


@contextmanager
def _one_line_logs(on_warning: Callable[[str], None]) -> Iterator[None]:
    """Turn what uvicorn and asyncio log into single lines, without tracebacks and without end."""
    handler = _OneLine(on_warning)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagate in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate


class _OneLine(logging.Handler):
    """Passes each kind of message on as one line, at most every :data:`REPEAT_S` seconds."""

    def __init__(self, on_warning: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._on_warning = on_warning
        self._last: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Report a message with its error, if it was not just reported."""
        text = record.getMessage().strip().partition("\n")[0]
        error = record.exc_info[1] if record.exc_info else None
        kind = f"{text if error is None else record.msg} {type(error).__name__}"
        now = time.monotonic()
        if now - self._last.get(kind, -REPEAT_S) < REPEAT_S or len(self._last) > 100:
            return
        self._last[kind] = now
        self._on_warning(text if error is None else f"{text} ({type(error).__name__}: {error})")

"""Run the reward server until it is interrupted or terminated; what is under way is answered first."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stepscore._untrusted import shown
from stepscore.errors import OptionError
from stepscore.server.connections import Connections, most_connections
from stepscore.server.reward_api.scorer import Scorer

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

LEAST_TOKEN = 16
_QUEUE = 256
_KEEP_ALIVE_S = 60


def read_token(file: Path) -> str:
    """Return the token in a file: one line, of at least 16 characters.

    Raises:
        OptionError: It cannot be read, is too short, or other users can read it.
    """
    try:
        status, text = os.stat(file), file.read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise OptionError(f"Cannot read the token file {shown(file)} ({error}).") from None
    if os.name == "posix" and status.st_mode & (stat.S_IRGRP | stat.S_IROTH):
        raise OptionError(f"Other users can read {shown(file)}. Run: chmod 600 {shown(file)}")
    if len(text) < LEAST_TOKEN or len(text.split()) != 1 or not text.isascii():
        raise OptionError(
            f"{shown(file)} must hold one token of at least {LEAST_TOKEN} ASCII characters. "
            f"Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))' > {shown(file)}"
        )
    return text


def is_loopback(host: str) -> bool:
    """Return whether an address is this machine's loopback interface."""
    return host in ("localhost", "::1") or host.startswith("127.")


def serve_rewards(
    app: Starlette, scorer: Scorer, host: str, port: int, on_ready: Callable[[str], None]
) -> None:
    """Serve until interrupted.

    Args:
        app: From :func:`make_reward_app`.
        scorer: Its scorer, which refuses new requests when the server stops.
        host: The address to bind.
        port: The port; 0 chooses a free one.
        on_ready: Called with the URL.
    """
    with closing(bind(host, port)) as listening:
        listening.listen(_QUEUE)
        name = f"[{host}]" if ":" in host else host
        on_ready(f"http://{name}:{listening.getsockname()[1]}")
        asyncio.run(serve_app(app, scorer, listening))


async def serve_app(
    app: Starlette,
    scorer: Scorer,
    listening: socket.socket,
    on_start: Callable[[uvicorn.Server], None] = lambda server: None,
) -> None:
    """Serve on a bound socket until interrupted; ``on_start`` gets uvicorn's server, by which others stop it."""
    import uvicorn

    connections = Connections(most_connections(), lambda: None)

    class Server(uvicorn.Server):
        """Refuses new requests once it stops, and answers those that are under way."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            scorer.admission.stopping = True
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        http=connections.protocol,
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        backlog=_QUEUE,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(scorer.limits.stop_s),
    )
    watch = asyncio.create_task(connections.watch())
    server = Server(config)
    on_start(server)
    try:
        await server.serve([listening])
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch


def bind(host: str, port: int) -> socket.socket:
    """Return a socket on an address. Raises OptionError where it cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    if os.name == "posix":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise OptionError(
            f"Cannot use {host}:{port} ({error}). Choose another port, or any free one: --port 0"
        ) from None
    return listening

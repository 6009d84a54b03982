"""The web application: the page, newer data for it, its videos, and state and action of its episodes.

They are at ``/``, ``/data``, ``/media/N`` and ``/traces/N``, of a page of many episodes its parts at ``/parts/NAME``;
everything else is 404.

It is bound to the loopback interface and answers only requests whose Host header names that interface: a web page
from another host cannot reach it through a domain name that resolves to this machine (DNS rebinding).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from stepscore.errors import StepScoreError
from stepscore.server.byte_ranges import ByteRange, UnsatisfiableRangeError, parse_range
from stepscore.server.live_page import LivePage, Media

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_LOOPBACK_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_CHUNK_BYTES = 1 << 18
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


def make_app(live: LivePage) -> Starlette:
    """Return the application that serves a live page."""
    # Here, so that the package is imported without them.
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.responses import Response
    from starlette.routing import Route

    def page(request: Request) -> Response:
        headers = {"Content-Security-Policy": live.csp, "Cache-Control": "no-store"}
        try:
            return Response(live.page(), media_type="text/html", headers=headers)
        except (StepScoreError, OSError) as error:
            # The browser retries automatically: a run may just have begun.
            return _error_line(error, headers | {"Refresh": "3"})

    def data(request: Request) -> Response:
        headers = {"Cache-Control": "no-store"}
        try:
            content = live.data(request.query_params.get("version", ""))
        except (StepScoreError, OSError) as error:
            return _error_line(error, headers)
        if content is None:
            return Response(status_code=204, headers=headers)
        return Response(content, media_type="application/json", headers=headers)

    def traces(request: Request) -> Response:
        number = request.path_params["number"]
        try:
            content = live.traces(int(number)) if _NUMBER.fullmatch(number) else None
        except (StepScoreError, OSError) as error:
            return _error_line(error, {"Cache-Control": "no-store"})
        if content is None:
            return _not_found()
        return Response(content, media_type="application/json", headers={"Cache-Control": "no-cache"})

    def part(request: Request) -> Response:
        content = live.part(request.path_params["name"])
        if content is None:
            return _not_found()
        return Response(content, media_type="application/json", headers={"Cache-Control": "no-cache"})

    def media(request: Request) -> Response:
        number = request.path_params["number"]
        video = live.media(int(number)) if _NUMBER.fullmatch(number) else None
        file = _open(video) if video is not None else None
        if video is None or file is None:
            return _not_found()
        header = request.headers.get("range") if request.method == "GET" else None
        return _file_response(file, video.type, header, body=request.method == "GET")

    async def not_found(request: Request, error: Exception) -> Response:
        return _not_found()

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/data", data),
            Route("/media/{number}", media),
            Route("/traces/{number}", traces),
            Route("/parts/{name}", part),
        ],
        exception_handlers={HTTPException: not_found},
        middleware=[Middleware(_LoopbackHostOnly)],
    )
    app.router.redirect_slashes = False
    return app


class _LoopbackHostOnly:
    """Answers 404 where the Host header names another interface, and adds the headers of every response.

    In ASGI's own form: Starlette's ``BaseHTTPMiddleware`` runs the application in a task of its own, which may
    outlive a client that hangs up, with the file it was to get.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        # "lifespan", which tells of start and end, has no headers.
        hosts = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == b"host"]
        allowed = scope["type"] != "http" or (hosts and _LOOPBACK_HOST.fullmatch(hosts[0]))
        app = self._app if allowed else _not_found()
        await app(scope, receive, send_with_headers)


def _open(media: Media) -> BinaryIO | None:
    """Open the file if it is still the one that the page was built with; not a link put in its place."""
    try:
        # Without waiting: it may be a pipe by now.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(media.path, flags), "rb")
    except OSError:
        return None
    status = os.fstat(file.fileno())
    if (status.st_dev, status.st_ino) != (media.device, media.inode):
        file.close()
        return None
    return file


def _file_response(file: BinaryIO, mime_type: str, header: str | None, *, body: bool) -> Response:
    """Return the file or the requested part of it: 200, 206, or 416 if the part is outside the file.

    The open file itself is sent, not its path: see :mod:`stepscore.server.byte_ranges`.
    """
    from starlette.responses import Response, StreamingResponse

    size = os.fstat(file.fileno()).st_size
    headers = {"Accept-Ranges": "bytes", "Cache-Control": "no-cache"}
    try:
        requested = parse_range(header, size)
    except UnsatisfiableRangeError:
        file.close()
        return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    sent = requested or ByteRange(0, size - 1)
    headers["Content-Length"] = str(sent.length)
    if requested:
        headers["Content-Range"] = f"bytes {sent.first}-{sent.last}/{size}"
    if not body:
        file.close()
        return Response(headers=headers, media_type=mime_type)
    status = 206 if requested else 200

    class FileResponse(StreamingResponse):
        """Closes the file at the end, also where the client hangs up before it."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            with file:
                await super().__call__(scope, receive, send)

    return FileResponse(_chunks(file, sent), status_code=status, headers=headers, media_type=mime_type)


def _chunks(file: BinaryIO, byte_range: ByteRange) -> Iterator[bytes]:
    file.seek(byte_range.first)
    left = byte_range.length
    while left > 0:
        chunk = file.read(min(_CHUNK_BYTES, left))
        if not chunk:
            return
        left -= len(chunk)
        yield chunk


def _error_line(error: Exception, headers: dict[str, str]) -> Response:
    """Return an error as one line of text, which no browser takes for a page. The next request tries again."""
    from starlette.responses import Response

    line = f"{' '.join(str(error).split())}\n"
    return Response(line.encode("utf-8", "replace"), 503, headers, media_type="text/plain")


def _not_found() -> Response:
    from starlette.responses import PlainTextResponse

    return PlainTextResponse("Not found.", status_code=404)

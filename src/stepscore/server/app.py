"""The web application: the page at ``/`` and its videos at ``/media/N``; everything else is 404.

It is bound to the loopback interface and answers only requests that name it so: a page from elsewhere cannot
reach it by a name of its own that leads here (DNS rebinding).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO

from stepscore.errors import MissingExtraError, OptionError
from stepscore.server.live_page import LivePage, Media
from stepscore.server.ranges import Span, UnsatisfiableError, parse_range

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

LOOPBACK = "127.0.0.1"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_OWN_NAME = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_CHUNK = 1 << 18
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def make_app(live: LivePage) -> FastAPI:
    """The application that gives out a live page."""
    try:
        from fastapi import FastAPI, Request, Response
        from starlette.exceptions import HTTPException
    except ImportError:
        raise MissingExtraError("stepscore view", "server") from None
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)

    def page() -> Response:
        headers = {"Content-Security-Policy": live.csp, "Cache-Control": "no-store"}
        return Response(live.page(), media_type="text/html", headers=headers)

    def media(number: str, request: Request) -> Response:
        found = live.media(int(number)) if _NUMBER.fullmatch(number) else None
        opened = _open(found) if found is not None else None
        if found is None or opened is None:
            return _nothing()
        header = request.headers.get("range") if request.method == "GET" else None
        return _file_response(opened, found.type, header, body=request.method == "GET")

    async def own_name_only(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        own = _OWN_NAME.fullmatch(request.headers.get("host", ""))
        response = await call(request) if own else _nothing()
        response.headers.update(_HEADERS)
        return response

    async def nothing(request: Request, error: Exception) -> Response:
        return _nothing()

    # Given as values: with postponed annotations FastAPI would look for these names in the module.
    page.__annotations__ = {}
    media.__annotations__ = {"number": str, "request": Request}
    app.add_api_route("/", page, methods=["GET", "HEAD"], response_model=None)
    app.add_api_route("/media/{number}", media, methods=["GET", "HEAD"], response_model=None)
    app.add_exception_handler(HTTPException, nothing)
    app.middleware("http")(own_name_only)
    return app


def serve(live: LivePage, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve until interrupted.

    Args:
        live: The page.
        port: Port on the loopback interface; 0 takes a free one.
        on_ready: Called with the page's address once the port is taken.
    """
    app = make_app(live)
    try:
        import uvicorn
    except ImportError:
        raise MissingExtraError("stepscore view", "server") from None
    with closing(_bind(port)) as listening:
        on_ready(f"http://{LOOPBACK}:{listening.getsockname()[1]}/")
        uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False)).run([listening])


def _bind(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":
        # Elsewhere the option would let two servers share the port.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise OptionError(
            f"Cannot use port {port} ({error}). Choose another, or any free one: --port 0"
        ) from None
    return listening


def _open(media: Media) -> BinaryIO | None:
    """The file, if it is still the one that the page was built with; a link put in its place is not."""
    try:
        file = media.path.open("rb")
    except OSError:
        return None
    found = os.fstat(file.fileno())
    if (found.st_dev, found.st_ino) != (media.device, media.inode):
        file.close()
        return None
    return file


def _file_response(file: BinaryIO, kind: str, header: str | None, *, body: bool) -> Response:
    """The file or the asked part of it: 200, 206, or 416 where the part is not in it."""
    from starlette.responses import Response, StreamingResponse

    size = os.fstat(file.fileno()).st_size
    headers = {"Accept-Ranges": "bytes", "Cache-Control": "no-cache"}
    try:
        asked = parse_range(header, size)
    except UnsatisfiableError:
        file.close()
        return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    span = asked or Span(0, size - 1)
    headers["Content-Length"] = str(span.length)
    if asked:
        headers["Content-Range"] = f"bytes {span.first}-{span.last}/{size}"
    if not body:
        file.close()
        return Response(headers=headers, media_type=kind)
    status = 206 if asked else 200
    return StreamingResponse(_parts(file, span), status_code=status, headers=headers, media_type=kind)


def _parts(file: BinaryIO, span: Span) -> Iterator[bytes]:
    with file:
        file.seek(span.first)
        left = span.length
        while left > 0:
            part = file.read(min(_CHUNK, left))
            if not part:
                return
            left -= len(part)
            yield part


def _nothing() -> Response:
    from starlette.responses import PlainTextResponse

    return PlainTextResponse("Not found.", status_code=404)

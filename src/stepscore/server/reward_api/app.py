"""The reward server's web application.

``POST /evaluate_batch_npy`` and ``/evaluate_batch``, ``GET /health`` and ``/model_info`` are Robometer's;
``POST /v1/chat/completions`` and ``GET /v1/models`` OpenAI's; ``/v1/sessions`` are live videos; ``GET /metrics`` is
for Prometheus. No response allows another origin, and requests that a browser sends for a web page are refused.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from stepscore.errors import StepScoreError
from stepscore.server.reward_api import chat, robometer
from stepscore.server.reward_api.limits import Limits, RefusedError
from stepscore.server.reward_api.live import LiveVideos
from stepscore.server.reward_api.multipart import read_form
from stepscore.server.reward_api.scorer import Scorer

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK = re.compile(
    r"(https?://)?(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE
)
_TICK_S = 5.0
_RETRY_S = "1"

Answer = Callable[["Request", bytes], Awaitable[Any]]


def make_reward_app(
    scorer: Scorer,
    *,
    token: str | None = None,
    loopback: bool = True,
    validation: Mapping[str, Any] | None = None,
    trend: float = chat.TREND,
) -> Starlette:
    """Return the application.

    Args:
        scorer: What it scores with; closed when the application stops.
        token: What every request but ``/health`` must bring; ``None`` for none.
        loopback: Whether it is bound to loopback: then only requests to its names are answered.
        validation: The judge's validation record, shown by ``/model_info``.
        trend: Change of progress from which ``/v1/chat/completions`` answers positive or negative.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.responses import JSONResponse, PlainTextResponse
    from starlette.routing import Route

    limits, live, counts = scorer.limits, LiveVideos(scorer, scorer.limits), Counts()

    def endpoint(answer: Answer, *, free: bool = False, status: int = 200) -> Any:
        """Return a handler: reads the body within the limits, and turns refusals into responses."""

        async def handle(request: Request) -> Response:
            path, started = str(request.scope["route"].path), time.perf_counter()
            try:
                if not free:
                    _check_token(request, token)
                    scorer.admission.check()
                with scorer.admission.memory(_stated_size(request, limits)):
                    body = await _body(request, limits)
                    content = await answer(request, body)
                response: Response = (
                    PlainTextResponse(content) if isinstance(content, str) else JSONResponse(content, status)
                )
            except RefusedError as error:
                response = refusal(error.status, error.message)
            except StepScoreError as error:
                response = refusal(422, str(error))
            counts.add(path, response.status_code, time.perf_counter() - started)
            return response

        return handle

    def refusal(status: int, message: str) -> Response:
        headers = {"Retry-After": _RETRY_S} if status in (429, 503) else {}
        if status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse({"error": {"message": message, "code": status}}, status, headers)

    async def evaluate(request: Request, body: bytes, *, npy: bool) -> dict[str, Any]:
        def read() -> robometer.Batch:
            if npy:
                form = read_form(request.headers.get("content-type", ""), body)
                return robometer.batch_of_form(form, limits, scorer.fps)
            return robometer.batch_of_json(robometer.parse(body, "The body"), limits, scorer.fps)

        batch = await asyncio.to_thread(read)
        videos = batch.videos
        scorer.admission.reserve(len(videos))
        tasks = [asyncio.create_task(scorer.score(video)) for video in videos]
        try:
            curves = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return robometer.response(batch, curves)

    async def evaluate_npy(request: Request, body: bytes) -> dict[str, Any]:
        return await evaluate(request, body, npy=True)

    async def evaluate_json(request: Request, body: bytes) -> dict[str, Any]:
        return await evaluate(request, body, npy=False)

    async def completions(request: Request, body: bytes) -> dict[str, Any]:
        def read() -> chat.Question:
            return chat.question_of(robometer.parse(body, "The body"), limits, scorer.fps)

        question = await asyncio.to_thread(read)
        scorer.admission.reserve(1)
        return chat.answer(question, await scorer.score(question.video), trend)

    async def models(request: Request, body: bytes) -> dict[str, Any]:
        return {
            "object": "list",
            "data": [{"id": _model_name(scorer), "object": "model", "owned_by": "stepscore"}],
        }

    async def health(request: Request, body: bytes) -> dict[str, Any]:
        admission = scorer.admission
        free = 0 if admission.stopping else max(0, limits.at_once - admission.scoring)
        status = "stopping" if admission.stopping else "healthy"
        return {"status": status, "available_gpus": free, "total_gpus": limits.at_once}

    async def model_info(request: Request, body: bytes) -> dict[str, Any]:
        record = dict(validation) if validation is not None else None
        return {
            "model_path": _model_name(scorer),
            "experiment_config": dict(scorer.protocol.content),
            "protocol_hash": scorer.protocol.hash,
            "calibrated": scorer.is_calibrated,
            "fps": scorer.fps,
            "size": getattr(scorer.judge, "size", None),
            "unknown": "null, or the request's fill",
            "validation": record,
            "validation_holds": record is not None and record.get("protocol_hash") == scorer.protocol.hash,
        }

    async def metrics(request: Request, body: bytes) -> str:
        return counts.text(scorer, len(live))

    async def open_session(request: Request, body: bytes) -> dict[str, Any]:
        return await live.open(robometer.parse(body, "The body"))

    async def add_frames(request: Request, body: bytes) -> dict[str, Any]:
        form = read_form(request.headers.get("content-type", ""), body)
        scorer.admission.reserve(1)
        return await live.add(request.path_params["session"], form)

    async def session_points(request: Request, body: bytes) -> dict[str, Any]:
        return await live.points(request.path_params["session"])

    async def close_session(request: Request, body: bytes) -> dict[str, Any]:
        return await live.close(request.path_params["session"])

    async def other_error(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        text = {404: "There is nothing here.", 405: "This method is not allowed here."}.get(
            status, "Internal error."
        )
        return refusal(status, text)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async def tidy() -> None:
            while True:
                await asyncio.sleep(_TICK_S)
                await live.close_idle()

        task = asyncio.create_task(tidy())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await live.close_all()
            scorer.close()

    app = Starlette(
        routes=[
            Route("/evaluate_batch_npy", endpoint(evaluate_npy), methods=["POST"]),
            Route("/evaluate_batch", endpoint(evaluate_json), methods=["POST"]),
            Route("/health", endpoint(health, free=True)),
            Route("/model_info", endpoint(model_info)),
            Route("/metrics", endpoint(metrics)),
            Route("/v1/models", endpoint(models)),
            Route("/v1/chat/completions", endpoint(completions), methods=["POST"]),
            Route("/v1/sessions", endpoint(open_session, status=201), methods=["POST"]),
            Route("/v1/sessions/{session}/frames", endpoint(add_frames), methods=["POST"]),
            Route("/v1/sessions/{session}", endpoint(session_points)),
            Route("/v1/sessions/{session}", endpoint(close_session), methods=["DELETE"]),
        ],
        exception_handlers={HTTPException: other_error, Exception: other_error},
        middleware=[Middleware(_NoWebPages, loopback=loopback)],
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


class Counts:
    """Requests by path and status, and their time."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a response."""
        self._requests[path, status] += 1
        self._seconds[path] += seconds  # type: ignore[assignment]

    def text(self, scorer: Scorer, sessions: int) -> str:
        """Return all figures in Prometheus' form."""
        lines = ["# TYPE stepscore_requests_total counter"]
        lines += [
            f'stepscore_requests_total{{path="{path}",status="{status}"}} {n}'
            for (path, status), n in sorted(self._requests.items())
        ]
        lines.append("# TYPE stepscore_request_seconds_total counter")
        lines += [
            f'stepscore_request_seconds_total{{path="{path}"}} {seconds:.6f}'
            for path, seconds in sorted(self._seconds.items())
        ]
        admission = scorer.admission
        figures = {
            "stepscore_frames_scored_total": ("counter", scorer.scored["frames"]),
            "stepscore_frames_unknown_total": ("counter", scorer.scored["unknown"]),
            "stepscore_videos_waiting": ("gauge", admission.waiting),
            "stepscore_videos_scoring": ("gauge", admission.scoring),
            "stepscore_request_bytes": ("gauge", admission.held_bytes),
            "stepscore_sessions": ("gauge", sessions),
        }
        for name, (kind, value) in figures.items():
            lines += [f"# TYPE {name} {kind}", f"{name} {value}"]
        return "\n".join([*lines, ""])


class _NoWebPages:
    """Refuses requests that a browser sends for a web page, and on loopback those to another host's name.

    A page of another site could otherwise have this machine score videos, or reach it by a name that resolves to it.
    """

    def __init__(self, app: ASGIApp, *, loopback: bool) -> None:
        self._app, self._loopback = app, loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
            origin, host = headers.get(b"origin"), headers.get(b"host", "")
            if (origin is not None and not _LOOPBACK.fullmatch(origin)) or (
                self._loopback and not _LOOPBACK.fullmatch(host)
            ):
                from starlette.responses import JSONResponse

                message = "Requests of web pages, and to other host names, are not answered."
                await JSONResponse({"error": {"message": message, "code": 403}}, 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _check_token(request: Request, token: str | None) -> None:
    if token is None:
        return
    given = request.headers.get("authorization", "")
    if not hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {token}".encode()):
        raise RefusedError(401, "Send the server's token: Authorization: Bearer TOKEN")


def _stated_size(request: Request, limits: Limits) -> int:
    stated = request.headers.get("content-length", "0")
    size = int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 16 else limits.body_bytes
    if size > limits.body_bytes:
        raise RefusedError(413, f"The request has {size} bytes; at most {limits.body_bytes} are taken.")
    # Without a stated size it may be as large as is taken.
    return limits.body_bytes if "transfer-encoding" in request.headers else size


async def _body(request: Request, limits: Limits) -> bytes:
    """Return the body, of which no more than the limit is read."""
    from starlette.requests import ClientDisconnect

    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.read_s):
            async for part in request.stream():
                size += len(part)
                if size > limits.body_bytes:
                    raise RefusedError(413, f"The request has more than {limits.body_bytes} bytes.")
                parts.append(part)
    except TimeoutError:
        raise RefusedError(408, f"The request did not arrive within {limits.read_s:g} s.") from None
    except ClientDisconnect:
        raise RefusedError(400, "The client hung up.") from None
    return b"".join(parts)


def _model_name(scorer: Scorer) -> str:
    models = scorer.judge.models
    return models[0].name if models else scorer.judge.name

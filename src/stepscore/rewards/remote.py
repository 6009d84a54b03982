"""``RemoteJudge``: the judge of a reward server, as a judge of growing videos."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from stepscore.episodes import Clip, fit_size, resize_frames
from stepscore.errors import ModelError, OptionError, UnavailableError
from stepscore.types import Curve, Frames

TRIES = 8
"""Times that a request is sent to a server that is busy."""


class RemoteJudge:
    """A judge behind ``stepscore serve``; use it like the judge itself.

    Args:
        url: The server, such as ``http://127.0.0.1:8000``.
        token: Its token, or a file that holds it; ``None`` for a server without one.
        timeout_s: Seconds to wait for an answer.
    """

    def __init__(self, url: str, token: str | Path | None = None, timeout_s: float = 120.0) -> None:
        import httpx2

        if not url.startswith(("http://", "https://")):
            raise OptionError(f"url must begin with http:// or https://, got {url!r}.")
        text = token.read_text("utf-8").strip() if isinstance(token, Path) else token
        headers = {} if text is None else {"Authorization": f"Bearer {text}"}
        self.url, self._errors = url.rstrip("/"), httpx2.HTTPError
        self._http = httpx2.Client(headers=headers, timeout=timeout_s, trust_env=False)
        self._info: dict[str, Any] | None = None

    @property
    def info(self) -> Mapping[str, Any]:
        """What the server says of its judge: protocol, calibration, validation."""
        if self._info is None:
            self._info = self.send("GET", "/model_info")
        return self._info

    @property
    def fps(self) -> float:
        """Frames per second of the videos it is shown."""
        return float(self.info["fps"])

    def open(
        self,
        instruction: str,
        views: Sequence[str] = ("main",),
        task: str | None = None,
        *,
        odd: str = "wait",
    ) -> RemoteSession:
        """Open a session; see :meth:`stepscore.judges.TopReward.open`."""
        content = {"instruction": instruction, "views": list(views), "task": task, "odd": odd}
        return RemoteSession(self, self.send("POST", "/v1/sessions", json=content))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        """Return the answer to a request. A server that is busy is asked again, after a while.

        Raises:
            UnavailableError: The server cannot be reached, or stays busy.
            ModelError: It refused the request.
        """
        for number in range(TRIES):
            try:
                response = self._http.request(method, self.url + path, **content)
            except self._errors as error:
                raise UnavailableError(f"{self.url}: {error or type(error).__name__}.") from error
            if response.status_code not in (429, 503):
                break
            time.sleep(min(0.05 * 2**number, 2.0))
        try:
            answer: dict[str, Any] = response.json()
        except ValueError:
            answer = {"error": {"message": response.text[:200]}}
        if response.status_code >= 400:
            why = str(answer.get("error", {}).get("message", response.status_code))
            kind = UnavailableError if response.status_code in (429, 503) else ModelError
            raise kind(f"{self.url}{path}: {why}")
        return answer


class RemoteSession:
    """A growing video on a server. Frames are sent at the size that its judge looks at.

    Args:
        judge: The server.
        opened: Its answer to the request that opened the session.
    """

    def __init__(self, judge: RemoteJudge, opened: Mapping[str, Any]) -> None:
        self._judge, self._path = judge, f"/v1/sessions/{opened['session']}"
        self._views, self._size = list(opened["views"]), opened["size"]
        self._is_open = True
        self.shown = 0

    def add(self, frames: Frames | Clip | Mapping[str, Frames | Clip]) -> Curve:
        """Return the points that these frames make; see ``TopRewardSession.add``."""
        given = frames if isinstance(frames, Mapping) else {self._views[0]: frames}
        files, fields = {}, {}
        for view, each in given.items():
            array = each.frames if isinstance(each, Clip) else np.asarray(each)
            files[view] = (f"{view}.npy", self._npy(array), "application/octet-stream")
            if isinstance(each, Clip):
                fields["timestamps"] = json.dumps(each.timestamps.tolist())
        return self._points(self._judge.send("POST", f"{self._path}/frames", files=files, data=fields))

    def finish(self) -> Curve:
        """Return the point of the last frame, where it has none yet, and end the session."""
        if not self._is_open:
            return Curve(np.zeros(0), np.zeros(0))
        self._is_open = False
        return self._points(self._judge.send("DELETE", self._path))

    @property
    def curve(self) -> Curve:
        """All points so far."""
        return self._points(self._judge.send("GET", self._path))

    def close(self) -> None:
        """End the session, where it is open."""
        self.finish()

    def __enter__(self) -> RemoteSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _npy(self, array: Frames) -> bytes:
        frames = array[None] if array.ndim == 3 else array
        if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8:
            raise OptionError(
                f"A frame must be an array (height, width, 3) of uint8, got {array.shape} {array.dtype}."
            )
        height, width = frames.shape[1:3]
        file = io.BytesIO()
        fitted = resize_frames(frames, fit_size(width, height, self._size)[::-1])
        np.save(file, np.ascontiguousarray(fitted), allow_pickle=False)
        return file.getvalue()

    def _points(self, content: Mapping[str, Any]) -> Curve:
        self.shown = int(content["shown"])
        channels = {name: _known(values) for name, values in content["channels"].items()}
        return Curve(
            np.array(content["time_s"]), _known(content["progress"]), channels, content["calibrated"]
        )


def _known(values: Sequence[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

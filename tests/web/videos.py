"""LeRobot datasets in which every frame shows its own number, and how to read it off the screen."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

import stepscore
from stepscore.episodes import open_episodes
from stepscore.episodes.lerobot.writing.writer import Recording, write_lerobot
from stepscore.judges import get_judge
from tests.media import BITS, number_of, numbered
from tests.web.conftest import elsewhere

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

EPISODES, FRAMES, FPS = 6, 40, 20.0
CAMERAS = ("observation.images.top", "observation.images.wrist")

# The middle of each block of the frame, as tests.media.number_of reads it.
_READ = """(video, bits) => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  const pen = canvas.getContext("2d");
  pen.drawImage(video, 0, 0);
  let number = 0;
  for (let bit = 0; bit < bits; bit += 1) {
    const x = Math.floor((bit + 0.5) * canvas.width / bits);
    const [r, g, b] = pen.getImageData(x, Math.floor(canvas.height / 4), 1, 1).data;
    if ((r + g + b) / 3 > 128) number += 2 ** bit;
  }
  return number;
}"""


def write_numbered_run(folder: Path, codec: str) -> Path:
    """Write a run over episodes that share one file per camera; frame i of episode e shows e * FRAMES + i."""
    recordings = [
        Recording(
            task="count",
            frames=[
                dict.fromkeys(CAMERAS, numbered(e * FRAMES + i)) | {"action": np.zeros(2)}
                for i in range(FRAMES)
            ],
        )
        for e in range(EPISODES)
    ]
    write_lerobot(folder / "dataset", recordings, fps=FPS, codec=codec)  # type: ignore[arg-type]
    assert len(list((folder / "dataset" / "videos").rglob("*.mp4"))) == len(CAMERAS)
    stepscore.score(open_episodes(folder / "dataset"), get_judge("linear-time"), out=folder / "run")
    return folder / "run"


def shown_number(video: Locator) -> int:
    """The number in the frame on screen, read from its pixels."""
    return int(video.evaluate(_READ, BITS))


def photographed_number(video: Locator) -> int:
    """The same from a screenshot, for pages whose pixels a script may not read."""
    width, height = video.evaluate("video => [video.videoWidth, video.videoHeight]")
    image = Image.open(io.BytesIO(video.screenshot())).convert("RGB")
    scale = min(image.width / width, image.height / height)
    left, top = (image.width - width * scale) / 2, (image.height - height * scale) / 2
    return number_of(
        np.asarray(
            image.crop((left, top, left + width * scale, top + height * scale)).resize((width, height))
        )
    )


def wait_for_frame(page: Page, frame: int) -> None:
    """Wait until every video has put this frame on screen."""
    page.wait_for_function(
        """frame => [...document.querySelectorAll("video")].every(
             (video) => !video.seeking && video.readyState >= 2 && video.dataset.frame === String(frame))""",
        arg=frame,
    )


@contextmanager
def served(run: Path) -> Iterator[str]:
    """The address of the live page of a run."""
    import uvicorn

    from stepscore.server import LivePage, make_app

    live = LivePage([run])
    elsewhere(live.page)  # measured before anyone waits for it
    server = uvicorn.Server(uvicorn.Config(make_app(live), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.02)
        assert thread.is_alive(), "the server ended"
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)

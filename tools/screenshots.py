"""Screenshots of every view of the page, for docs/images/report: ``python -m tools.screenshots [DEMO [AUDIT]]``.

Each view at desktop and phone width, light and dark, as WebP. DEMO is a folder that ``stepscore demo -o DEMO`` wrote;
without it, the demo is run first (half a minute). AUDIT is the folder of an audit (the docs show topreward's of
``python -m benchmarks.audit.judges WORK``); without it, no audit is shown. The board of judges is the measured
one. Needs Chromium and Playwright (``.[dev]``).
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images" / "report"
VIEWS = {
    "overview": "overview",
    "leaderboard": "leaderboard",
    "subgoals": "subgoals",
    "process": "process",
    "explorer": "explorer",
    # The same scene under two policies, at the time at which one of them undoes its work.
    "side-by-side": "explorer/topreward/episode_000011/116?with=episode_000009",
}
OTHER_PAGES = ("audit", "judges")
SIZES = {"desktop": (1360, 860), "phone": (390, 844)}
COLOURS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
TALLEST = 1800
"""Pixels of a page that are kept, from its top."""
QUALITY = 82

_ON_SCREEN = """() => {
  const videos = [...document.querySelectorAll("video")];
  return videos.length > 0 && videos.every((video) => video.readyState >= 2 && video.dataset.frame !== undefined);
}"""


def main() -> None:
    """Write them all; a view that is not drawn stops with an error."""
    if len(sys.argv) > 3:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(sys.argv[1]) if len(sys.argv) > 1 else _demo(Path(folder) / "demo")
        report = (demo / "report" / "index.html").resolve().as_uri()
        addresses = {name: f"{report}#/{view}" for name, view in VIEWS.items()}
        if len(sys.argv) > 2:
            addresses["audit"] = _audit(Path(sys.argv[2]), Path(folder)).as_uri()
        addresses["judges"] = _board(Path(folder)).as_uri()
        _take_all(addresses)


def _demo(folder: Path) -> Path:
    _run("demo", "-o", str(folder))
    return folder


def _audit(audit: Path, folder: Path) -> Path:
    """Write the page of an audit, whose recordings are named only by their folder."""
    copy = shutil.copytree(audit, folder / "audited")
    content = json.loads((copy / "audit.json").read_text(encoding="utf-8"))
    content["source"] = Path(content["source"]).name
    (copy / "audit.json").write_text(json.dumps(content), encoding="utf-8")
    _run("report", str(copy), "-o", str(folder / "audit"))
    return folder / "audit" / "index.html"


def _board(folder: Path) -> Path:
    (folder / "board").mkdir()
    shutil.copy(ROOT / "benchmarks" / "board" / "board.json", folder / "board")
    _run("report", str(folder / "board"), "-o", str(folder / "judges"))
    return folder / "judges" / "index.html"


def _run(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "stepscore", *words], check=True, stdout=sys.stderr)


def _take_all(addresses: Mapping[str, str]) -> None:
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(parents=True, exist_ok=True)
    written = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for size, (width, height) in SIZES.items():
            for colours in COLOURS:
                page = _open(browser, width, height, colours)
                for name, address in addresses.items():
                    target = IMAGES / f"{name}-{size}-{colours}.webp"
                    target.write_bytes(_taken(page, address, whole=_is_whole(name, size)))
                    written += target.stat().st_size
        browser.close()
    print(f"{len(addresses) * len(SIZES) * len(COLOURS)} screenshots in {IMAGES}, {written / 1e6:.1f} MB")


def _open(browser: Browser, width: int, height: int, colours: Literal["light", "dark"]) -> Page:
    return browser.new_context(viewport={"width": width, "height": height}, color_scheme=colours).new_page()


def _is_whole(name: str, size: str) -> bool:
    """Return whether to show more than one screen: the explorer on a desktop scrolls its parts separately."""
    return size == "phone" or name not in ("explorer", "side-by-side")


def _taken(page: Page, address: str, *, whole: bool) -> bytes:
    page.goto("about:blank")  # an address that differs only after its # would not be loaded again
    page.goto(address)
    page.wait_for_selector("body[data-ready] main h1")
    if "explorer" in address:
        page.wait_for_function(_ON_SCREEN)
    image = Image.open(io.BytesIO(page.screenshot(full_page=whole))).convert("RGB")
    image = image.crop((0, 0, image.width, min(image.height, TALLEST)))
    file = io.BytesIO()
    image.save(file, "WEBP", quality=QUALITY, method=6)
    return file.getvalue()


if __name__ == "__main__":
    main()

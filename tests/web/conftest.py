"""A browser, and pages to open in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import pytest

from tests.paths import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WEB = ROOT / "web"

Result = TypeVar("Result")
PATIENCE = 60_000  # milliseconds; machines that run tests are busy
# Of WCAG 2.2 to level AA; what is in closed details is part of the page, too.
AXE = """async () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const { violations } = await axe.run(document, { runOnly: tags, resultTypes: ["violations"] });
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(
    ({ id, nodes }) => [id, nodes.slice(0, 3).map(({ html, failureSummary }) => `${html} ${failureSummary}`)]);
}"""


def elsewhere(make: Callable[..., Result], *arguments: object) -> Result:
    """Call in a thread of its own: Playwright keeps an event loop in this one, and judging starts another."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(make, *arguments).result()


def absent(what: str) -> NoReturn:
    """Skip loudly on a person's machine; fail where everything is supposed to be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is required")
    pytest.skip(f"NO {what.upper()}: the page was not tried in a browser")


@pytest.fixture(scope="session")
def npm() -> str:
    """The command npm, with the packages of web/package.json installed in web/node_modules."""
    command = shutil.which("npm")
    if command is None:
        absent("node")
    needed = json.loads((WEB / "package.json").read_text(encoding="utf-8"))
    modules = [WEB / "node_modules" / name for name in needed["dependencies"] | needed["devDependencies"]]
    if not all(module.is_dir() for module in modules):
        installed = subprocess.run(
            [command, "install", "--no-save"], cwd=WEB, capture_output=True, text=True, check=False
        )
        if installed.returncode:
            absent(f"node_modules (npm install failed: {installed.stderr[-300:]})")
    return command


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        absent("playwright")
    expect.set_options(timeout=PATIENCE)
    if chromium is None:
        absent("chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@dataclass
class Watched:
    """A page with what went wrong on it and whom it called."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def goto(self, address: str) -> Page:
        """Open an address and wait until the view is drawn."""
        self.page.goto(address)
        self.page.wait_for_selector("body[data-ready]", timeout=PATIENCE)
        return self.page

    def hosts(self) -> set[str]:
        """Names of the machines that were asked for something."""
        return {urlsplit(address).hostname or "" for address in self.requests} - {""}


@pytest.fixture
def watched(browser: Browser) -> Iterator[Callable[..., Watched]]:
    contexts = []

    def make(**options: Any) -> Watched:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        seen = Watched(context.new_page())
        seen.page.on(
            "console", lambda message: seen.errors.append(message.text) if message.type == "error" else None
        )
        seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        return seen

    yield make
    for context in contexts:
        context.close()


@dataclass(frozen=True)
class Report:
    """A written page and the runs it shows."""

    page: Path
    runs: tuple[Path, ...]

    @property
    def address(self) -> str:
        return self.page.as_uri()


@pytest.fixture(scope="session")
def showcase(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Three policies on three tasks, under two judges that look and one that does not."""
    from stepscore.report import write_report
    from stepscore.runs import open_run
    from tests.web.showcase import write_runs

    def make() -> Report:
        folder = tmp_path_factory.mktemp("showcase")
        runs = tuple(write_runs(folder, scenes=2))
        return Report(write_report([open_run(run) for run in runs], folder / "page"), runs)

    return elsewhere(make)


@pytest.fixture(scope="session")
def arm_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over a LeRobot dataset that records state and action."""
    from tests.web.arm import write_run

    return elsewhere(write_run, tmp_path_factory.mktemp("arm"))


@pytest.fixture(scope="session")
def axe(npm: str) -> str:
    """axe-core as one script."""
    return (WEB / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def faults(page: Page, axe: str) -> Any:
    # As an evaluated script: the page's own policy allows no script element.
    page.evaluate(f"() => {{ if (!window.axe) {{ {axe} }} }}")
    return page.evaluate(AXE)

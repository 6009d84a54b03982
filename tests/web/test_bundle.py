"""The committed page is what its sources build, and it needs nothing but itself."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.web.conftest import WEB

BUILT = ROOT / "src" / "stepscore" / "report" / "page" / "assets" / "page.html"


@pytest.fixture(scope="module")
def text() -> str:
    return BUILT.read_text(encoding="utf-8")


def test_a_new_build_gives_the_same_bytes(npm: str, tmp_path: Path) -> None:
    command = [npm, "run", "build", "--", "--outDir", str(tmp_path)]
    built = subprocess.run(command, cwd=WEB, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / "page.html").read_bytes() == BUILT.read_bytes(), "run: cd web && npm run build"


def test_the_page_is_one_classic_script_with_one_place_for_data(text: str) -> None:
    assert text.count("__STEPSCORE_DATA__") == 1
    assert re.findall(r"<script[^>]*>", text) == [
        '<script type="application/json" id="stepscore-data">',
        "<script>",
    ]
    assert not re.search(r"""(src|href)=["']?(https?:|//)""", text)
    assert not re.search(r"@import|url\((?!data:)", text)
    assert len(text) < 250_000


def test_no_markup_is_ever_parsed_from_data() -> None:
    for source in sorted((WEB / "src").rglob("*.ts")):
        words = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval\(", source.read_text()
        )
        assert words == [], source.name


def test_packages_are_pinned_and_the_lock_names_no_host() -> None:
    package = json.loads((WEB / "package.json").read_text())
    pins = {**package["dependencies"], **package["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in pins.values())
    lock = json.loads((WEB / "package-lock.json").read_text())
    assert not [name for name, entry in lock["packages"].items() if "resolved" in entry]
    assert all("integrity" in entry for name, entry in lock["packages"].items() if name)

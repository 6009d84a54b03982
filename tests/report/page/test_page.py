"""The page holds its data as text that nothing can break out of."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stepscore.analysis import EpisodeMetrics
from stepscore.cli.app import app
from stepscore.errors import RunError
from stepscore.report import page_text, write_report
from stepscore.report.page import data as data_module
from stepscore.report.page.html import PLACEHOLDER, data_text, page_template
from stepscore.runs import Run
from stepscore.types import Estimate
from tests.report.made_runs import write_run

TEMPLATE = (
    "<!doctype html><title>t</title>"
    f'<script type="application/json" id="stepscore-data">{PLACEHOLDER}</script><script>"code"</script>'
)
HOSTILE = {
    "closing": "</script><script>alert(1)</script>",
    "comment": "<!-- <script> ]]> </SCRIPT\t>",
    "quotes": '"\'`\\" ${x} {{y}} \\u003c',
    "markup": "<img src=x onerror=alert(1)>&lt;&amp;",
    "long": "a" * 10_000,
    "right to left": "\u202eاضغط הכפתור\u2066\u200f",
    "separators": "a\u2028b\u2029c\x00\x1f\ufeff",
    "placeholder": PLACEHOLDER,
    "emoji": "🤖 " * 50,
}


class Scripts(HTMLParser):
    """The script elements of a page, as a browser would cut them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[dict[str, str | None], str]] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script"
        if self._inside:
            self.found.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found[-1] = (self.found[-1][0], self.found[-1][1] + data)


def scripts(page: str) -> list[tuple[dict[str, str | None], str]]:
    parser = Scripts()
    parser.feed(page)
    parser.close()
    return parser.found


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_text_breaks_out_of_its_element(text: str) -> None:
    data = {"instruction": text, text: [text]}
    found = scripts(page_text(data, TEMPLATE))
    assert len(found) == 2
    assert json.loads(found[0][1]) == data
    assert found[1][1] == '"code"'


def test_the_data_holds_no_character_that_markup_is_made_of() -> None:
    text = data_text(HOSTILE)
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == HOSTILE


def test_a_hostile_instruction_arrives_whole(tmp_path: Path) -> None:
    texts = list(HOSTILE.values())

    def rename(number: int, record: dict[str, Any]) -> None:
        record["episode"] |= {"instruction": texts[number], "task": texts[number], "policy": texts[number]}
        record["id"] = f"{number} {texts[number]}"

    run = write_run(tmp_path / "run", len(texts), steps=3, change=rename)
    page = write_report([run], tmp_path / "report", template=TEMPLATE)
    found = scripts(page.read_text(encoding="utf-8"))
    assert len(found) == 2
    episodes = json.loads(found[0][1])["episodes"]
    codes = episodes["instruction"]["codes"]
    assert sorted(episodes["instruction"]["values"][code] for code in codes) == sorted(texts)
    assert sorted(episodes["id"]) == sorted(f"{n} {text}" for n, text in enumerate(texts))


def test_nan_never_reaches_the_page() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        data_text({"value": float("nan")})


@pytest.mark.parametrize("times", [0, 2])
def test_a_template_without_one_place_for_the_data_is_refused(times: int) -> None:
    with pytest.raises(RunError, match=f"holds {PLACEHOLDER} {times} times"):
        page_text({}, PLACEHOLDER * times)


def test_the_built_page_is_one_file_that_asks_nobody() -> None:
    template = page_template()
    assert template.count(PLACEHOLDER) == 1
    kinds = [attributes for attributes, _ in scripts(template)]
    assert kinds == [{"type": "application/json", "id": "stepscore-data"}, {}]
    assert "src=" not in template.split("<script>")[0]


def test_a_page_written_before_is_replaced_and_no_other(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", 3, steps=3, tasks=1, policies=1)
    write_report([run], tmp_path / "out", videos=False, template=TEMPLATE)
    page = tmp_path / "out" / "index.html"
    assert write_report([run], tmp_path / "out", videos=False, template=TEMPLATE) == page
    page.write_text("<h1>My home page</h1>")
    with pytest.raises(RunError, match="not written by StepScore"):
        write_report([run], tmp_path / "out", videos=False, template=TEMPLATE)
    assert page.read_text() == "<h1>My home page</h1>"
    assert [path.name for path in page.parent.iterdir()] == ["index.html"]


def test_the_command_writes_a_page_without_videos_under_a_megabyte(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", 50, channels=("raw",))
    shown = CliRunner().invoke(app, ["report", str(run.path), "-o", str(tmp_path / "out"), "--no-videos"])
    assert shown.exit_code == 0, shown.output
    page = Path(shown.stdout.strip())
    assert page == tmp_path / "out" / "index.html"
    assert page.stat().st_size < 1_000_000
    assert json.loads(scripts(page.read_text(encoding="utf-8"))[0][1])["videos"]["episode"] == []


def test_copying_no_videos_is_a_contradiction(tiny_run: Run, tmp_path: Path) -> None:
    asked = ["report", str(tiny_run.path), "-o", str(tmp_path), "--copy-videos", "--no-videos"]
    shown = CliRunner().invoke(app, asked)
    assert "cannot be combined" in str(shown.exception)


@pytest.mark.slow
def test_ten_thousand_episodes_stay_under_fifteen_megabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Intervals of 10,000 episodes take a minute and no bytes; any number stands for them here.
    def quick(self: EpisodeMetrics, name: str, chosen: Any, group: Any = None) -> Estimate:
        return Estimate(1 / 3, 1 / 7, 6 / 7, len(chosen), len(chosen), 1.0, f"BCa bootstrap 95% of {name}")

    monkeypatch.setattr(EpisodeMetrics, "estimate", quick)
    monkeypatch.setattr(data_module, "agreement_rows", lambda *_: [])
    run = write_run(tmp_path / "run", 10_000, steps=100, tasks=30, policies=9)
    size = len(data_text(data_module.page_data([run])).encode())
    assert size < 15_000_000

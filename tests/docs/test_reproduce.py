"""The page on reproducing the papers: every row has a command, judges fit their models, figures are the code's.

The commands themselves are run with stand-ins by ``tests/cli/test_shown_commands.py``, as those of every page.
"""

from __future__ import annotations

import re

from stepscore.audit.board.board_metrics import PUBLISHED as ROBOVALUE
from stepscore.audit.board.topreward import PUBLISHED
from stepscore.judges.published.profiles.catalog import find_checkpoint
from tests.docs.shown_commands import shown_commands
from tests.paths import ROOT
from tools.docs.markdown import anchors

PAGE = "docs/reference/reproduce-on-a-gpu.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


def test_every_figure_has_a_tolerance_and_hours_and_links_to_a_section_with_a_command() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| \[\d\]\(#([^)]+)\) \|$", TEXT, re.MULTILINE
    )
    assert len(rows) > 10
    sections = {section for *_, section in rows}
    assert sections <= anchors(TEXT)
    for section in re.findall(r"^## (\d .*?)$(.*?)(?=^## )", TEXT, re.MULTILINE | re.DOTALL):
        assert "\nstepscore " in section[1], section[0]
    assert all(cell.strip() for row in rows for cell in row)


def test_a_published_checkpoint_is_asked_by_its_own_judge() -> None:
    asked = []
    for command in (shown.words for shown in shown_commands() if shown.page == PAGE):
        if "--judge" not in command or "--model" not in command:
            continue
        found = find_checkpoint(command[command.index("--model") + 1])
        if found is not None:
            asked.append(found[0].name)
            assert command[command.index("--judge") + 1] == found[0].name
    assert set(asked) == {"grm", "robometer"}


def test_topreward_figures_are_those_that_the_preset_prints() -> None:
    ours = {number for text in PUBLISHED.values() for number in re.findall(r"-?\d\.\d{3}", text)}
    gemini = {"0.433", "0.541", "0.826"}  # hosted models, which the page leaves out
    table = TEXT.partition("## 1.")[0]
    rows = "\n".join(line for line in table.splitlines() if line.startswith(("| TOPReward", "| GVL")))
    assert set(re.findall(r"-?\d\.\d{3}", rows)) == ours - gemini


def test_what_the_page_calls_private_is_what_bench_prints_as_published() -> None:
    assert "`stepscore bench -T published=true` prints it" in TEXT
    assert all(one.source.startswith("RoboValue") for one in ROBOVALUE)

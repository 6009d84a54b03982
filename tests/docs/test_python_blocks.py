"""Every Python block that the docs show runs as it is shown."""

from __future__ import annotations

import doctest
import importlib
import re
import textwrap
from pathlib import Path

import pytest

import stepscore
from stepscore.testing import write_toy_rollouts
from tests.docs.python_blocks import (
    DOCTEST,
    ELSEWHERE,
    GIVEN,
    PYTHON,
    STAND_INS,
    blocks_of,
    make_stand_ins,
    shown_blocks,
)
from tests.paths import ROOT

BLOCKS = shown_blocks()
SHOWN = list(dict.fromkeys((block.page, block.language) for block in BLOCKS))
HERE = [page for page, language in SHOWN if language == PYTHON and (page, PYTHON) not in ELSEWHERE]
SOURCES = ROOT / "src"
WITH_EXAMPLES = [path for path in sorted(SOURCES.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]


def code_of(page: str) -> str:
    return "\n".join(block.text for block in BLOCKS if block.page == page and block.language == PYTHON)


@pytest.mark.parametrize("page", HERE)
def test_the_python_blocks_of_a_page_run_in_order(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = code_of(page)
    if "stepscore.sim" in code:
        pytest.importorskip("metaworld", reason="SIMULATOR ABSENT: the block on it was not run")
    monkeypatch.chdir(tmp_path)
    make_stand_ins(code, tmp_path)
    names = {"__name__": "__main__"} | (GIVEN[page]() if page in GIVEN else {})
    for block in (block for block in BLOCKS if block.page == page and block.language == PYTHON):
        block.run(names)


def test_the_docs_show_many_blocks_and_each_is_run() -> None:
    assert sum(block.language == PYTHON for block in BLOCKS) > 20
    assert len(HERE) > 12
    shown = [block for block in BLOCKS if re.match("i?py", block.language.lower())]
    assert {block.language for block in shown} == {PYTHON, DOCTEST}, "no test runs a block of another name"
    sessions = {(page, language) for page, language in SHOWN if language == DOCTEST}
    assert sessions <= set(ELSEWHERE), "a page with a session has a test that runs doctest.testfile on it"


def test_what_is_run_elsewhere_is_shown_and_its_test_names_it() -> None:
    for (page, language), tests in ELSEWHERE.items():
        assert (page, language) in SHOWN
        assert page.removeprefix("docs/") in (ROOT / tests).read_text(encoding="utf-8")


def test_every_stand_in_is_used() -> None:
    code = "\n".join(code_of(page) for page in HERE)
    assert not [name for name in STAND_INS if f'"{name}"' not in code]
    assert set(GIVEN) <= set(HERE)
    for page, make in GIVEN.items():
        assert not [name for name in make() if not re.search(rf"\b{name}\b", code_of(page))]


def test_a_block_that_does_not_run_is_found_with_its_line() -> None:
    text = (
        "# Title\n\n1. In a list:\n\n   ```python\n   a = 1\n   ```\n\n```python\nb = a + 1\nmissing\n```\n"
    )
    first, second = blocks_of("docs/page.md", text)
    assert (first.line, first.text, second.line) == (6, "a = 1\n", 10)
    names: dict[str, object] = {}
    first.run(names)
    with pytest.raises(NameError, match="missing") as failed:
        second.run(names)
    assert names["b"] == 2
    assert failed.traceback[-1].lineno + 1 == 11


@pytest.mark.parametrize("source", WITH_EXAMPLES, ids=lambda path: path.relative_to(SOURCES).as_posix())
def test_the_examples_of_docstrings_print_what_they_show(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if 'open_run("runs/x")' in source.read_text(encoding="utf-8"):
        episodes = stepscore.open_episodes(write_toy_rollouts(tmp_path / "rollouts", scenes=1))
        stepscore.score(episodes, stepscore.get_judge("linear-time"), out=tmp_path / "runs" / "x")
    name = ".".join(source.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.filterwarnings("ignore:embedded. this video does not show")
def test_the_lines_that_open_the_reference_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_toy_rollouts(tmp_path / "rollouts", scenes=1)
    shown = re.search(r"::\n\n(.*?)\n\n(?=\S)", stepscore.__doc__ or "", re.DOTALL)
    assert shown is not None
    exec(textwrap.dedent(shown[1]), {"stepscore": stepscore})
    assert (tmp_path / "report" / "index.html").is_file()

"""The site is whole: every page is in the navigation, every link leads somewhere, the references are complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from stepscore.cli.app import app
from stepscore.cli.options.groups import key_groups
from tests.paths import DOCS, ROOT
from tests.test_house import PACKAGES, face_of
from tools.docs import commands, llms, markdown, nav, python_pages, stage
from tools.docs.built import check_site, missing_anchors
from tools.docs.links import check_links
from tools.docs.paths import source_pages


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [entry.page for entry in nav.entries()]
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    checked = check_links([*source_pages(), *ROOT.glob("*.md"), *(ROOT / "examples").rglob("*.md")])
    assert checked.links > 250
    assert not checked.broken, "\n".join(checked.broken)


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# A\n[one](b.md) [two](b.md#the-second) [three](#a)\n[four](b.md#third) ![five](c.png)\n`[six](no.md)`\n"
        "```\n[seven](no.md)\n```\n[eight](../x.md) [nine](https://example.org/no)\n[![ten](d.png)](b.md)\n"
    )
    (tmp_path / "b.md").write_text("# B\n## The second\n```\n## Third\n```\n")
    checked = check_links([tmp_path / "a.md"], root=tmp_path)
    assert checked.broken == [
        "a.md:3: b.md#third: no such heading",
        "a.md:3: c.png: no such file",
        "a.md:8: ../x.md: outside the repository",
        "a.md:9: d.png: no such file",
    ]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("`robust`", "robust"),
        ("Models in this process: `hf/`", "models-in-this-process-hf"),
        ("Rates, n = 10..200 (exact)", "rates-n--10200-exact"),
        ("The [page](x.md) of *all*", "the-page-of-all"),
        ("`voc(values, order=None, *, tolerance=0.0)`", "vocvalues-ordernone--tolerance00"),
    ],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert markdown.slug(heading) == anchor


def test_a_repeated_heading_has_a_numbered_anchor() -> None:
    assert markdown.anchors("# A\n## B\n## B\n```\n# C\n```\n") == {"a", "b", "b-1"}


def test_llms_txt_is_current() -> None:
    assert llms.PATH.read_text(encoding="utf-8") == llms.llms_text(), "python -m tools.docs llms"


def test_llms_txt_has_the_form_of_llmstxt_org() -> None:
    title, _, rest = llms.llms_text().partition("\n\n")
    summary, *sections = rest.split("\n\n## ")
    assert title == "# StepScore"
    assert summary.startswith("> ")
    assert len(sections) == len({entry.section for entry in nav.entries()} - {""})
    for section in sections:
        for line in section.splitlines()[2:]:
            assert line.startswith("- [")
            assert len(line.partition("): ")[2]) > 15


def test_the_reference_has_every_command_and_every_option() -> None:
    pages = {command.name: commands.command_page(command) for command in commands.all_commands()}
    assert len(pages) > 20
    todo: list[tuple[tuple[str, ...], Any]] = [(("stepscore",), get_command(app))]
    while todo:
        words, command = todo.pop()
        inner = getattr(command, "commands", {})
        todo += [((*words, name), child) for name, child in inner.items()]
        if not inner:
            text = pages.pop(" ".join(words))
            for parameter in command.params:
                assert all(option in text for option in parameter.opts if option.startswith("-")), words
                help_text = getattr(parameter, "help", None) or ""
                assert commands.escape(" ".join(help_text.split())) in text, (words, parameter.name)
            for flag, names in key_groups(command.callback).items():
                assert all(f"`{flag} {name.replace('_', '-')}=" in text for name in names), words
    assert not pages


def test_the_reference_has_every_public_name() -> None:
    listed = {package.name: set(package.names) for package in python_pages.packages()}
    for package in PACKAGES:
        if face_of(package) and not package.startswith("stepscore.cli"):
            assert listed[package] == set(face_of(package))
    assert {"stepscore.types", "stepscore.errors", "stepscore.testing"} <= set(listed)
    assert {"Curve", "Estimate"} <= listed["stepscore.types"]


def test_a_function_named_as_its_module_is_documented_once_and_linked_from_where_it_is_offered_too() -> None:
    pages = {package.name: python_pages.package_page(package) for package in python_pages.packages()}
    directive = "::: stepscore.analysis.findings.first_failures.first_failures\n"
    assert directive in pages["stepscore.analysis.findings"]
    offered = pages["stepscore.analysis"]
    assert directive not in offered
    assert "{ #stepscore.analysis.first_failures }" in offered
    link = "(stepscore.analysis.findings.md#stepscore.analysis.findings.first_failures.first_failures)"
    assert link in offered
    assert '"first_failures"' not in offered
    assert '"measure"' in offered


def test_pages_of_the_repository_link_within_the_site() -> None:
    assert (
        stage.relink("reference/extending.md", "[c](../../CONTRIBUTING.md#a)")
        == "[c](../project/contributing.md#a)"
    )
    assert (
        stage.relink("project/contributing.md", "[e](docs/reference/extending.md)")
        == "[e](../reference/extending.md)"
    )
    assert stage.relink("results/report.md", "[`x.ts`](../../web/src/x.ts)") == "`x.ts`"
    assert stage.relink("a.md", "```\n[x](../no.md)\n```\n") == "```\n[x](../no.md)\n```\n"


def test_a_site_that_loads_from_another_host_or_links_nowhere_is_refused(tmp_path: Path) -> None:
    page = '<a href="b.html#y">b</a><a href="https://example.org">x</a><img src="i.png"><p id="x">'
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<p id="y"><a href="a.html#x">a</a><a href="a.html?q=1">q</a></p>')
    (tmp_path / "i.png").write_bytes(b"i")
    (tmp_path / "s.css").write_text("p { background: url(i.png) }")
    assert check_site(tmp_path) == (2, 4, sum(path.stat().st_size for path in tmp_path.iterdir()), [])
    assert missing_anchors(tmp_path, "b.md", ["y", "z"]) == ["z"]

    (tmp_path / "a.html").write_text(
        '<a href="b.html#z">b</a><a href="c.html">c</a><script src="//cdn.example/x.js">'
    )
    (tmp_path / "b.html").write_text('<link rel="stylesheet" href="https://fonts.example/a.css">')
    (tmp_path / "s.css").write_text(
        "@import 'https://fonts.example/a.css'; p { background: url('https://e.org/i') }"
    )
    assert check_site(tmp_path).faults == [
        "a.html loads //cdn.example/x.js",
        "a.html links b.html#z",
        "a.html links c.html",
        "b.html loads https://fonts.example/a.css",
        "s.css loads https://fonts.example/a.css",
        "s.css loads https://e.org/i",
    ]

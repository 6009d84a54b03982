"""Lays out the folder that the site is built from: the pages of ``docs``, and those that are generated."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.docs import commands, markdown, nav, python_pages
from tools.docs.paths import DOCS, PROJECT_PAGES, ROOT, SITE, STAGE

GENERATED = "<!-- generated: {} -->"
"""Mark in a page where the site has a generated table."""


def stage() -> None:
    """Write ``build/docs``: pages, assets and the configuration with the whole navigation."""
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(DOCS, STAGE / "docs")
    for name, page in PROJECT_PAGES.items():
        _write(page, (ROOT / name).read_text(encoding="utf-8"))
    for path in sorted((STAGE / "docs").rglob("*.md")):
        page = path.relative_to(STAGE / "docs").as_posix()
        _write(page, relink(page, path.read_text(encoding="utf-8")))

    listed = commands.all_commands()
    for command in listed:
        _write(command.page, commands.command_page(command))
    _fill("reference/commands.md", "commands", commands.command_index(listed))
    found = python_pages.packages()
    for package in found:
        _write(package.page, python_pages.package_page(package))
    _fill("reference/python.md", "packages", python_pages.package_index(found))

    config = nav.read_config()
    config["nav"] = [*_extend(config["nav"], listed, found), {"Project": list(PROJECT_PAGES.values())}]
    (STAGE / "zensical.toml").write_text(f"[project]\n{_toml(config)}", encoding="utf-8")
    shutil.copy(ROOT / "tools" / "docs" / "docstring_roles.py", STAGE)


def relink(page: str, text: str) -> str:
    """Return a page with links for the site: to pages of the repository's root where the site has them.

    A link to another file of the repository becomes its text: the site does not have that file.
    """
    home = {there: ROOT / name for name, there in PROJECT_PAGES.items()}.get(page, DOCS / page)
    here = DOCS / page

    def of_site(match: Any) -> str:
        path, mark, anchor = match["target"].partition("#")
        if "://" in path or not path:
            return str(match[0])
        target = Path(os.path.normpath(home.parent / path))
        name = target.relative_to(ROOT).as_posix()
        target = DOCS / PROJECT_PAGES[name] if name in PROJECT_PAGES else target
        if not target.is_relative_to(DOCS):
            return str(match["text"])
        new = os.path.relpath(target, here.parent).replace(os.sep, "/")
        return f"{match['image']}[{match['text']}]({new}{mark}{anchor})"

    kept, end = list[str](), 0
    for block in markdown.FENCE.finditer(text):  # code stays as it is
        kept += [markdown.LINK.sub(of_site, text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*kept, markdown.LINK.sub(of_site, text[end:])])


def collect() -> None:
    """Move the built site to ``site``, with the Markdown of every page beside it for ``llms.txt``."""
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(STAGE / "site", SITE)
    for path in sorted((STAGE / "docs").rglob("*.md")):
        shutil.copy(path, SITE / path.relative_to(STAGE / "docs"))


def _write(page: str, text: str) -> None:
    path = STAGE / "docs" / page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _fill(page: str, name: str, table: str) -> None:
    text = (STAGE / "docs" / page).read_text(encoding="utf-8")
    mark = GENERATED.format(name)
    if text.count(mark) != 1:
        raise ValueError(f"docs/{page} holds {mark!r} {text.count(mark)} times, not once.")
    _write(page, text.replace(mark, table))


def _extend(items: list[Any], listed: list[commands.Command], found: list[python_pages.Package]) -> list[Any]:
    """Return the navigation with the generated pages behind the two pages that list them."""
    groups: dict[str, Any] = {
        "reference/commands.md": {
            "Commands": [
                {"All commands": "reference/commands.md"},
                *({" ".join(command.words[1:]): command.page} for command in listed),
            ]
        },
        "reference/python.md": {
            "Python": [
                {"All packages": "reference/python.md"},
                *({package.name.removeprefix("stepscore."): package.page} for package in found),
            ]
        },
    }
    extended: list[Any] = []
    for item in items:
        if isinstance(item, str):
            extended.append(groups.get(item, item))
        else:
            extended.append(
                {
                    name: inner if isinstance(inner, str) else _extend(inner, listed, found)
                    for name, inner in item.items()
                }
            )
    return extended


def _toml(table: Mapping[str, Any]) -> str:
    """Return a table as TOML, one key a line, all that is inside it inline."""
    return "".join(f"{_key(name)} = {_inline(value)}\n" for name, value in table.items())


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_inline(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(inner) for inner in value) + "]"
    return json.dumps(value)


def _key(name: str) -> str:
    return json.dumps(name)

"""``llms.txt``: the list of pages for programs that read documentation, in the form of llmstxt.org."""

from __future__ import annotations

from itertools import groupby

from tools.docs import markdown, nav
from tools.docs.paths import DOCS

PATH = DOCS / "llms.txt"


def llms_text() -> str:
    """Return ``docs/llms.txt``: title, summary, and the sections of the navigation with their pages."""
    config = nav.read_config()
    parts = [f"# {config['site_name']}", f"> {config['site_description']}"]
    listed = [entry for entry in nav.entries() if entry.section]
    for section, pages in groupby(listed, key=lambda entry: entry.section):
        parts.append(f"## {section}\n\n" + "\n".join(_line(entry.page) for entry in pages))
    return "\n\n".join(parts) + "\n"


def _line(page: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    return f"- [{markdown.title(text)}]({page}): {markdown.first_sentence(text)}"


def full_text() -> str:
    """Return ``llms-full.txt``: every page that is written by hand, one after the other."""
    texts = [(entry.page, (DOCS / entry.page).read_text(encoding="utf-8")) for entry in nav.entries()]
    return "\n\n".join(f"<!-- {page} -->\n\n{text.strip()}" for page, text in texts) + "\n"

"""Write the pages of docs/measurements from the committed JSON in benchmarks/measurements.

    python -m tools.measurements

Each file holds one page::

    {"title": "...", "about": "What was measured, in a sentence or two.",
     "tables": [{"title": "...", "command": "python -m benchmarks...", "header": ["..."], "rows": [["..."]],
                 "notes": "How to read it; what limits it."}]}

``command`` prints the table; ``notes`` and ``command`` may be missing. ``benchmarks.board.page`` writes the board of
judges from its own JSON. ``tests/docs`` checks that pages and JSON agree.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.board import page as board

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "benchmarks" / "measurements"
PAGES = ROOT / "docs" / "measurements"
KEYS = {"title", "command", "header", "rows", "notes"}


def page(data: dict[str, Any]) -> str:
    """Return the Markdown of a page."""
    return "\n".join(_lines(data)).rstrip() + "\n"


def _lines(data: dict[str, Any]) -> Iterator[str]:
    yield from (f"# {data['title']}", "", data["about"], "")
    for table in data["tables"]:
        if unknown := set(table) - KEYS:
            raise ValueError(f"{data['title']}: unknown keys {sorted(unknown)}")
        yield from (f"## {table['title']}", "")
        if command := table.get("command"):
            yield from ("```bash", command, "```", "")
        yield _row(table["header"])
        yield _row(["---"] * len(table["header"]))
        for row in table["rows"]:
            if len(row) != len(table["header"]):
                raise ValueError(f"{table['title']}: {row} has not as many cells as the header")
            yield _row(row)
        yield ""
        if notes := table.get("notes"):
            yield from (notes, "")


def _row(cells: list[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def pages() -> dict[Path, str]:
    """Return the text of every page by its path."""
    made = {
        PAGES / f"{path.stem}.md": page(json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(DATA.glob("*.json"))
    }
    return made | {board.PAGE: board.page()}


def main() -> None:
    """Write the pages, and remove those without JSON."""
    made = pages()
    PAGES.mkdir(exist_ok=True)
    for path in set(PAGES.glob("*.md")) - set(made):
        path.unlink()
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    print(f"{len(made)} pages", file=sys.stderr)


if __name__ == "__main__":
    main()

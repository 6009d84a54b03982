"""Paths in the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CONFIG = ROOT / "zensical.toml"
STAGE = ROOT / "build" / "docs"
SITE = ROOT / "site"
PROJECT_PAGES = {"CONTRIBUTING.md": "project/contributing.md", "CHANGELOG.md": "project/changelog.md"}
"""Pages of the repository's root, and their paths in the site."""


def source_pages() -> list[Path]:
    """Return every Markdown page that is written by hand: those of ``docs`` and the README."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

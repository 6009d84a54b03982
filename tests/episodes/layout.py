"""Folders of files for tests of readers."""

from __future__ import annotations

from pathlib import Path


def lay(root: Path, *names: str, content: str = "x") -> Path:
    """Files of these names under ``root``: enough for a listing, which opens none of them."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return root

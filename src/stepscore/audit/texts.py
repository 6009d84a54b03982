"""Files of instructions by task: counterfactual ones, paraphrases."""

from __future__ import annotations

from pathlib import Path

from stepscore._untrusted import read_yaml, shown
from stepscore.errors import ManifestError

MAX_TEXT = 10_000
"""Most characters of one instruction."""


def read_texts(path: Path) -> dict[str, tuple[str, ...]]:
    """Read ``task or instruction: [text, ...]`` from a YAML file; a single text stands for a list of one."""
    content = read_yaml(path, ManifestError)
    if not isinstance(content, dict) or not content:
        raise ManifestError(
            f"{shown(path)}: expected tasks with texts, as in\n  open the drawer: [close the drawer]"
        )
    found: dict[str, tuple[str, ...]] = {}
    for task, given in content.items():
        texts = [given] if isinstance(given, str) else given
        good = isinstance(texts, list) and all(
            isinstance(t, str) and 0 < len(t.strip()) <= MAX_TEXT for t in texts
        )
        if not isinstance(task, str) or not good or not texts:
            raise ManifestError(f"{shown(path)}: {str(task)[:80]!r} needs a text or a list of texts.")
        found[task] = tuple(text.strip() for text in texts)
    return found

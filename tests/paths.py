"""Places in the repository that tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SHARED_DATA = ROOT.parent / "shared" / "data"
TINY_SIM = ROOT / "tests" / "data" / "tiny_sim"

"""Fixtures of the tests of audits."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscore.audit.pairs import make_progress_pairs, write_pairs
from stepscore.episodes import open_episodes
from stepscore.testing import write_toy_rollouts


@pytest.fixture(scope="module")
def toy_pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Twelve pairs of toy rollouts: the file, and the source."""
    folder = tmp_path_factory.mktemp("compared")
    source = write_toy_rollouts(folder / "toys", scenes=2)
    names = [one.id for one in open_episodes(source)]
    rows = [f"{name},progress,potential,{i / 4},,{min(1, i / 12)}" for name in names for i in range(16)]
    labels = folder / "labels.csv"
    labels.write_text("\n".join(["episode_id,kind,name,start_s,end_s,value", *rows]), encoding="utf-8")
    write_pairs(folder / "pairs.jsonl", make_progress_pairs(open_episodes(source, labels=labels), per_span=4))
    return folder / "pairs.jsonl", source

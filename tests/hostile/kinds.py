"""Every kind of hostile input, by name."""

from __future__ import annotations

from pathlib import Path

from tests.hostile import sources
from tests.hostile.case import Case, Kind
from tests.hostile.good_inputs import SOURCES, copy_good, judge_command

EXTRAS = ("hdf5", "act")
KINDS: dict[str, Kind] = {
    **{
        name: Kind(sources.make_source(name), 12, "extras" if name in EXTRAS else "core")
        for name in SOURCES
        if name not in ("jsonl", "csv", "yaml")
    },
    **{name: Kind(sources.make_manifest(name), 12) for name in ("jsonl", "csv", "yaml")},
    "lerobot-rows": Kind(sources.make_lerobot_rows, 12),
    "single": Kind(sources.make_single, 12),
    "names": Kind(sources.make_names, 6),
}


def undisturbed(rest: str, here: Path, good: Path) -> Case:
    """Return the case that judges the good episodes of a source alone: ``rest`` is SOURCE.JUDGE."""
    name, _, judge = rest.rpartition(".")
    copy_good(good, name, here)
    source = SOURCES[name]
    arguments = judge_command(here / "source" / source.path, judge, here / "run")
    return Case("nothing", [[*arguments, "--episodes", ",".join(source.good)]])

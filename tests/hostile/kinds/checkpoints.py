"""Hostile checkpoints: those of ``tests/models/hostile_checkpoints.py``, by way of the commands."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

from tests.hostile.case import Case


def make_checkpoint(rng: Random, here: Path, good: Path) -> Case:
    """Damage a checkpoint of one of four kinds and judge with it."""
    from tests.models import hostile_checkpoints as hostile

    kind = rng.choice(("hf", "hf", "sarm", "embedded", "robometer"))
    folder = Path(shutil.copytree(good / "made" / "checkpoints" / kind, here / "checkpoint"))
    name, change = rng.choice(hostile.written(kind)) if rng.random() < 0.6 else hostile.drawn(kind, rng)
    change(folder)
    return Case(f"{kind}: {name}", [checkpoint_command(kind, folder, here, good)])


def checkpoint_command(kind: str, folder: Path, here: Path, good: Path) -> list[str]:
    """Return the arguments that judge with a checkpoint."""
    model = {"sarm": f"sarm/{folder}", "embedded": "embedded"}.get(kind, f"hf/{folder}")
    options = ["-M", f"checkpoint={folder}"] if kind == "embedded" else []
    own = {
        "sarm": ["sarm"],
        "robometer": ["robometer", "-J", "prompt=own", "-J", "frames=2", "-J", "size=64"],
    }
    judge = own.get(kind, ["topreward", "-J", "prefixes=2", "-J", "size=64"])
    line = ["judge", str(good / "jsonl" / "list.jsonl"), "--judge", *judge, "--model", model, *options]
    return [*line, "-o", str(here / "run"), "-E", "cache=false", "--limit", "2"]

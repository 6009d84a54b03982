"""Hostile clients of `stepscore view`: idle, slow, greedy, nonsensical, by the hundred, with few files to open."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

from tests.hostile.attacks import SENT
from tests.hostile.case import Case
from tests.hostile.mutations import ODD_TEXTS

RANGES = (
    "bytes=0-",
    "bytes=-1",
    "bytes=5-1",
    "bytes=0-" + "9" * 40,
    "bytes=" + "0-0," * 900,
    "octets=1",
    "bytes=٠-١",
)


def make_view_server(rng: Random, here: Path, good: Path) -> Case:
    """Serve a good run to clients of a few kinds at a time; a well-behaved one is answered among them."""
    shutil.copytree(good / "made" / "runs" / "recorded", here / "run")
    steps = []
    for how in rng.sample(list(SENT), rng.choice((1, 1, 2, 3))):
        text = ""
        if how == "range":
            text = rng.choice((*RANGES, *(odd for odd in ODD_TEXTS if odd.isprintable())))
        elif how == "bytes":
            text = rng.randbytes(rng.choice((1, 20, 500, 70_000))).hex()
        steps.append(
            {"how": how, "count": rng.choice((1, 5, 60, 300)), "text": text, "hang up": rng.random() < 0.2}
        )
    files = rng.choice((0, 0, 90, 128, 256))
    what = ", ".join(f"{step['count']} × {step['how']}" for step in steps)
    case = Case(
        f"{what}, {files or 'usual'} files", [["view", str(here / "run"), "--port", "0"]], codes=[0, 130]
    )
    case.attack, case.files = steps, files
    return case

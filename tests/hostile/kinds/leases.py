"""Leases in a run folder that are no files, damaged, or dated in the future: a run goes on beside all of them."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from random import Random

from tests.hostile import mutations as m
from tests.hostile.case import Case
from tests.hostile.good_runs import RUNS, source_of
from tests.hostile.kinds.run_folders import copy_run
from tests.hostile.kinds.sources import damage

NUMBERS = (1, 2, 7, 999_999_900)
DAY_S = 86_400.0


def make_lease(rng: Random, here: Path, good: Path) -> Case:
    """Put one or two leases, or what has the name of one, into a run; the run is judged and merged all the same."""
    name, run = copy_run(rng, here, good)
    what = [_put(rng, run, number) for number in rng.sample(NUMBERS, rng.choice((1, 1, 2)))]
    lease = rng.choice(([], ["-E", "lease=1"]))
    lines = [
        ["judge", str(source_of(good, name)), *RUNS[name], "-o", str(run), "-E", "cache=false", *lease],
        ["merge", str(run)],
    ]
    unreadable = any(one.endswith("unreadable") for one in what)
    codes = [0, 2] if unreadable else [0]
    return Case(
        f"lease {', '.join(what)}", rng.sample(lines, 2), f"made/runs/{name}", codes, unprivileged=unreadable
    )


def _put(rng: Random, run: Path, number: int) -> str:
    path = run / f"lease.{number:09d}.json"
    content = {
        "host": rng.choice(("another", socket.gethostname(), "", None, "x" * 3000, "\x1b[31m\n")),
        "space": rng.choice(("", "x", None)),
        "pid": rng.choice((1, os.getpid(), 0, -1, 2**70, "1", None, True)),
        "token": "0" * 32,
        "term_s": rng.choice((0.5, 0.6)),
        "renewed": rng.choice(("000000000003", float("nan"), None, [1])),
        "released": 0,
    }
    path.write_text(json.dumps(content))
    how = rng.choice(("future", "future", "kind", "odd", "damaged"))
    age_s = DAY_S
    if how == "future":
        age_s = -rng.choice((5.0, DAY_S, 1e9))
    elif how == "kind":
        how = m.replace_file(path, rng)
    elif how == "odd":
        odd, how = m.odd_json(content, rng)
        path.write_text(m.dump_json(odd), errors="replace")
    else:
        how = damage(path, rng)
    if path.is_file() and not path.is_symlink():
        os.utime(path, (time.time() - age_s,) * 2)
    return f"{number} {how}"

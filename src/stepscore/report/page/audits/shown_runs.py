"""The runs of an audit that its page shows, and of a large one only the episodes that its probes name."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from stepscore.audit import Audit
from stepscore.errors import StepScoreError
from stepscore.runs import Run, open_run

MAX_EPISODES = 1500
"""Episodes, recorded and changed, up to which the page holds all of them; else those that probes name."""

NAMES = {"again": "asked again", "denser": "sampled twice as densely"}


class RunPart(Run):
    """Some episodes of a run, as if it had judged no others."""

    def __init__(self, run: Run, episodes: Collection[str]) -> None:
        super().__init__(run.path, {**run.info, "selected": len(episodes)})
        self._kept = pa.array(sorted(episodes), pa.string())

    def _table(self, name: str) -> pa.Table:
        return self._tables.read(name, self._kept)


def shown_runs(audit: Audit) -> dict[str, Run]:
    """Return the runs of an audit by name, the judge's first; those that cannot be opened are left out.

    A trivial judge that is the audited judge itself is shown once.
    """
    opened: dict[str, Run] = {}
    hashes: set[str] = set()
    for name in ("judge", *(name for name in audit.runs if name != "judge")):
        try:
            run = open_run(audit.runs.get(name, audit.runs["judge"].parent / name))
            rows = run.judgements().num_rows
        except (StepScoreError, KeyError, OSError):
            continue
        if rows and run.protocol.hash not in hashes:
            hashes.add(run.protocol.hash)
            opened[name] = run
    if sum(run.judgements().num_rows for run in opened.values()) <= MAX_EPISODES * max(1, len(opened)):
        return opened
    named = {
        one
        for result in (*audit.results, *audit.trivial)
        for case in result.worst
        for one in (case.episode, case.changed)
    }
    parts = {name: RunPart(run, named) for name, run in opened.items()}
    return {name: run for name, run in parts.items() if run.judgements().num_rows}


def run_label(name: str, run: Run) -> str:
    """Return what the page calls a run of an audit."""
    judge = " ".join(filter(None, (run.judge, run.model)))
    return f"{judge}, {NAMES[name]}" if name in NAMES else judge

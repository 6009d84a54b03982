"""A run: one judge over many episodes, in a folder that survives being killed.

:func:`score` makes or continues one, :func:`open_run` reads one, and ``measure`` turns it into per-episode
metrics and grouped Estimates: the one source for tables, reports, filters and audits.
"""

from stepscore.runs.run import Run as Run
from stepscore.runs.run import open_run as open_run
from stepscore.runs.scoring import Summary as Summary
from stepscore.runs.scoring import score as score

__all__ = ["Run", "Summary", "open_run", "score"]

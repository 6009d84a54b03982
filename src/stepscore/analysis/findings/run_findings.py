"""All findings for the runs of one protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscore._progress import doing
from stepscore.analysis.episode_metrics import EpisodeMetrics, measure_episodes
from stepscore.analysis.estimates import policy_metrics
from stepscore.analysis.failure_modes import FailureModes
from stepscore.analysis.findings.first_failures import FirstFailure, first_failures
from stepscore.analysis.findings.funnel import Funnel, subgoal_funnels
from stepscore.analysis.findings.headline import Opening, opening_sentences
from stepscore.analysis.findings.trust import JudgeTrust, judge_trust
from stepscore.analysis.findings.worst_failures import WorstFailure, worst_failures
from stepscore.runs import Run


@dataclass(frozen=True)
class Findings:
    """The findings for the runs of one protocol, in sentences; ``funnels`` needs verdicts or labels of subgoals."""

    opening: Opening
    first_failures: tuple[FirstFailure, ...]
    funnels: tuple[Funnel, ...]
    worst: tuple[WorstFailure, ...]
    trust: JudgeTrust


def run_findings(
    runs: Run | Sequence[Run],
    metrics: EpisodeMetrics | None = None,
    *,
    modes: FailureModes | None = None,
    most_failures: int = 6,
) -> Findings:
    """Return the findings for one run, or several of one protocol.

    Args:
        metrics: Of these runs, each episode once, if already measured.
        modes: Failure modes of these metrics, if known.
    """
    opened = [runs] if isinstance(runs, Run) else list(runs)
    measured = measure_episodes(opened) if metrics is None else metrics
    # The judge is checked by what it gave; the policies only by what a judge that looks at frames gave.
    known = policy_metrics(measured)
    with doing("Comparing policies"):
        opening = opening_sentences(known)
    with doing("Looking for where policies fail first"):
        first = first_failures(opened, known, modes)
    with doing("Counting subgoals"):
        funnels = subgoal_funnels(opened, known)
    with doing("Looking for the worst failures"):
        worst = worst_failures(known, most_failures)
    with doing("Checking the judge"):
        trust = judge_trust(opened, measured)
    return Findings(opening, first, funnels, worst, trust)

"""How far to trust a judge on these episodes: against labels, and against a clock that ignores the frames.

Four questions, each answered yes, no or unknown, with the Estimates behind the answer:

========  ==========================================================================  ==========================
success   does its verdict agree with the success labels?                             against the clock
progress  is its progress close to the labelled progress?                             against the clock
order     does it score a success above a failure of the same task?                   against the clock
subgoals  do its verdicts on subgoals agree with the labels?                          against yes to everything
========  ==========================================================================  ==========================

**Yes**: significantly better than the baseline on the same episodes (a paired test at 5 %, scenes as units),
and good in absolute terms (the constants of ``trust_aspects``). **No**: no better than the baseline, or not
good. **Unknown**: no labels, too few of one outcome, or too few episodes to show a lead. The numbers are
those of ``stepscore metrics --show judge``, without episodes that a calibration map was fitted on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.analysis.baselines import measure_baselines
from stepscore.analysis.episode_metrics import EpisodeMetrics, measure_episodes
from stepscore.analysis.findings.phrases import listed, plural
from stepscore.analysis.findings.trust_aspects import (
    CLOCK,
    Answer,
    Aspect,
    TrustAspect,
    order_trust,
    progress_trust,
    subgoals_trust,
    success_trust,
)
from stepscore.analysis.success_verdict import BY_PROBABILITY
from stepscore.analysis.validation import validation_notes
from stepscore.judges import BASELINES
from stepscore.runs import Run

MOST_EPISODES = 1_000
"""Most episodes to check; of more, this many are drawn, because baselines of all would take minutes."""


@dataclass(frozen=True)
class JudgeTrust:
    """How far to trust a judge on these episodes.

    Attributes:
        aspects: The four answers, without those that do not apply (no curve, no verdicts).
        notes: What was left out, sampled or is uncalibrated.
    """

    judge: str
    aspects: tuple[TrustAspect, ...]
    notes: tuple[str, ...] = ()

    def aspect(self, name: Aspect) -> TrustAspect | None:
        """Return one answer; ``None`` if it does not apply."""
        return next((one for one in self.aspects if one.aspect == name), None)

    @property
    def text(self) -> str:
        """Return everything in one line."""
        if all(one.answer == "unknown" for one in self.aspects):
            reasons = "; ".join(dict.fromkeys(one.sentence for one in self.aspects))
            return f"How far {self.judge} can be trusted here is unknown: {reasons or 'it has no curve or verdict'}."
        words: dict[Answer, str] = {
            "yes": "can be trusted here for",
            "no": "not for",
            "unknown": "unknown for",
        }
        parts = []
        for answer, verb in words.items():
            found = [f"{one.aspect} ({one.sentence})" for one in self.aspects if one.answer == answer]
            if found:
                parts.append(f"{verb} {listed(found)}")
        if not any(one.answer == "yes" for one in self.aspects):
            parts[0] = f"cannot be trusted here for {parts[0].removeprefix('not for ')}"
        return f"{self.judge} {'; '.join(parts)}."


def judge_trust(runs: Run | Sequence[Run], metrics: EpisodeMetrics | None = None) -> JudgeTrust:
    """Return how far to trust the judge of one run, or of several of one protocol."""
    opened = [runs] if isinstance(runs, Run) else list(runs)
    measured = measure_episodes(opened) if metrics is None else metrics
    notes = []
    if measured.fitted_on:
        n = len(measured)
        measured = measure_episodes(opened, held_out=True)
        left = "no episode is" if not len(measured) else f"{plural(len(measured), 'episode')} of {n:,} are"
        notes.append(
            f"Without the episodes that its calibration map was fitted on, {left} left to check it with."
        )
    if len(measured) > MOST_EPISODES:
        notes.append(f"Checked on {MOST_EPISODES:,} of {len(measured):,} episodes, drawn at random.")
        measured = _drawn(measured)
    judge = opened[0].judge
    clock = measure_baselines(measured, [CLOCK])[0].metrics if len(measured) else measured
    aspects = [
        success_trust(judge, measured, clock),
        progress_trust(measured, clock),
        order_trust(judge, measured),
    ]
    aspects.append(subgoals_trust(opened, measured))
    if judge in BASELINES:
        notes.append(f"{judge} looks at no frame: it is what other judges are compared with.")
    elif set(measured.verdict_rules) - {None, BY_PROBABILITY}:
        notes.append(
            "Its verdict on success is uncalibrated: by its published rule, not by a map fitted on labels."
        )
    notes += validation_notes(opened)
    return JudgeTrust(judge, tuple(one for one in aspects if one is not None), tuple(notes))


def _drawn(metrics: EpisodeMetrics) -> EpisodeMetrics:
    chosen = np.zeros(len(metrics), dtype=bool)
    chosen[np.random.default_rng(0).permutation(len(metrics))[:MOST_EPISODES]] = True
    return metrics.select(chosen)

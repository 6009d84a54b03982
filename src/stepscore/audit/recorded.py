"""Results on the episodes as recorded, before any probe: the share answered, and agreement with labels.

A judge that refuses most episodes leaves every probe undecided and fails none, and one that is always wrong
may pass them all. Both must show at the top.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepscore.analysis import JudgeAgreement
from stepscore.audit.effects import effect_estimate
from stepscore.audit.judge_answers import judged_episodes
from stepscore.audit.planning import AuditPlan, scene_of
from stepscore.audit.probe import Bound
from stepscore.audit.results import Audit, ProbeResult
from stepscore.runs import Run

FAMILY = "labels"
ANSWERED, AGREEMENT = "answered", "agreement"
ANSWERED_BOUND, AGREEMENT_BOUND = Bound(0.5, "above"), Bound(0.75, "above")


def recorded_results(run: Run, plan: AuditPlan, agreement: JudgeAgreement | None) -> list[ProbeResult]:
    """Return the share of answered episodes, if some are unanswered, and the agreement with success labels."""
    return [*_answered(run, plan), *_agreement(run, agreement)]


def _answered(run: Run, plan: AuditPlan) -> list[ProbeResult]:
    ids = {episode.id for episode in plan.episodes}
    judged = judged_episodes(run, ids)
    verdicts = run.verdicts().select(["episode_id", "answer"]).to_pylist()
    known = {row["episode_id"] for row in verdicts if row["answer"] in ("yes", "no")}
    known |= {name for name, one in judged.items() if np.isfinite([*one.progress, one.success]).any()}
    if not ids or ids <= known:
        return []
    share = effect_estimate(
        np.array([episode.id in known for episode in plan.episodes], dtype=np.float64),
        [scene_of(episode) for episode in plan.episodes],
        rate=True,
    )
    return [
        ProbeResult(
            ANSWERED,
            FAMILY,
            run.judge,
            share,
            # A fact about these episodes, whatever the interval of others: with most unanswered it fails.
            "pass" if share.value > ANSWERED_BOUND.limit else "fail",
            ANSWERED_BOUND,
            "it answers most episodes",
            "share of episodes with an answer",
            len(ids),
        )
    ]


def _agreement(run: Run, agreement: JudgeAgreement | None) -> list[ProbeResult]:
    found = () if agreement is None else agreement.agreements
    success = next((one for one in found if one.question == "success" and one.baseline_for is None), None)
    if success is None:
        return []
    return [
        ProbeResult(
            AGREEMENT,
            FAMILY,
            run.judge,
            success.balanced,
            AGREEMENT_BOUND.decide(success.balanced),
            AGREEMENT_BOUND,
            "its verdicts on success agree with the labels",
            "balanced accuracy of success",
            success.table.n + success.table.unknown,
        )
    ]


def warnings_of(audit: Audit) -> list[str]:
    """Return the warnings to read before any number of an audit, one sentence each."""
    said: Mapping[str, str] = {
        ANSWERED: "The judge answers {answered} of {n} episodes, so the probes say little about it",
        AGREEMENT: "The judge does not agree with the labels: balanced accuracy of success {v}",
    }
    others = sorted(set(audit.cameras) - set(audit.audited_cameras)) if audit.audited_cameras else []
    sentences = []
    if others:
        sentences.append(
            f"Outside of the audited cameras: {', '.join(others)}. This judge was audited on "
            f"{', '.join(audit.audited_cameras)}."
        )
    for probe, text in said.items():
        result = audit.result(probe)
        if result is not None and result.outcome == "fail":
            value, n = result.effect.value, result.effect.n
            filled = text.format(answered=round(value * n), n=n, v=f"{value:.2f}")
            sentences.append(f"{filled}.")
    return sentences

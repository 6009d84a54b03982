"""The result of an audit: one result per probe and judge, the headline, and everything as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from stepscore import __version__
from stepscore._files import write_json
from stepscore.analysis import JudgeAgreement, Measured, Validation, find_validation
from stepscore.analysis.tables import judge_records
from stepscore.audit.planning import AuditPlan
from stepscore.audit.probe import Bound, Outcome
from stepscore.runs import Run, finite_or_none
from stepscore.types import Estimate

FORMAT = 1
HEADLINE: Mapping[str, str] = {
    "answered": "episodes answered",
    "agreement": "agreement with labels",
    "beyond-length": "progress beyond length",
    "other-task": "grounding",
    "round-trip": "return",
    "still-success": "false positives on still videos",
    "blank-success": "false positives on black videos",
}
"""The results shown first, and what their effects are called."""


@dataclass(frozen=True)
class WorstCase:
    """An episode on which a judge did badly; ``changed`` equals ``episode`` if only the request changed."""

    episode: str
    changed: str
    effect: float


@dataclass(frozen=True)
class ProbeResult:
    """The result of one probe for one judge.

    Attributes:
        effect: The mean effect.
        eligible: Episodes it could have taken.
        reason: Why it takes none; empty otherwise.
        worst: If it does not pass: the episodes to look at first, worst first.
    """

    probe: str
    family: str
    judge: str
    effect: Estimate
    outcome: Outcome
    bound: Bound
    expectation: str
    effect_name: str
    eligible: int
    reason: str = ""
    worst: tuple[WorstCase, ...] = ()

    @classmethod
    def missing(
        cls, probe: str, family: str, judge: str, bound: Bound, expectation: str, reason: str
    ) -> ProbeResult:
        """Return the result of a probe that does not apply."""
        nothing = Estimate(math.nan, math.nan, math.nan, 0, 0, math.nan, "not applied")
        return cls(probe, family, judge, nothing, "undecided", bound, expectation, "", 0, reason)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values, null where unknown."""
        return {
            "probe": self.probe,
            "family": self.family,
            "judge": self.judge,
            "outcome": self.outcome,
            **self.effect.to_dict(),
            "bound": self.bound.limit,
            "good": self.bound.good,
            "effect": self.effect_name,
            "expectation": self.expectation,
            "eligible": self.eligible,
            "reason": self.reason,
            "worst": [asdict(case) for case in self.worst],
        }


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    Attributes:
        model: ``None`` for a judge without a model.
        protocol: Hash of the judge's protocol.
        cost: Cost relative to judging the episodes once: in tokens if counted, else in episodes.
        decoded: Frames decoded by all runs.
        runs: Run folders by name.
        agreement: With the labels of the recorded episodes; ``None`` without labels.
        audited_cameras: Cameras of the known validation record of this protocol; empty without one.
    """

    judge: str
    model: str | None
    protocol: str
    source: str
    episodes: int
    tasks: tuple[str, ...]
    cameras: tuple[str, ...]
    labelled: bool
    seed: int
    full: bool
    cost: float
    decoded: int
    results: tuple[ProbeResult, ...]
    trivial: tuple[ProbeResult, ...]
    runs: Mapping[str, Path] = field(default_factory=dict)
    created: str = ""
    agreement: JudgeAgreement | None = None
    audited_cameras: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        run: Run,
        plan: AuditPlan,
        results: Sequence[ProbeResult],
        trivial: Sequence[ProbeResult],
        *,
        source: str,
        seed: int,
        full: bool,
        runs: Mapping[str, Run],
        decoded: int,
        agreement: JudgeAgreement | None = None,
    ) -> Audit:
        """Return the result from the judge's runs and its plan."""
        episodes, record = plan.episodes, find_validation(run)
        return cls(
            judge=run.judge,
            model=run.model,
            protocol=run.protocol.hash,
            source=source,
            episodes=len(episodes),
            tasks=tuple(sorted({episode.task or episode.instruction for episode in episodes})),
            cameras=tuple(sorted({view for episode in episodes for view in episode.views})),
            labelled=plan.labelled,
            seed=seed,
            full=full,
            cost=_cost(plan, {name: one for name, one in runs.items() if not name.startswith("trivial/")}),
            decoded=decoded,
            results=tuple(results),
            trivial=tuple(trivial),
            runs={name: one.path for name, one in runs.items()},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            agreement=agreement,
            audited_cameras=() if record is None else record.cameras,
        )

    def result(self, probe: str, judge: str | None = None) -> ProbeResult | None:
        """Return the result of a probe for the judge, or for a baseline by name; ``None`` if it was not probed."""
        found = self.results if judge is None else self.trivial
        return next((r for r in found if r.probe == probe and judge in (None, r.judge)), None)

    def counts(self) -> dict[Outcome, int]:
        """Count the probes by outcome."""
        outcomes: tuple[Outcome, ...] = ("pass", "warn", "fail", "undecided")
        return {outcome: sum(r.outcome == outcome for r in self.results) for outcome in outcomes}

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as JSON values."""
        return {
            "format": FORMAT,
            "stepscore": __version__,
            "created": self.created,
            "judge": self.judge,
            "model": self.model,
            "protocol_hash": self.protocol,
            "source": self.source,
            "episodes": self.episodes,
            "tasks": list(self.tasks),
            "cameras": list(self.cameras),
            "audited_cameras": list(self.audited_cameras),
            "labelled": self.labelled,
            "seed": self.seed,
            "full": self.full,
            "cost": finite_or_none(self.cost),
            "decoded": self.decoded,
            "counts": self.counts(),
            "results": [result.to_dict() for result in self.results],
            "trivial": [result.to_dict() for result in self.trivial],
            "agreement": None if self.agreement is None else _agreement_dict(self.agreement),
            "runs": {name: path.name if name == "judge" else name for name, path in self.runs.items()},
        }

    def validation(self, measured_by: str = "") -> Validation:
        """Return the validation record that is quoted with scores of the same protocol."""
        agreements = () if self.agreement is None else self.agreement.agreements
        success = next((a for a in agreements if a.question == "success" and a.baseline_for is None), None)
        probes = {name: self.result(name) for name in ("other-task", "round-trip")}
        measured = {name: None if one is None else Measured.of(one.effect) for name, one in probes.items()}
        return Validation(
            self.protocol,
            self.judge,
            self.model,
            measured_by,
            self.created,
            Path(self.source).name,
            self.episodes,
            self.tasks,
            self.cameras,
            None if success is None else Measured.of(success.balanced),
            measured["other-task"],
            measured["round-trip"],
        )

    def write(self, folder: Path, measured_by: str = "") -> Path:
        """Write ``audit.json`` and ``validation.json``; return the path of the first."""
        path = folder / "audit.json"
        write_json(path, self.to_dict())
        self.validation(measured_by).write(folder / "validation.json")
        return path


def _agreement_dict(agreement: JudgeAgreement) -> dict[str, Any]:
    """Return all numbers as rows of ``metrics --json``, and the sentences about policies."""
    rows = [
        {name: finite_or_none(value) if isinstance(value, float) else value for name, value in row.items()}
        for row in judge_records(agreement)
    ]
    return {"rows": rows, "policies": [text for one in agreement.policies for text in one.sentences]}


def _cost(plan: AuditPlan, runs: Mapping[str, Run]) -> float:
    """Return the cost of these runs relative to judging the episodes once."""
    plain = {episode.id for episode in plan.episodes}
    usage = {
        name: run.usage().select(["episode_id", "tokens_in", "tokens_out"]) for name, run in runs.items()
    }
    amounts = {
        name: table.column("tokens_in").to_numpy() + table.column("tokens_out").to_numpy()
        for name, table in usage.items()
    }
    if not any(table.column("tokens_in").to_numpy().any() for table in usage.values()):
        amounts = {name: np.ones(len(table)) for name, table in usage.items()}
    recorded = np.array(
        [name in plain for name in usage["judge"].column("episode_id").to_pylist()], dtype=bool
    )
    whole, once = float(sum(each.sum() for each in amounts.values())), float(amounts["judge"][recorded].sum())
    return whole / once if once else math.nan

"""The result of a tuning: every trial with agreement and cost, the choice, and its test on another split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from stepscore import __version__
from stepscore._files import write_json
from stepscore.audit.tune.choice import TrialCost, decided
from stepscore.models.calls import Spent
from stepscore.runs import finite_or_none
from stepscore.types import Estimate

FORMAT = 1
Status = Literal["judged", "failed", "stopped"]


@dataclass(frozen=True)
class TrialResult:
    """One trial.

    Attributes:
        views: The cameras it is shown; ``None`` for all.
        status: ``"failed"`` if no episode could be judged; ``"stopped"`` by the budget.
        failed: Episodes of the choosing split without a judgement; they count as unknown.
        choose: The metric on the choosing split; ``None`` if it was not judged.
        from_best: Its difference from the best trial there.
        cost: Cost per episode there.
        test: The metric on the test split; ``None`` if it was not tested.
        from_default: Its difference from the default there; ``None`` for the default itself.
        front: Whether it is on the Pareto front of the choosing split.
    """

    name: str
    settings: Mapping[str, object]
    views: tuple[str, ...] | None
    status: Status
    reason: str = ""
    failed: int = 0
    choose: Estimate | None = None
    from_best: Estimate | None = None
    cost: TrialCost | None = None
    test: Estimate | None = None
    from_default: Estimate | None = None
    front: bool = False


@dataclass(frozen=True)
class Tuned:
    """The result of a tuning; pairs of numbers are of the choosing and the test split.

    Attributes:
        model: ``None`` for a judge without one.
        results: One per trial, the default first.
        best: The trial with the best value on the choosing split.
        chosen: The trial to use.
        tied: Trials not significantly different from the best there, the best included.
        cheapest_by: The measure of cost that decided.
        combinations: Number of combinations of the values.
        spent: Attempts and money of all trials and rewordings.
        dropped: Combinations that the judge rejects, with the reason.
        stopped: Why it ended early; empty otherwise.
        command: The command that judges with the chosen configuration.
    """

    judge: str
    model: str | None
    metric: str
    better: str
    results: tuple[TrialResult, ...]
    best: str
    chosen: str
    tied: tuple[str, ...]
    cheapest_by: str
    episodes: tuple[int, int]
    scenes: tuple[int, int]
    seed: int
    share: float
    combinations: int
    spent: Spent
    dropped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stopped: str = ""
    command: str = ""
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def result(self, name: str) -> TrialResult:
        """Return the result of a trial."""
        return next(each for each in self.results if each.name == name)

    @property
    def winner(self) -> TrialResult:
        """The trial to take."""
        return self.result(self.chosen)

    def with_command(self, command: str) -> Tuned:
        """Return it with the command that reproduces the chosen trial."""
        return replace(self, command=command)

    def verdict(self) -> str:
        """Return what the test split shows about the choice, in a sentence."""
        winner, gain = self.winner, self.winner.from_default
        if self.chosen == self.results[0].name:
            return "The default is chosen: nothing that was tried is better beyond noise, or as good and cheaper."
        if gain is None:
            return "What the choice gains over the default on other scenes is unknown: not both were judged there."
        amount = f"{100 * gain.value:+.1f} points of {self.metric}"
        if gain.value == 0:
            return f"On the test split {winner.name} and the default do not differ ({amount})."
        if not gain.lo <= gain.hi:
            return f"On the test split {winner.name} minus default is {amount}; no interval: {gain.method}."
        interval = f"{amount} [{100 * gain.lo:+.1f}, {100 * gain.hi:+.1f}]"
        if not decided(gain):
            return f"On the test split the choice is within noise: {winner.name} minus default is {interval}."
        good = (gain.value > 0) == (self.better == "higher")
        return f"On the test split {winner.name} is {'better' if good else 'worse'} than the default: {interval}."

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values, null where unknown."""
        return {
            "format": FORMAT,
            "stepscore": __version__,
            "created": self.created,
            "judge": self.judge,
            "model": self.model,
            "metric": self.metric,
            "better": self.better,
            "chosen": self.chosen,
            "best": self.best,
            "tied": list(self.tied),
            "cheapest_by": self.cheapest_by,
            "verdict": self.verdict(),
            "command": self.command,
            "seed": self.seed,
            "share": self.share,
            "episodes": dict(zip(("choose", "test"), self.episodes, strict=True)),
            "scenes": dict(zip(("choose", "test"), self.scenes, strict=True)),
            "combinations": self.combinations,
            "spent": asdict(self.spent),
            "stopped": self.stopped,
            "dropped": dict(self.dropped),
            "notes": list(self.notes),
            "trials": [self._trial(each) for each in self.results],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return rows for CSV: one per trial and judged split."""
        rows = []
        for each in self.results:
            for split, value, gap in (
                ("choose", each.choose, each.from_best),
                ("test", each.test, each.from_default),
            ):
                if value is None and (split == "test" or each.status == "judged"):
                    continue
                rows.append(
                    {
                        "trial": each.name,
                        "split": split,
                        "metric": self.metric,
                        "status": each.status,
                        "chosen": each.name == self.chosen,
                        "front": each.front,
                        **(_estimate(value) or {}),
                        **{
                            f"difference_{name}": (_estimate(gap) or {}).get(name)
                            for name in ("value", "lo", "hi")
                        },
                        **_costs(each.cost),
                    }
                )
        return rows

    def write(self, folder: Path) -> Path:
        """Write ``tuned.json`` into a folder; return its path."""
        path = folder / "tuned.json"
        write_json(path, self.to_dict(), allow_nan=False)
        return path

    def _trial(self, each: TrialResult) -> dict[str, Any]:
        return {
            "trial": each.name,
            "settings": {key: _plain(value) for key, value in each.settings.items()},
            "views": None if each.views is None else list(each.views),
            "status": each.status,
            "reason": each.reason,
            "failed": each.failed,
            "chosen": each.name == self.chosen,
            "front": each.front,
            "choose": _estimate(each.choose),
            "from_best": _estimate(each.from_best),
            "test": _estimate(each.test),
            "from_default": _estimate(each.from_default),
            "per_episode": _costs(each.cost),
        }


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _costs(cost: TrialCost | None) -> dict[str, float | None]:
    return {} if cost is None else {name: finite_or_none(value) for name, value in asdict(cost).items()}


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    numbers = {name: getattr(estimate, name) for name in Estimate.__slots__}
    return {name: finite_or_none(v) if isinstance(v, float) else v for name, v in numbers.items()}

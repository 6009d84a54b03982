"""The best of several prompt templates: chosen on one half of the labelled episodes, reported on the other.

The accuracy of the best of several is biased upwards on the episodes it was chosen by, and not on the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stepscore.analysis.subgoals import verdict_rows
from stepscore.errors import OptionError, RunError
from stepscore.metrics.stats import rate_estimate
from stepscore.runs import Run
from stepscore.types import Estimate


@dataclass(frozen=True)
class TemplateResult:
    """One template's accuracy: the share of labelled subgoals it judged right, unknown being not right.

    Attributes:
        template: Its name; the run folder's where two runs used the same.
        run: The run folder.
        chosen_by: Accuracy on the choosing split; coverage is the share of verdicts that were known.
        reported: Accuracy on the reporting split.
    """

    template: str
    run: str
    chosen_by: Estimate
    reported: Estimate


@dataclass(frozen=True)
class TemplateChoice:
    """The template that was chosen, and its accuracy on other episodes.

    Attributes:
        best: The chosen one; ``best.reported`` is the accuracy to quote.
        results: One per run, in the order given.
        left_out: Number of labelled episodes that some run does not hold.
    """

    best: TemplateResult
    results: tuple[TemplateResult, ...]
    left_out: int

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return rows for JSON and CSV: one per template and split."""
        return [
            {
                "template": c.template,
                "run": c.run,
                "chosen": c is self.best,
                "split": split,
                **{name: getattr(estimate, name) for name in Estimate.__slots__},
            }
            for c in self.results
            for split, estimate in (("choose", c.chosen_by), ("report", c.reported))
        ]


SubgoalOutcomes = Mapping[str, Mapping[str, tuple[float, float]]]
"""Episode id to subgoal to (verdict, label): 1, 0 or NaN."""


def choose_template(runs: Sequence[Run], *, share: float = 0.5, seed: int = 0) -> TemplateChoice:
    """Choose the run whose verdicts match the subgoal labels best on one split, and report it on the other.

    Episodes of one scene (task and ``pair``) stay on one side of the split, and are one cluster of the
    intervals, as are the subgoals of one episode. On equal accuracy the run named first is chosen.

    Args:
        runs: One per template, over the same episodes, with subgoal labels in them.
        share: Share of the scenes to choose on.
        seed: Seed of the split.

    Raises:
        OptionError: Fewer than two runs, or a share that leaves one side empty.
        RunError: No labelled episode is in all of the runs.
    """
    if len(runs) < 2:
        raise OptionError(
            "Choosing needs at least two runs, one per template: stepscore judge -J template=..."
        )
    if not 0 < share < 1:
        raise OptionError(f"share is {share}; it must be between 0 and 1.")
    outcomes = [_outcomes(run) for run in runs]
    scenes = _scenes(runs[0])
    everywhere = sorted(set.intersection(*(set(each) for each in outcomes)))
    if not everywhere:
        raise RunError(
            "No episode with subgoal labels is in all of these runs. "
            "Judge the same episodes each time, with --labels and --subgoals."
        )
    choosing = _split(sorted({scenes[name] for name in everywhere}), share, seed)
    sides = [[name for name in everywhere if (scenes[name] in choosing) == side] for side in (True, False)]
    names = _names(runs)
    results = tuple(
        TemplateResult(name, str(run.path), *(_accuracy(each, side, scenes) for side in sides))
        for name, run, each in zip(names, runs, outcomes, strict=True)
    )
    best = max(results, key=lambda result: result.chosen_by.value)
    return TemplateChoice(best, results, len(set.union(*map(set, outcomes))) - len(everywhere))


def _outcomes(run: Run) -> SubgoalOutcomes:
    """Return verdict and label of every labelled subgoal of a run."""
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for episode, names, source, values in verdict_rows(run):
        rows.setdefault(episode["episode_id"], {})[source] = dict(zip(names, values.tolist(), strict=True))
    outcomes = {
        name: {
            subgoal: (by.get("judge", {}).get(subgoal, np.nan), label)
            for subgoal, label in by.get("label", {}).items()
            if not np.isnan(label)
        }
        for name, by in rows.items()
    }
    return {name: subgoals for name, subgoals in outcomes.items() if subgoals}


def _scenes(run: Run) -> dict[str, str]:
    """Return the scene of each episode, by episode id; the id itself where it shares no scene."""
    table = run.episodes().select(["episode_id", "task", "pair"]).to_pylist()
    return {
        row["episode_id"]: row["episode_id"] if row["pair"] is None else f"{row['task']}\0{row['pair']}"
        for row in table
    }


def _split(scenes: Sequence[str], share: float, seed: int) -> set[str]:
    """Return the scenes to choose on: a share of them, drawn by hash, and at least one on either side."""
    if len(scenes) < 2:
        raise OptionError("All labelled episodes are of one scene; a split needs at least two.")
    drawn = sorted(scenes, key=lambda scene: hashlib.sha256(f"{seed}\0{scene}".encode()).digest())
    return set(drawn[: min(max(round(share * len(drawn)), 1), len(drawn) - 1)])


def _names(runs: Sequence[Run]) -> list[str]:
    templates = [str(run.info["protocol"]["judge"]["options"].get("template", run.judge)) for run in runs]
    return [
        template if templates.count(template) == 1 else f"{template} ({run.path.name})"
        for template, run in zip(templates, runs, strict=True)
    ]


def _accuracy(outcomes: SubgoalOutcomes, episodes: Sequence[str], scenes: Mapping[str, str]) -> Estimate:
    judged = [(name, *mark) for name in episodes for mark in outcomes[name].values()]
    right = np.array([verdict == label for _, verdict, label in judged], dtype=np.float64)
    known = float(np.mean([not np.isnan(verdict) for _, verdict, _ in judged]))
    return replace(rate_estimate(right, clusters=[scenes[name] for name, _, _ in judged]), coverage=known)

"""The verdicts of the embedded judge on rollouts that nothing was fitted on, as a model card states them.

    python -m benchmarks.embedded.success_verdicts TEST --run RUN

TEST is a test set of ``benchmarks/embedded/testset.py``: the 25 trained tasks, each played by 13 policies on the same
scenes, of a seed that was never used before::

    python -m benchmarks.embedded.success_verdicts TEST --run RUN --make 50003

makes it first. Prints balanced accuracy, the success rate by judge against that by label, by task and by policy, near
misses, and how many verdicts change when the same video ends sooner or later. RUN keeps the judgements: a stopped
evaluation is resumed. ``--held-copies 0`` leaves out the videos that end sooner or later.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.embedded.testset import Wanted, main_view, make_tests, read_any
from stepscore.analysis import measure_episodes
from stepscore.episodes import Episode
from stepscore.episodes.perturbations.perturb import cut, pause
from stepscore.judges import get_judge
from stepscore.metrics import balanced_accuracy, mae, roc_auc
from stepscore.metrics.stats import mean_estimate, rate_estimate, statistic_estimate, wilson_interval
from stepscore.models import get_model
from stepscore.runs import CallOptions, Run, score
from stepscore.training.embedded.tasks import TRAINED
from stepscore.types import Estimate, FloatArray

NEAR_MISSES = ("short:1", "short:2", "short:4")
HELD_S = 2.0
"""Seconds that the last frame is held."""
CUT, HELD, CUT_HELD = "cut at first success", "last frame held 2 s", "cut at first success, then held 2 s"


@dataclass(frozen=True)
class Judged:
    """Verdicts on some videos.

    Attributes:
        episodes: The videos.
        verdicts: 1, 0 or NaN by the judge.
        labels: 1 or 0 by label.
        probability: Of success, by the judge.
        errors: Mean distance of calibrated progress from the simulator's potential.
        published: 1, 0 or NaN by topreward's published rule, the mean over the last three prefixes.
    """

    episodes: tuple[Episode, ...]
    verdicts: FloatArray
    labels: FloatArray
    probability: FloatArray
    errors: FloatArray
    published: FloatArray

    def chosen(self, keep: Callable[[Episode], bool]) -> Judged:
        """Return those of some episodes."""
        at = np.array([keep(episode) for episode in self.episodes], dtype=bool)
        episodes = tuple(e for e, one in zip(self.episodes, at, strict=True) if one)
        columns = (self.verdicts, self.labels, self.probability, self.errors, self.published)
        return Judged(episodes, *(column[at] for column in columns))

    @property
    def groups(self) -> dict[str, Any]:
        """Scenes and tasks, as estimates take them."""
        return {"clusters": [e.pair for e in self.episodes], "strata": [str(e.task) for e in self.episodes]}


def judge_all(episodes: Sequence[Episode], out: Path) -> Judged:
    """Judge episodes with the packaged judge and its own options."""
    judge = get_judge("topreward", model=get_model("embedded"))
    run = score(
        [replace(e, subgoals=()) for e in episodes], judge, out, call_options=CallOptions(cache=False)
    )
    wanted = {e.id: e for e in episodes}
    return _judged(run, wanted)


def _judged(run: Run, wanted: dict[str, Episode]) -> Judged:
    measured = measure_episodes(run)
    at = [i for i, row in enumerate(measured.episodes) if row["episode_id"] in wanted]
    episodes = tuple(wanted[measured.episodes[i]["episode_id"]] for i in at)
    labels = [float(bool(e.labels.success)) for e in episodes]
    known = [measured.episodes[i]["success_probability"] for i in at]
    scores = [measured.episodes[i]["success_score"] for i in at]
    errors = [_error(e, *measured.curves[i]) for e, i in zip(episodes, at, strict=True)]
    return Judged(
        episodes,
        measured.values["success_judge"][at],
        np.array(labels),
        np.array([math.nan if p is None else p for p in known]),
        np.array(errors),
        np.array([math.nan if s is None else float(s >= 0.5) for s in scores]),
    )


def _error(episode: Episode, times: FloatArray, progress: FloatArray) -> float:
    at, values = episode.labels.progress()
    return mae(progress, np.interp(times, at, values)) if len(times) and len(at) else math.nan


def decisions(judged: Judged) -> list[str]:
    """Return the table of all episodes."""
    groups = judged.groups
    accuracy = statistic_estimate(balanced_accuracy, (judged.verdicts, judged.labels), **groups)
    sure = np.where(np.isnan(judged.verdicts), np.nan, judged.verdicts == judged.labels)
    near = judged.chosen(lambda e: e.policy in NEAR_MISSES)
    rows = [
        ("balanced accuracy of the verdict", _number(accuracy), "≥ 0.90"),
        ("accuracy", _number(rate_estimate(sure, **groups)), ""),
        ("of the successes, called so", _number(_rate(judged, 1.0)), ""),
        ("of the failures, called a success", _number(_rate(judged, 0.0)), ""),
        ("success rate by judge", _number(rate_estimate(judged.verdicts, **groups)), ""),
        ("success rate by label", _number(rate_estimate(judged.labels, **groups)), ""),
        ("judge minus label", _number(_difference(judged)), "within ± 0.05"),
        ("near misses (1, 2, 4 cm short) that failed, called a success", _number(_rate(near, 0.0)), ""),
        ("near misses, balanced accuracy", _number(_balanced(near)), ""),
        (
            "without the map, by the published rule: balanced accuracy",
            _number(statistic_estimate(balanced_accuracy, (judged.published, judged.labels), **groups)),
            "",
        ),
        (
            "without the map: success rate by judge",
            _number(rate_estimate(judged.published, **groups)),
            "",
        ),
        ("AUC", _number(statistic_estimate(roc_auc, (judged.probability, judged.labels), **groups)), ""),
        ("error of calibrated progress (MAE)", _number(mean_estimate(judged.errors, **groups)), ""),
    ]
    return ["| figure | value | target |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]


def by_policy(judged: Judged) -> list[str]:
    """Return the table by policy: both rates, and their difference over the same episodes."""
    lines = [
        "| policy | n | success by label | success by judge | judge minus label |",
        "|---|---|---|---|---|",
    ]
    for policy in dict.fromkeys(str(e.policy) for e in judged.episodes):
        mine = judged.chosen(lambda e, policy=policy: e.policy == policy)  # type: ignore[misc]
        rates = [f"{np.nanmean(values):.3f}" for values in (mine.labels, mine.verdicts)]
        lines.append(
            f"| {policy} | {len(mine.episodes)} | {' | '.join(rates)} | {_number(_difference(mine))} |"
        )
    return lines


def by_task(judged: Judged) -> list[str]:
    """Return the table by task, worst first; a task whose whole interval lies under 0.75 is marked."""
    lines = [
        "| task | successes / failures | balanced accuracy | judge minus label | AUC |",
        "|---|---|---|---|---|",
    ]
    found = []
    for task in dict.fromkeys(str(e.task) for e in judged.episodes):
        mine = judged.chosen(lambda e, task=task: str(e.task) == task)  # type: ignore[misc]
        accuracy = _balanced(mine)
        counts = f"{int(mine.labels.sum())} / {int(np.sum(mine.labels == 0))}"
        error = float(np.nanmean(mine.verdicts - mine.labels))
        auc = roc_auc(mine.probability, mine.labels)
        mark = " ✗" if accuracy.hi < 0.75 else ""
        found.append(
            (accuracy.value, f"| {task} | {counts} | {_number(accuracy)}{mark} | {error:+.3f} | {auc:.3f} |")
        )
    return [*lines, *(line for _, line in sorted(found, key=lambda one: one[0]))]


def lingering(judged: Judged, changed: dict[str, Judged]) -> list[str]:
    """Return the table of verdicts that change when a video ends sooner or later with the same outcome."""
    own = {e.id: v for e, v in zip(judged.episodes, judged.verdicts, strict=True)}
    lines = [
        "| the same episodes | n | verdicts that change | called a success, before and after |",
        "|---|---|---|---|",
    ]
    answers = {
        name: {
            str(e.metadata["changed_from"]): v for e, v in zip(other.episodes, other.verdicts, strict=True)
        }
        for name, other in changed.items()
    }
    pairs = [
        (HELD, own, answers[HELD]),
        (CUT, own, answers[CUT]),
        (CUT_HELD, answers[CUT], answers[CUT_HELD]),
    ]
    success = {e.id for e, label in zip(judged.episodes, judged.labels, strict=True) if label}
    for name, before, after in pairs:
        # An undone success that is cut where it was done has another outcome: it is no copy of the same.
        ids = [i for i in after if i in before and (name == HELD or i in success)]
        moved = np.array([float(before[i] != after[i]) for i in ids])
        shown = name if name != CUT_HELD else "held 2 s after the cut, against the cut"
        rates = f"{np.mean([before[i] for i in ids]):.3f}, {np.mean([after[i] for i in ids]):.3f}"
        lines.append(f"| {shown} | {len(ids)} | {_number(rate_estimate(moved))} | {rates} |")
    both = [own[i] != answers[HELD][i] for i in own if i in answers[HELD]]
    both += [own[i] != answers[CUT].get(i, own[i]) for i in own if i in success or i not in answers[CUT]]
    lines.append(f"| all of the first two, uncut failures included | {len(both)} | {np.mean(both):.3f} | |")
    return lines


def copies(episodes: Sequence[Episode]) -> dict[str, list[Episode]]:
    """Return each episode as it would be if it ended at its first success, and with its last frame held."""
    made: dict[str, list[Episode]] = {CUT: [], HELD: [], CUT_HELD: []}
    for episode in episodes:
        last = float(episode.views[episode.main_view].timestamps()[-1])
        made[HELD].append(pause(episode, last, HELD_S))
        at, values = episode.labels.progress()
        done = at[values >= 1 - 1e-9]
        if len(done) and done[0] < last - 1e-6:
            ended = cut(episode, float(done[0]) + 1e-3)
            made[CUT].append(ended)
            made[CUT_HELD].append(pause(ended, float(done[0]), HELD_S))
    return made


def _rate(judged: Judged, label: float) -> Estimate:
    mine = judged.labels == label
    groups: dict[str, Any] = {
        name: [v for v, one in zip(values, mine, strict=True) if one]
        for name, values in judged.groups.items()
    }
    return rate_estimate(judged.verdicts[mine], **groups)


def _difference(judged: Judged) -> Estimate:
    return mean_estimate(judged.verdicts - judged.labels, **judged.groups)


def _balanced(judged: Judged) -> Estimate:
    """Estimate balanced accuracy from Wilson intervals of its two halves (MOVER; Zou & Donner 2008).

    Episodes are the units: the four scenes of a task are too few to resample.
    """
    ends, rates, total = [], [], 0
    for label in (0.0, 1.0):
        right = judged.verdicts[(judged.labels == label) & ~np.isnan(judged.verdicts)] == label
        total += len(right)
        rates.append(float(np.mean(right)) if len(right) else math.nan)
        ends.append(wilson_interval(int(np.sum(right)), len(right)) if len(right) else (math.nan, math.nan))
    value = sum(rates) / 2
    low = value - math.hypot(rates[0] - ends[0][0], rates[1] - ends[1][0]) / 2
    high = value + math.hypot(ends[0][1] - rates[0], ends[1][1] - rates[1]) / 2
    return Estimate(value, low, high, total, total, total / max(len(judged.labels), 1), "mover of wilson 95%")


def _number(e: Estimate) -> str:
    ends = f" [{e.lo:.3f}, {e.hi:.3f}]" if math.isfinite(e.lo) and math.isfinite(e.hi) else ""
    return f"{e.value:.3f}{ends}"


def main() -> None:
    """Print the tables; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("test", type=Path, help="folder of the test set")
    parser.add_argument("--run", type=Path, required=True, help="folder of the runs")
    parser.add_argument(
        "--make", type=int, metavar="SEED", help="make the test set of this seed where it is missing"
    )
    parser.add_argument(
        "--held-copies", type=int, default=1, help="0: leave out copies that end sooner or later"
    )
    given = parser.parse_args()
    if given.make is not None:
        make_tests(given.test, TRAINED, Wanted(given.make, pairs=0, scenes=4, two_views=0))
    episodes = main_view([e for part in sorted(given.test.glob("round-*/part-*")) for e in read_any(part)])
    judged = judge_all(episodes, given.run / "recorded")
    scenes = len({(str(e.task), e.pair) for e in episodes})
    print(f"{len(episodes)} episodes of {len({e.task for e in episodes})} tasks in {scenes} scenes.\n")
    tables = {"Decisions": decisions(judged), "By policy": by_policy(judged), "By task": by_task(judged)}
    if given.held_copies:
        names = {CUT: "cut", HELD: "held", CUT_HELD: "cut-held"}
        made = copies(episodes)
        changed = {name: judge_all(made[name], given.run / folder) for name, folder in names.items()}
        tables["A video that ends sooner or later"] = lingering(judged, changed)
    for title, lines in tables.items():
        print("\n".join([f"#### {title}", "", *lines, ""]))


if __name__ == "__main__":
    main()

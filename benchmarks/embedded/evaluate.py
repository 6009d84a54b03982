"""All steps of the evaluation: the test set, one scoring of it, and every figure."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from stepscore.episodes import Episode
from stepscore.judges.calibration import FittedMap
from stepscore.judges.topreward import TopReward
from stepscore.models import Model, get_model
from stepscore.models.domain_gate import GATE_FILE
from stepscore.models.embedded import FOLDER, EmbeddedModel
from stepscore.training.embedded_tasks import FPS, HELD_OUT, MAX_PIXELS, SIZE, TRAINED

from .controls import instruction_figures, picture_figures, rise_figures
from .figures import Figure
from .looks import Matched, match_all, plan_looks
from .moments import pair_figures
from .progress import fingerprint_figures, opd_figures, progress_figures
from .rows import Scored, read_rows, write_rows
from .scoring import Scorer
from .statements import subgoal_figures
from .success import success_figures
from .testset import Wanted, make_task

PREFIXES, MIN_FIRST = 16, 2
"""How films are shown: prefixes from the first two frames on, sixteen in a film that is long enough."""


@dataclass(frozen=True)
class Evaluation:
    """What is evaluated and how much of it.

    Attributes:
        model: ``embedded`` or ``hf/FOLDER``.
        out: Where the test set, the scores and the figures are kept.
        wanted: How much is made of a trained task.
        tasks: Trained tasks.
        held_out: Tasks that were never trained.
        held_out_episodes: Episodes of each of these.
        changed_pairs: Matched pairs of a task that are also scored under changed pictures.
        controls: Successes of a task that are frozen and reversed.
        batch: Films in one pass.
        max_pixels: Most pixels of a frame, for ``hf/``.
    """

    model: str
    out: Path
    wanted: Wanted
    tasks: tuple[str, ...] = TRAINED
    held_out: tuple[str, ...] = HELD_OUT
    held_out_episodes: int = 26
    changed_pairs: int = 5
    controls: int = 6
    batch: int = 4
    max_pixels: int = MAX_PIXELS

    @property
    def checkpoint(self) -> Path:
        """The model's folder."""
        return FOLDER if self.model == "embedded" else Path(self.model.removeprefix("hf/"))

    @property
    def scores(self) -> Path:
        """The file of scores."""
        return self.out / "scores.jsonl"

    def judge_model(self, batch: int | None = None) -> Model:
        """The model without its gate."""
        films = self.batch if batch is None else batch
        if self.model == "embedded":
            return cast(Model, EmbeddedModel(gate=False, batch=films))
        return get_model(self.model, max_pixels=self.max_pixels, batch=films)

    def gated_model(self) -> Model | None:
        """The model behind its gate; ``None`` where the checkpoint has none."""
        if not (self.checkpoint / GATE_FILE).is_file():
            return None
        return cast(Model, EmbeddedModel(checkpoint=str(self.checkpoint)))


def judge_of(model: Model) -> TopReward:
    """``topreward`` as it is evaluated."""
    return TopReward(model, prefixes=PREFIXES, min_first=MIN_FIRST, size=SIZE)


@dataclass(frozen=True)
class TestEpisodes:
    """The episodes of the test set, trained and held-out tasks apart, with their pairs of matched length."""

    trained: tuple[Episode, ...]
    held_out: tuple[Episode, ...]
    matched: Matched
    held_out_matched: Matched


def make_episodes(evaluation: Evaluation) -> TestEpisodes:
    """The test set, made or found."""
    folder, wanted = evaluation.out / "test", evaluation.wanted
    few = replace(wanted, per_task=evaluation.held_out_episodes, scenes=1)
    trained = [e for task in evaluation.tasks for e in make_task(folder, task, wanted)]
    others = [e for task in evaluation.held_out for e in make_task(folder, task, few)]
    return TestEpisodes(
        tuple(trained), tuple(others), match_all(trained, evaluation.changed_pairs), match_all(others, 0)
    )


def score_once(evaluation: Evaluation, found: TestEpisodes) -> list[Scored]:
    """Every film's scores; those in the file are not asked again."""
    known = {(row.id, row.variant) for row in read_rows(evaluation.scores)}
    work = [
        *plan_looks(found.trained, found.matched, evaluation.controls),
        *plan_looks(found.held_out, found.held_out_matched, controls=5),
    ]
    left = [(e, [look for look in looks if (e.id, look.variant) not in known]) for e, looks in work]
    left = [(e, looks) for e, looks in left if looks]
    films, done, started = sum(len(looks) for _, looks in left), 0, time.process_time()

    def keep(rows: list[Scored]) -> None:
        nonlocal done
        write_rows(evaluation.scores, rows)
        done += len(rows)
        if done % 500 < len(rows):
            spent = time.process_time() - started
            print(f"{done} of {films} films, {spent:.0f} CPU s", file=sys.stderr, flush=True)

    model = evaluation.judge_model()
    Scorer(model, judge_of(model)).score(left, keep)
    return read_rows(evaluation.scores)


def score_figures(rows: Sequence[Scored], found: TestEpisodes, fitted: FittedMap) -> list[Figure]:
    """Every figure that follows from the scores, of trained and of held-out tasks."""
    ids = {e.id for e in found.trained}
    trained = [row for row in rows if row.id in ids]
    others = [row for row in rows if row.id not in ids]
    figures = _of(trained, found.matched, fitted)
    for figure in _of(others, found.held_out_matched, fitted) if others else []:
        figures.append(
            replace(figure, group=f"Held-out tasks, gate off: {figure.group}", target=None, at_most=False)
        )
    return figures


def _of(rows: Sequence[Scored], matched: Matched, fitted: FittedMap) -> list[Figure]:
    prints = fingerprint_figures(rows, fitted.map)
    pictures = picture_figures(rows, matched)
    return [
        *success_figures(rows, matched),
        *progress_figures(rows, fitted.map),
        *opd_figures(rows, fitted.map),
        *prints,
        *subgoal_figures(rows),
        *rise_figures(rows),
        *instruction_figures(rows),
        *pictures,
        *pair_figures(rows),
    ]


def about(evaluation: Evaluation, found: TestEpisodes, rows: Sequence[Scored]) -> dict[str, Any]:
    """What the figures were made with."""
    judge = judge_of(evaluation.judge_model())
    pairs: dict[str, int] = {}
    tasks = {e.id: str(e.task) for e in found.trained}
    for match in found.matched.all:
        pairs[tasks[match.success]] = pairs.get(tasks[match.success], 0) + 1
    options = {name: value for name, value in judge.options().items() if name != "prompt"}
    return {
        "model": dict(judge.model.describe()),
        "judge": {"name": judge.name, "version": judge.version, "options": options},
        "test_seed": evaluation.wanted.seed,
        "fps": evaluation.wanted.fps or FPS,
        "episodes": {"trained tasks": len(found.trained), "held-out tasks": len(found.held_out)},
        "matched_pairs": pairs,
        "films": len(rows),
    }

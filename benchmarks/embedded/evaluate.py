"""All steps of the evaluation: the test set, one scoring of it, and every figure."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

from benchmarks.embedded.figures import HELD_OUT_GROUP, Figure
from benchmarks.embedded.measures.controls import image_figures, instruction_figures, rise_figures
from benchmarks.embedded.measures.pair_order import pair_figures
from benchmarks.embedded.measures.progress import failure_mode_figures, opd_figures, progress_figures
from benchmarks.embedded.measures.subgoals import subgoal_figures
from benchmarks.embedded.measures.success import success_figures
from benchmarks.embedded.rows import Scored, read_rows, write_rows
from benchmarks.embedded.scoring import Scorer, Variant
from benchmarks.embedded.testset import Wanted, make_tests, scene_of
from benchmarks.embedded.variants import Matched, match_all, plan_variants
from stepscore.episodes import Episode
from stepscore.judges.common.calibration import FittedMap
from stepscore.judges.topreward import TopReward
from stepscore.models import Model, get_model
from stepscore.models.embedded.model import FOLDER, EmbeddedModel, trained_side
from stepscore.models.embedded.ood import GATE_FILE
from stepscore.training.embedded.tasks import HELD_OUT, SIZE, TRAINED

EPISODES_PER_WRITE = 48
"""Episodes that a worker scores before their rows are written."""
PREFIXES, MIN_FIRST = 16, 2
"""Prefixes of a video that is long enough, and the frames of the shortest one."""


@dataclass(frozen=True)
class Evaluation:
    """An evaluation: the model, the test set and how much of it is scored.

    Attributes:
        model: ``embedded`` or ``hf/FOLDER``.
        out: Where the scores and the figures are kept.
        test: Where the test set is, or is made.
        wanted: How much is made of a trained task.
        tasks: Trained tasks.
        held_out: Tasks that were never trained.
        held_out_scenes: Scenes of each of these, over which the policies are dealt out.
        changed_pairs: Matched pairs of a task that are also scored under changed images.
        controls: Successes of a task that are frozen and reversed.
        batch: Videos in one pass.
        max_pixels: Most pixels of a frame, for ``hf/``; ``None`` for those that the checkpoint was trained at.
    """

    model: str
    out: Path = Path()
    test: Path = Path()
    wanted: Wanted = field(default_factory=Wanted)
    tasks: tuple[str, ...] = TRAINED
    held_out: tuple[str, ...] = HELD_OUT
    held_out_scenes: int = 5
    changed_pairs: int = 3
    controls: int = 4
    batch: int = 4
    max_pixels: int | None = None

    @property
    def checkpoint(self) -> Path:
        """Folder of the model."""
        return FOLDER if self.model == "embedded" else Path(self.model.removeprefix("hf/"))

    @property
    def scores(self) -> Path:
        """File of the scores."""
        return self.out / "scores.jsonl"

    def judge_model(self, batch: int | None = None) -> Model:
        """Return the model without its gate."""
        videos = self.batch if batch is None else batch
        if self.model == "embedded":
            return cast(Model, EmbeddedModel(gate=False))
        pixels = self.max_pixels or trained_side(self.checkpoint) ** 2
        return get_model(self.model, max_pixels=pixels, batch=videos)

    def gated_model(self) -> Model | None:
        """Return the model behind its gate; ``None`` where the checkpoint has none."""
        if not (self.checkpoint / GATE_FILE).is_file():
            return None
        return cast(Model, EmbeddedModel(checkpoint=str(self.checkpoint)))

    def product_model(self) -> Model:
        """Return the model as users have it: behind its gate where there is one."""
        return self.gated_model() or self.judge_model(batch=1)


def judge_of(model: Model) -> TopReward:
    """Return ``topreward`` as it is evaluated."""
    return TopReward(model, prefixes=PREFIXES, min_first=MIN_FIRST, size=SIZE)


@dataclass(frozen=True)
class TestEpisodes:
    """The episodes of the test set, trained and held-out tasks apart, with their pairs of matched length."""

    trained: tuple[Episode, ...]
    held_out: tuple[Episode, ...]
    matched: Matched
    held_out_matched: Matched


def make_episodes(evaluation: Evaluation) -> TestEpisodes:
    """Read the test set, or make it."""
    wanted = evaluation.wanted
    few = replace(wanted, pairs=0, scenes=evaluation.held_out_scenes, two_views=0, dealt=True)
    trained = make_tests(evaluation.test / "trained", evaluation.tasks, wanted)
    others = make_tests(evaluation.test / "held-out", evaluation.held_out, few)
    return TestEpisodes(
        tuple(trained), tuple(others), match_all(trained, evaluation.changed_pairs), match_all(others, 0)
    )


def score_once(evaluation: Evaluation, found: TestEpisodes) -> list[Scored]:
    """Score every video; those in the file are not scored again."""
    known = {(row.id, row.variant) for row in read_rows(evaluation.scores)}
    scenes = evaluation.wanted.scenes
    work = [
        *plan_variants(found.trained, found.matched, evaluation.controls, scenes),
        *plan_variants(
            found.held_out, found.held_out_matched, evaluation.controls, evaluation.held_out_scenes
        ),
    ]
    left = [(e, [v for v in variants if (e.id, v.name) not in known]) for e, variants in work]
    left = [(e, variants) for e, variants in left if variants]
    videos, done, spent = sum(len(variants) for _, variants in left), 0, 0.0
    parts = [left[i : i + EPISODES_PER_WRITE] for i in range(0, len(left), EPISODES_PER_WRITE)]
    workers = evaluation.wanted.workers
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin, (evaluation,)) as pool:
        for rows, seconds in pool.map(_score, parts):
            write_rows(evaluation.scores, rows)
            done, spent = done + len(rows), spent + seconds
            print(f"{done} of {videos} videos, {spent:.0f} CPU s", file=sys.stderr, flush=True)
    return read_rows(evaluation.scores)


_SCORERS: list[Scorer] = []
"""The scorer of this worker process."""


def _begin(evaluation: Evaluation) -> None:
    """Make a worker's scorer; each computes on one thread, so that workers do not wait for each other."""
    import torch

    torch.set_num_threads(1)
    model = evaluation.judge_model()
    _SCORERS[:] = [Scorer(model, judge_of(model))]


def _score(work: Sequence[tuple[Episode, list[Variant]]]) -> tuple[list[Scored], float]:
    """Return rows of some episodes, and the processor time of this worker that they took."""
    rows: list[Scored] = []
    started = time.process_time()
    _SCORERS[0].score(work, rows.extend)
    return rows, time.process_time() - started


def score_figures(
    evaluation: Evaluation, rows: Sequence[Scored], found: TestEpisodes, fitted: FittedMap
) -> list[Figure]:
    """Compute every figure that follows from the scores, of trained and of held-out tasks."""
    ids = {e.id for e in found.trained}
    trained = [row for row in rows if row.id in ids]
    others = [row for row in rows if row.id not in ids]
    figures = _of(trained, found.matched, fitted, evaluation.wanted.scenes)
    scenes = evaluation.held_out_scenes
    for figure in _of(others, found.held_out_matched, fitted, scenes) if others else []:
        if figure.estimate.n:
            group = f"{HELD_OUT_GROUP}: {figure.group}"
            figures.append(replace(figure, group=group, target=None, at_most=False))
    return figures


def _of(rows: Sequence[Scored], matched: Matched, fitted: FittedMap, scenes: int) -> list[Figure]:
    """Figures of some tasks; ``scenes`` of each were met by every policy, the others serve matched pairs alone."""
    met = [row for row in rows if scene_of(row) < scenes]
    assert fitted.map is not None
    return [
        *success_figures(rows, matched),
        *progress_figures(met, fitted.map),
        *opd_figures(met, fitted.map),
        *failure_mode_figures(met, fitted.map),
        *subgoal_figures(met),
        *rise_figures(rows),
        *instruction_figures(rows),
        *image_figures(rows, matched),
        *pair_figures(met),
    ]


def about(evaluation: Evaluation, found: TestEpisodes) -> dict[str, Any]:
    """Describe how the figures were made."""
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
        "fps": evaluation.wanted.fps,
        "episodes": {"trained tasks": len(found.trained), "held-out tasks": len(found.held_out)},
        "matched_pairs": pairs,
    }

"""The tables, part by part; each is made of what judges say of the test films."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.sarm.configs import CAUSAL, COPIES, INDEX, INDEX_SUCCESSES, SARM, STAGES
from benchmarks.sarm.judgements import Said, Trained, by_clock
from benchmarks.sarm.splits import MOVED_VIEW
from benchmarks.sarm.tables import (
    ALL,
    VOC,
    Cell,
    Says,
    difference_cells,
    error_cells,
    mean_over,
    quality_cells,
)
from benchmarks.sarm.videos import Ended, Film, film_of, oddness, seen_from
from benchmarks.sarm.zero_shot import TOPREWARD
from stepscore.episodes import Episode
from stepscore.episodes.perturbations.perturb import shift
from stepscore.models.sarm.encoders import FrameEncoder
from stepscore.training.embedded.tasks import VIEW
from stepscore.types import Estimate

SPARSE, CLOCK, TRUTH = "SARM's sparse head, no stages", "linear time", "the potential itself"
HELD_OUT, DIFFERENCES, HALVES = (
    "Held-out episodes",
    "Difference of MAE on the same episodes",
    "Successes by their stage durations",
)
BY_TASK, CHANGES, DEMONSTRATIONS, DECODE, WORDS = (
    "MAE by task",
    "MAE under change, all episodes",
    "Demonstrations a task",
    "Decoding",
    "The embedded judge's answers in words, on fewer episodes",
)
NOTES = {
    HELD_OUT: "Points: the embedded judge at up to 16 prefixes, all others at every frame. Of judges that tell no "
    "stages, the one counts in which their progress lies. VOC of linear time is 1 by what it is. AUC: failures are "
    "cut to the lengths of successes, so that length says nothing.",
    DIFFERENCES: "Below 0 the first is better. Each was trained once: intervals are over episodes, and say nothing "
    "of another training.",
    HALVES: "Half the sum of absolute differences between a success's stages' shares of the time and their mean over "
    "its task; the median parts the halves. Differences below 0: SARM is better.",
    CHANGES: "Speeds: at 10 frames a second, frames are left out or repeated. Picture moved: 16 pixels of 224 to the "
    "right and 8 down. Camera moved: 20 cm further away. New object starts: other episodes, whose objects start "
    "beyond all that were trained.",
    DEMONSTRATIONS: "Rows: annotated episodes a task, successes and failures.",
    DECODE: "Differences below 0: the mean over stages is better.",
    WORDS: "Each at its own moments. The goal image of hop is the last frame of a success in the same scene; a "
    "success's is its own.",
}
SPEEDS = (0.5, 0.75, 1.5, 2.0)
SHIFT = {"dx": 16, "dy": 8}
"""Pixels of 224 by which the picture is moved."""

Judge = Callable[[Film], Said]


@dataclass(frozen=True, eq=False)
class Test:
    """What is tested on.

    Attributes:
        episodes: The test set's episodes.
        films: The same as the encoder saw them.
        ends: Successes and failures of matched length.
        encoder: What saw them.
        cache: Where that is kept.
    """

    episodes: tuple[Episode, ...]
    films: tuple[Film, ...]
    ends: tuple[Ended, ...]
    encoder: FrameEncoder
    cache: Path

    def says(self, judge: Judge) -> dict[str, Said]:
        """What a judge says of every film."""
        return {film.id: judge(film) for film in self.films}

    def scores(self, judge: Judge) -> list[tuple[Ended, float]]:
        """A judge's success score of every film of matched length."""
        films = {film.id: film for film in self.films}
        return [(one, judge(films[one.id].begun(one.frames)).score) for one in self.ends]

    def changed(self, change: Callable[[Episode], Episode]) -> list[Film]:
        """The films under a change of their pictures, encoded anew."""
        return [film_of(change(episode), self.encoder, self.cache) for episode in self.episodes]


def judges_of(trained: Mapping[str, Trained]) -> dict[str, Judge]:
    """Those that are trained, by title, and the clock."""
    judges: dict[str, Judge] = {title: one.say for title, one in trained.items()}
    return {**judges, SPARSE: partial(trained[SARM].say, head="sparse"), CLOCK: by_clock}


def held_out_cells(
    test: Test, judges: Mapping[str, Judge], zero_shot: Says, ends: Mapping[str, Said]
) -> list[Cell]:
    """Error, stages, order and success of every judge; differences on the same episodes; durations; tasks.

    Args:
        test: The test set.
        judges: Those that score films.
        zero_shot: What the embedded judge said of every film.
        ends: What it said of every film of matched length.
    """
    titles = (SARM, CAUSAL, COPIES, SPARSE, STAGES, INDEX, INDEX_SUCCESSES, CLOCK)
    said: dict[str, Says] = {title: test.says(judges[title]) for title in titles}
    scores = {title: test.scores(judges[title]) for title in titles}
    said[TOPREWARD] = zero_shot
    scores[TOPREWARD] = [(one, ends[one.episode.id].score) for one in test.ends]
    cells = [
        cell
        for title in said
        for cell in quality_cells(HELD_OUT, title, said[title], test.films, scores[title])
    ]
    done = [film for film in test.films if film.success]
    cells.append(Cell(HELD_OUT, TRUTH, VOC, mean_over(done, lambda film: as_said(film).order())))
    pairs = (
        (SARM, INDEX),
        (SARM, INDEX_SUCCESSES),
        (STAGES, INDEX_SUCCESSES),
        (CAUSAL, INDEX),
        (SARM, SPARSE),
        (SARM, CLOCK),
        (SARM, TOPREWARD),
    )
    for one, other in pairs:
        row = f"{one} minus {other}"
        cells += difference_cells(DIFFERENCES, row, said[one], said[other], test.films)
    return [*cells, *half_cells(done, said), *task_cells(test.films, said)]


def as_said(film: Film) -> Said:
    """The potential as if a judge had said it."""
    return Said(film.times, film.truth, float(film.truth[-1]))


def half_cells(done: Sequence[Film], said: Mapping[str, Says]) -> list[Cell]:
    """Successes whose stages take their usual shares of the time, and those in which they do not."""
    odd = dict(zip((film.id for film in done), oddness(done), strict=True))
    middle = float(np.median(list(odd.values()))) if odd else 0.0
    halves = {
        "usual half": [film for film in done if odd[film.id] <= middle],
        "unusual half": [film for film in done if odd[film.id] > middle],
    }
    cells = []
    for row, films in halves.items():
        cells.append(
            Cell(HALVES, row, "distance from the usual shares", mean_over(films, lambda film: odd[film.id]))
        )
        cells += [
            Cell(HALVES, row, f"MAE, {title}", _error(films, said[title]))
            for title in (SARM, STAGES, INDEX, INDEX_SUCCESSES, CLOCK)
        ]
        for title in (SARM, STAGES):
            gap = difference_cells(HALVES, row, said[title], said[INDEX_SUCCESSES], films)[-1]
            cells.append(replace(gap, column=f"{title} minus {INDEX_SUCCESSES}"))
    return cells


def task_cells(films: Sequence[Film], said: Mapping[str, Says]) -> list[Cell]:
    """Errors task by task."""
    return [
        Cell(BY_TASK, task, title, _error([film for film in films if film.task == task], said[title]))
        for task in sorted({film.task for film in films})
        for title in (SARM, CAUSAL, INDEX, INDEX_SUCCESSES, CLOCK, TOPREWARD)
    ]


def _error(films: Sequence[Film], said: Says) -> Estimate:
    return mean_over(films, lambda film: said[film.id].error(film))


def change_cells(test: Test, judges: Mapping[str, Judge], elsewhere: Sequence[Film]) -> list[Cell]:
    """Errors at other speeds, with the picture moved, the camera moved, and the object elsewhere."""
    sets: dict[str, Sequence[Film]] = {"as recorded": test.films}
    for speed in SPEEDS:
        sets[f"{speed:g}x speed"] = [film.resampled(speed) for film in test.films]
    sets["picture moved"] = test.changed(lambda e: shift(e.with_views([VIEW]), **SHIFT))
    sets["camera moved"] = test.changed(lambda e: seen_from(e, MOVED_VIEW))
    sets["new object starts"] = elsewhere
    return [
        Cell(CHANGES, title, name, _error(films, {film.id: judges[title](film) for film in films}))
        for title in (SARM, CAUSAL, COPIES, INDEX, INDEX_SUCCESSES, CLOCK)
        for name, films in sets.items()
    ]


def demonstration_cells(test: Test, judges: Mapping[int, Judge]) -> list[Cell]:
    """SARM by how many demonstrations a task it learned from."""
    return [
        cell
        for count, judge in judges.items()
        for cell in quality_cells(
            DEMONSTRATIONS, str(count), test.says(judge), test.films, test.scores(judge)
        )
    ]


def decode_cells(test: Test, trained: Mapping[str, Trained]) -> list[Cell]:
    """Progress of the likeliest stage, and the mean over all stages by their probability."""
    cells = []
    for title in (SARM, CAUSAL):
        said = {
            decode: test.says(partial(trained[title].say, decode=decode)) for decode in ("argmax", "expected")
        }
        done = [film for film in test.films if film.success]
        for decode, ones in said.items():
            row = f"{title}, {decode}"
            cells += error_cells(DECODE, row, ones, test.films)
            cells.append(Cell(DECODE, row, ALL, _error(test.films, ones)))
            cells.append(Cell(DECODE, row, VOC, mean_over(done, partial(_order, ones))))
        row = f"{title}, expected minus argmax"
        cells += difference_cells(DECODE, row, said["expected"], said["argmax"], test.films)
    return cells


def _order(said: Says, film: Film) -> float:
    return said[film.id].order()


def word_cells(test: Test, judges: Mapping[str, Judge], said: Mapping[str, Says]) -> list[Cell]:
    """The embedded judge in its three forms, and SARM, on the episodes that all were asked of.

    Args:
        test: The test set.
        judges: Those that score films.
        said: What the embedded judge said, by form.
    """
    shown = set.intersection(*(set(ones) for ones in said.values()))
    films = [film for film in test.films if film.id in shown]
    ones: dict[str, Says] = {title: test.says(judges[title]) for title in (SARM, CAUSAL, CLOCK)}
    return [cell for title, one in {**ones, **said}.items() for cell in error_cells(WORDS, title, one, films)]

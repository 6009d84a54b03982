"""The tables, section by section, from the judges' predictions for the test videos."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sarm.configs import AUGMENTED, CAUSAL, INDEX, INDEX_SUCCESSES, SARM, STAGES
from benchmarks.sarm.judgements import Prediction, TrainedModel, linear_time_prediction
from benchmarks.sarm.splits import MOVED_VIEW
from benchmarks.sarm.tables import (
    ALL,
    VOC,
    Cell,
    Predictions,
    difference_cells,
    error_cells,
    mean_over,
    quality_cells,
)
from benchmarks.sarm.videos import MatchedVideo, Video, duration_distance, encode_video, from_view
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
    HELD_OUT: "Points: the embedded judge at up to 16 prefixes, all others at every frame. A judge "
    "without stages counts as being in the stage of its progress. VOC of linear time is 1 by definition. AUC: "
    "failures are cut to the lengths of successes, so that length carries no information.",
    DIFFERENCES: "Below 0 the first is better. Each was trained once: intervals are over episodes, not over "
    "training runs.",
    HALVES: "Half the sum of absolute differences between a success's stages' shares of the time and their mean over "
    "its task; the halves are split at the median. Differences below 0: SARM is better.",
    CHANGES: "Speeds: at 10 frames a second, frames are left out or repeated. Image shifted: 16 pixels of 224 to the "
    "right and 8 down. Camera moved: 20 cm further away. New object starts: other episodes, whose objects start "
    "beyond all that were trained on.",
    DEMONSTRATIONS: "Rows: annotated episodes per task, successes and failures.",
    DECODE: "Differences below 0: the mean over stages is better.",
    WORDS: "Each at its own frames. The goal image of hop is the last frame of a success in the same scene; a "
    "success's is its own.",
}
SPEEDS = (0.5, 0.75, 1.5, 2.0)
SHIFT: Mapping[str, Any] = {"dx": 16, "dy": 8}
"""Pixels of 224 by which the image is shifted."""

Judge = Callable[[Video], Prediction]


@dataclass(frozen=True, eq=False)
class TestSet:
    """The test split.

    Attributes:
        episodes: Its episodes.
        videos: The same episodes, encoded.
        ends: Successes and failures of matched length.
        encoder: The encoder.
        features_dir: Folder of encoded frames.
    """

    episodes: tuple[Episode, ...]
    videos: tuple[Video, ...]
    ends: tuple[MatchedVideo, ...]
    encoder: FrameEncoder
    features_dir: Path

    def predictions(self, judge: Judge) -> dict[str, Prediction]:
        """Return a judge's prediction for every video."""
        return {video.id: judge(video) for video in self.videos}

    def scores(self, judge: Judge) -> list[tuple[MatchedVideo, float]]:
        """Return a judge's success score of every video of matched length."""
        videos = {video.id: video for video in self.videos}
        return [(one, judge(videos[one.id].first_frames(one.frames)).score) for one in self.ends]

    def changed(self, change: Callable[[Episode], Episode]) -> list[Video]:
        """Return the videos with changed images, encoded anew."""
        return [encode_video(change(episode), self.encoder, self.features_dir) for episode in self.episodes]


def judges_of(trained: Mapping[str, TrainedModel]) -> dict[str, Judge]:
    """Return the trained judges by title, and linear time."""
    judges: dict[str, Judge] = {title: one.predict for title, one in trained.items()}
    return {**judges, SPARSE: partial(trained[SARM].predict, head="sparse"), CLOCK: linear_time_prediction}


def held_out_cells(
    test: TestSet, judges: Mapping[str, Judge], zero_shot: Predictions, ends: Mapping[str, Prediction]
) -> list[Cell]:
    """Return error, stages, order and success of every judge; differences on the same episodes; durations; tasks.

    Args:
        test: The test split.
        judges: Judges of encoded videos, by title.
        zero_shot: The embedded judge's prediction for every video.
        ends: Its prediction for every video of matched length.
    """
    titles = (SARM, CAUSAL, AUGMENTED, SPARSE, STAGES, INDEX, INDEX_SUCCESSES, CLOCK)
    predicted: dict[str, Predictions] = {title: test.predictions(judges[title]) for title in titles}
    scores = {title: test.scores(judges[title]) for title in titles}
    predicted[TOPREWARD] = zero_shot
    scores[TOPREWARD] = [(one, ends[one.episode.id].score) for one in test.ends]
    cells = [
        cell
        for title in predicted
        for cell in quality_cells(HELD_OUT, title, predicted[title], test.videos, scores[title])
    ]
    done = [video for video in test.videos if video.success]
    cells.append(Cell(HELD_OUT, TRUTH, VOC, mean_over(done, lambda video: potential_prediction(video).voc())))
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
        cells += difference_cells(DIFFERENCES, row, predicted[one], predicted[other], test.videos)
    return [*cells, *half_cells(done, predicted), *task_cells(test.videos, predicted)]


def potential_prediction(video: Video) -> Prediction:
    """Return the potential as a prediction."""
    return Prediction(video.times, video.truth, float(video.truth[-1]))


def half_cells(done: Sequence[Video], predicted: Mapping[str, Predictions]) -> list[Cell]:
    """Return errors on successes with usual and with unusual stage durations."""
    distance = dict(zip((video.id for video in done), duration_distance(done), strict=True))
    middle = float(np.median(list(distance.values()))) if distance else 0.0
    halves = {
        "usual half": [video for video in done if distance[video.id] <= middle],
        "unusual half": [video for video in done if distance[video.id] > middle],
    }
    cells = []
    for row, videos in halves.items():
        cells.append(
            Cell(
                HALVES,
                row,
                "distance from the usual shares",
                mean_over(videos, lambda video: distance[video.id]),
            )
        )
        cells += [
            Cell(HALVES, row, f"MAE, {title}", _error(videos, predicted[title]))
            for title in (SARM, STAGES, INDEX, INDEX_SUCCESSES, CLOCK)
        ]
        for title in (SARM, STAGES):
            gap = difference_cells(HALVES, row, predicted[title], predicted[INDEX_SUCCESSES], videos)[-1]
            cells.append(replace(gap, column=f"{title} minus {INDEX_SUCCESSES}"))
    return cells


def task_cells(videos: Sequence[Video], predicted: Mapping[str, Predictions]) -> list[Cell]:
    """Return errors by task."""
    return [
        Cell(
            BY_TASK, task, title, _error([video for video in videos if video.task == task], predicted[title])
        )
        for task in sorted({video.task for video in videos})
        for title in (SARM, CAUSAL, INDEX, INDEX_SUCCESSES, CLOCK, TOPREWARD)
    ]


def _error(videos: Sequence[Video], predicted: Predictions) -> Estimate:
    return mean_over(videos, lambda video: predicted[video.id].error(video))


def change_cells(test: TestSet, judges: Mapping[str, Judge], elsewhere: Sequence[Video]) -> list[Cell]:
    """Return errors at other speeds, with the image shifted, the camera moved, and the object elsewhere."""
    variants: dict[str, Sequence[Video]] = {"as recorded": test.videos}
    for speed in SPEEDS:
        variants[f"{speed:g}x speed"] = [video.resampled(speed) for video in test.videos]
    variants["image shifted"] = test.changed(lambda e: shift(e.with_views([VIEW]), **SHIFT))
    variants["camera moved"] = test.changed(lambda e: from_view(e, MOVED_VIEW))
    variants["new object starts"] = elsewhere
    return [
        Cell(CHANGES, title, name, _error(videos, {video.id: judges[title](video) for video in videos}))
        for title in (SARM, CAUSAL, AUGMENTED, INDEX, INDEX_SUCCESSES, CLOCK)
        for name, videos in variants.items()
    ]


def demonstration_cells(test: TestSet, judges: Mapping[int, Judge]) -> list[Cell]:
    """Return SARM's figures by the demonstrations per task it was trained on."""
    return [
        cell
        for count, judge in judges.items()
        for cell in quality_cells(
            DEMONSTRATIONS, str(count), test.predictions(judge), test.videos, test.scores(judge)
        )
    ]


def decode_cells(test: TestSet, trained: Mapping[str, TrainedModel]) -> list[Cell]:
    """Return errors of the likeliest stage's progress, and of the mean over all stages by probability."""
    cells = []
    for title in (SARM, CAUSAL):
        predicted = {
            decode: test.predictions(partial(trained[title].predict, decode=decode))
            for decode in ("argmax", "expected")
        }
        done = [video for video in test.videos if video.success]
        for decode, ones in predicted.items():
            row = f"{title}, {decode}"
            cells += error_cells(DECODE, row, ones, test.videos)
            cells.append(Cell(DECODE, row, ALL, _error(test.videos, ones)))
            cells.append(Cell(DECODE, row, VOC, mean_over(done, partial(_voc, ones))))
        row = f"{title}, expected minus argmax"
        cells += difference_cells(DECODE, row, predicted["expected"], predicted["argmax"], test.videos)
    return cells


def _voc(predicted: Predictions, video: Video) -> float:
    return predicted[video.id].voc()


def word_cells(
    test: TestSet, judges: Mapping[str, Judge], predicted: Mapping[str, Predictions]
) -> list[Cell]:
    """Return errors of three judges on the embedded model, and of SARM, on the episodes that all judged.

    Args:
        test: The test split.
        judges: Judges of encoded videos, by title.
        predicted: Predictions of the judges on the embedded model, by title.
    """
    common = set.intersection(*(set(ones) for ones in predicted.values()))
    videos = [video for video in test.videos if video.id in common]
    ones: dict[str, Predictions] = {title: test.predictions(judges[title]) for title in (SARM, CAUSAL, CLOCK)}
    return [
        cell
        for title, one in {**ones, **predicted}.items()
        for cell in error_cells(WORDS, title, one, videos)
    ]

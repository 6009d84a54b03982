"""The domain gate: out-of-distribution videos under trained instructions, trained scenes under unseen words.

Both are crossed, so that neither a list of instructions nor a list of scenes is enough to pass.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.embedded.figures import Figure, Units, average
from benchmarks.embedded.paraphrases import unseen
from benchmarks.embedded.run_judge import run_judge
from benchmarks.embedded.scoring import in_memory
from benchmarks.embedded.variants import SHIFTS, trained_instructions
from stepscore import open_episodes
from stepscore.episodes import Episode
from stepscore.episodes.perturbations.perturb import perturb
from stepscore.episodes.view import ViewInfo
from stepscore.judges.topreward import TopReward
from stepscore.models import Model
from stepscore.training.embedded.tasks import SIZE, VIEW
from stepscore.types import FloatArray, Frames

GROUP = "Knows its limits"
REAL, HELD_OUT, SYNTHETIC = 5, 10, 20
"""Instructions for each real video, episodes of each held-out task, and synthetic videos of each kind."""
SCENES = 6
"""Scenes of a trained task. The gate reads the first frame, so that one rollout of a scene is enough."""


@dataclass(frozen=True, eq=False)
class SyntheticView:
    """Frames that no camera took."""

    frames: Frames
    fps: float = 10.0

    def info(self) -> ViewInfo:
        """Return the size and the rate of the frames."""
        n, height, width, _ = self.frames.shape
        return ViewInfo(n, self.fps, width, height, n / self.fps)

    def timestamps(self) -> FloatArray:
        """Return times evenly spaced from 0."""
        return np.arange(len(self.frames)) / self.fps

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Return the frames at ``indices``, in their own size."""
        return self.frames[np.asarray(indices, dtype=np.int64)]

    def digest(self) -> bytes:
        """Return the first frame's bytes."""
        return bytes(self.frames[0].tobytes())

    def location(self) -> str:
        """Return a name; there is no file."""
        return "synthetic"


@dataclass(frozen=True)
class Case:
    """A video under an instruction, and the kind of case it is."""

    kind: str
    episode: Episode


def out_of_distribution_cases(held_out: Sequence[Episode], real: Path | None) -> list[Case]:
    """Return videos of other scenes and robots, blank ones and noise, under trained instructions."""
    words = trained_instructions()
    cases: list[Case] = []

    def add(kind: str, episode: Episode, count: int = 1) -> None:
        for _ in range(count):
            # Seven has no divisor in common with 26: all instructions come up.
            text = words[7 * len(cases) % len(words)]
            cases.append(Case(kind, replace(episode, instruction=text, subgoals=())))

    for episode in _real(real):
        add("real rollouts", episode, REAL)
    counts: dict[str, int] = defaultdict(int)
    for episode in held_out:
        counts[str(episode.task)] += 1
        if counts[str(episode.task)] <= HELD_OUT:
            add("held-out scenes", episode.with_views([VIEW]))
    rng = np.random.default_rng(0)
    for number in range(SYNTHETIC):
        level = np.full((20, SIZE, SIZE, 3), rng.integers(0, 256, 3 if number % 2 else 1), dtype=np.uint8)
        noise = rng.integers(0, 256, (20, SIZE, SIZE, 3), dtype=np.uint8)
        for kind, frames in (("blank", level), ("noise", noise)):
            add(kind, Episode(f"{kind}-{number}", "", views={VIEW: SyntheticView(frames)}))
    return cases


def trained_cases(trained: Sequence[Episode]) -> Iterator[Case]:
    """Yield scenes of trained tasks, each in words that were never trained: as recorded, shifted and zoomed."""
    scenes: dict[str, dict[str, Episode]] = defaultdict(dict)
    for episode in trained:
        scenes[str(episode.task)].setdefault(str(episode.pair), episode)
    for task, found in scenes.items():
        for number, episode in enumerate(list(found.values())[:SCENES]):
            words = unseen(task)
            video = in_memory(replace(episode.with_views([VIEW]), subgoals=()))
            video = replace(video, instruction=words[number % len(words)])
            dx, dy = SHIFTS[number % len(SHIFTS)]
            yield Case("as recorded", video)
            yield Case("shifted 8 px", perturb(video, "shifted", dx=8 * dx, dy=8 * dy))
            yield Case("zoomed 15 %", perturb(video, "zoomed"))


def _real(folder: Path | None) -> list[Episode]:
    if folder is None or not folder.is_dir():
        return []
    found: list[Episode] = []
    for part in ("rollouts", "multiview"):
        for episode in open_episodes(folder / part):
            found += [
                replace(episode.with_views([view]), pair=None, id=f"{episode.id}:{view}")
                for view in episode.views
            ]
    return found


def limit_figures(
    model: Model, judge: TopReward, held_out: Sequence[Episode], trained: Sequence[Episode], real: Path | None
) -> list[Figure]:
    """Shares of videos answered with unknown: out of distribution, and trained ones in unseen words."""
    short = replace(judge, model=model, prefixes=2, max_frames=8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        others = [(case, answer(short, case.episode)) for case in out_of_distribution_cases(held_out, real)]
    named = any("--model" in str(warning.message) for warning in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = [(case, answer(short, case.episode)) for case in trained_cases(trained)]
    figures = _shares(
        [(case, known == "unknown") for case, known in others],
        "out-of-distribution videos answered with unknown",
        0.95,
        at_most=False,
    )
    note = f"{'' if real else 'without the real rollouts; '}the message names --model: {'yes' if named else 'NO'}"
    figures[0] = replace(figures[0], note=note)
    return figures + _shares(
        [(case, known != "known") for case, known in own],
        "trained scenes in unseen words refused",
        0.05,
        at_most=True,
    )


def answer(judge: TopReward, episode: Episode) -> Literal["known", "unknown", "error"]:
    """Return whether any point of the judge's curve is known; an error is neither an answer nor unknown."""
    found = run_judge(judge, episode, judge.model).judgement
    if found is None or found.curve is None:
        return "error"
    return "unknown" if np.isnan(found.curve.progress).all() else "known"


def _shares(refused: Sequence[tuple[Case, bool]], name: str, target: float, *, at_most: bool) -> list[Figure]:
    """Return the share over all, then by kind."""
    figures = []
    for kind in ("", *dict.fromkeys(case.kind for case, _ in refused)):
        chosen = [(c, r) for c, r in refused if kind in ("", c.kind)]
        # Videos of one scene are one cluster, also where it is shifted or zoomed; a video without a scene
        # is a cluster by itself.
        units = Units(
            [c.episode.pair or str(c.episode.metadata.get("changed_from", c.episode.id)) for c, _ in chosen],
            ["videos"] * len(chosen),
        )
        estimate = average([float(r) for _, r in chosen], units)
        label = f"{name}, {kind}" if kind else name
        figures.append(Figure(GROUP, label, estimate, None if kind else target, at_most=at_most))
    return figures

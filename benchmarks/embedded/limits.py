"""Does it know its limits? Foreign films under trained instructions, and trained scenes under unseen words.

Both are asked crosswise, so that neither a list of instructions nor a list of scenes is enough to pass.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stepscore import open_episodes
from stepscore.episodes import Episode
from stepscore.episodes.changes import changed
from stepscore.episodes.view import ViewInfo
from stepscore.judges.topreward import TopReward
from stepscore.models import Model
from stepscore.training.embedded_tasks import SIZE, VIEW
from stepscore.types import FloatArray, Frames

from .asked import asked
from .figures import Figure, Units, average
from .looks import trained_instructions
from .paraphrases import unseen

GROUP = "Knows its limits"
REAL, HELD_OUT, PAINTED = 5, 10, 20
"""Instructions a real film, episodes a held-out task, and films of blank pictures and of noise each."""
PER_TASK = 4
"""Episodes of a trained task under each of its paraphrases."""


@dataclass(frozen=True, eq=False)
class PaintedView:
    """Frames that no camera took."""

    frames: Frames
    fps: float = 10.0

    def info(self) -> ViewInfo:
        """Of the frames in hand."""
        n, height, width, _ = self.frames.shape
        return ViewInfo(n, self.fps, width, height, n / self.fps)

    def timestamps(self) -> FloatArray:
        """Evenly from 0."""
        return np.arange(len(self.frames)) / self.fps

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """The frames at ``indices``, of their own size."""
        return self.frames[np.asarray(indices, dtype=np.int64)]

    def digest(self) -> bytes:
        """The pictures themselves tell them apart."""
        return bytes(self.frames[0].tobytes())

    def location(self) -> str:
        """Nowhere."""
        return "painted"


@dataclass(frozen=True)
class Case:
    """A film and an instruction: what it is called, and the episode."""

    kind: str
    episode: Episode


def foreign_cases(held_out: Sequence[Episode], real: Path | None) -> list[Case]:
    """Films of other scenes, of other robots, of nothing and of noise, under trained instructions."""
    words = trained_instructions()
    cases: list[Case] = []

    def told(kind: str, episode: Episode, count: int = 1) -> None:
        for _ in range(count):
            # Seven has no divisor in common with 26: all instructions come up.
            text = words[7 * len(cases) % len(words)]
            cases.append(Case(kind, replace(episode, instruction=text, subgoals=())))

    for episode in _real(real):
        told("real rollouts", episode, REAL)
    seen: dict[str, int] = defaultdict(int)
    for episode in held_out:
        seen[str(episode.task)] += 1
        if seen[str(episode.task)] <= HELD_OUT:
            told("held-out scenes", episode.with_views([VIEW]))
    rng = np.random.default_rng(0)
    for number in range(PAINTED):
        level = np.full((20, SIZE, SIZE, 3), rng.integers(0, 256, 3 if number % 2 else 1), dtype=np.uint8)
        noise = rng.integers(0, 256, (20, SIZE, SIZE, 3), dtype=np.uint8)
        for kind, frames in (("blank", level), ("noise", noise)):
            told(kind, Episode(f"{kind}-{number}", "", views={VIEW: PaintedView(frames)}))
    return cases


def trained_cases(trained: Sequence[Episode]) -> list[Case]:
    """Trained scenes under paraphrases that no recipe used, as recorded, shifted and zoomed in turn."""
    cases: list[Case] = []
    seen: dict[str, int] = defaultdict(int)
    for episode in trained:
        seen[str(episode.task)] += 1
        if seen[str(episode.task)] > PER_TASK:
            continue
        film = replace(episode.with_views([VIEW]), subgoals=())
        for text in unseen(str(episode.task)):
            looks = {
                "as recorded": film,
                "shifted 8 px": changed(film, "shifted", dx=8 if len(cases) % 2 else -8),
                "zoomed 15 %": changed(film, "zoomed"),
            }
            cases += [Case(kind, replace(look, instruction=text)) for kind, look in looks.items()]
    return cases


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
    """Shares of films answered with unknown: of foreign ones, and of trained ones in unseen words."""
    films = replace(judge, model=model, prefixes=2, max_frames=8)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        foreign = foreign_cases(held_out, real)
        refused = [unknown(films, case.episode) for case in foreign]
    named = any("--model" in str(warning.message) for warning in said)
    figures = _shares(foreign, refused, "foreign films answered with unknown", 0.95, at_most=False)
    note = f"{'' if real else 'without the real rollouts; '}the message names --model: {'yes' if named else 'NO'}"
    figures[0] = replace(figures[0], note=note)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = trained_cases(trained)
        kept = [unknown(films, case.episode) for case in own]
    return figures + _shares(own, kept, "trained scenes in unseen words refused", 0.05, at_most=True)


def unknown(judge: TopReward, episode: Episode) -> bool:
    """Whether the judge answers unknown: no known point on the curve, or an error instead of one."""
    found = asked(judge, episode, judge.model).judgement
    return found is None or found.curve is None or bool(np.isnan(found.curve.progress).all())


def _shares(
    cases: Sequence[Case], refused: Sequence[bool], name: str, target: float, *, at_most: bool
) -> list[Figure]:
    figures = []
    for kind in ("", *dict.fromkeys(case.kind for case in cases)):
        chosen = [(c, r) for c, r in zip(cases, refused, strict=True) if kind in ("", c.kind)]
        # Films of one scene stand and fall together; a film without a scene is one by itself.
        units = Units(
            [c.episode.pair or str(c.episode.metadata.get("changed_from", c.episode.id)) for c, _ in chosen],
            [c.kind for c, _ in chosen],
        )
        estimate = average([float(r) for _, r in chosen], units)
        label = f"{name}, {kind}" if kind else name
        figures.append(Figure(GROUP, label, estimate, None if kind else target, at_most=at_most))
    return figures

"""A benchmark: labelled episodes, pairs and questions about them, and a fingerprint of all of it.

A folder with a ``benchmark.json`` names its parts; for any other source, pass them one by one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from stepscore._untrusted import read_json, shown
from stepscore.audit.board.question_scores import question_videos
from stepscore.audit.board.questions import Question, read_questions
from stepscore.audit.pairs import Pair, pair_videos, read_pairs
from stepscore.episodes import Episode, Episodes, open_episodes
from stepscore.errors import ManifestError, OptionError, exits_as_errors, first_field_error

FORMAT = 1
FILE = "benchmark.json"
MAX_BYTES = 1 << 20
LAST_SUCCESS = "last-success"
"""Take goal images from the last frames of labelled successes in other scenes."""


@dataclass(frozen=True)
class BenchmarkParts:
    """Where the parts of a benchmark are.

    Attributes:
        seed: Random seed it was made with; ``None`` if there is none.
        goal: Goal images, as in :func:`stepscore.open_episodes`.
    """

    source: str
    name: str
    description: str = ""
    seed: int | None = None
    labels: Path | None = None
    subgoals: Path | None = None
    pairs: Path | None = None
    questions: Path | None = None
    goal: str | None = None


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or PurePosixPath(path).is_absolute() or ".." in parts or "\\" in path or ":" in path:
        raise ValueError("must be a path inside the benchmark's folder")
    return path


_Path = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_inside)]


class _Schema(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)
    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    name: Annotated[str, Field(min_length=1, max_length=200)]
    description: Annotated[str, Field(max_length=2000)] = ""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    source: _Path
    labels: _Path | None = None
    subgoals: _Path | None = None
    pairs: _Path | None = None
    questions: _Path | None = None
    goal: _Path | None = None


def benchmark_parts(source: str) -> BenchmarkParts:
    """Return the parts that a source's ``benchmark.json`` names, else only the source.

    Raises:
        ManifestError: The file is invalid; the message names the field.
    """
    folder = Path(source).expanduser()
    file = folder / FILE
    try:
        there = file.is_file()
    except (OSError, ValueError):  # a name too long, a NUL: opening the source says so
        there = False
    if not there:
        return BenchmarkParts(source, folder.name or source)
    try:
        read = _Schema.model_validate(read_json(file, ManifestError, max_bytes=MAX_BYTES))
    except ValidationError as error:
        name, why = first_field_error(error)[:2]
        raise ManifestError(f"{shown(file)}: {shown(name or 'benchmark')}: {shown(why)}.") from error
    inside = {
        name: None if path is None else folder / path
        for name in ("labels", "subgoals", "pairs", "questions")
        for path in [getattr(read, name)]
    }
    goal = read.goal if read.goal in (None, LAST_SUCCESS) else str(folder / read.goal)
    return BenchmarkParts(
        str(folder / read.source), read.name, read.description, read.seed, goal=goal, **inside
    )


@dataclass(frozen=True)
class Benchmark:
    """An opened benchmark.

    Attributes:
        open_with: Opens the same episodes with goal images.
        shown_as: The source as the commands of rows name it.
    """

    parts: BenchmarkParts
    episodes: Episodes
    open_with: Callable[[str], Episodes]
    pairs: tuple[Pair, ...] = ()
    questions: tuple[Question, ...] = ()
    shown_as: str = ""

    @cached_property
    def with_goals(self) -> Episodes:
        """The episodes with goal images, if the benchmark names any.

        Raises:
            StepScoreError: An episode has no goal image.
        """
        return self.episodes if self.parts.goal is None else self.open_with(self.parts.goal)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Its tasks, sorted."""
        return tuple(sorted({episode.task or episode.instruction for episode in self.episodes}))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of videos, instructions, labels, subgoals, pairs and questions, independent of their location."""
        digest = hashlib.sha256()
        for episode in self.episodes:
            digest.update(json.dumps(_content(episode), sort_keys=True).encode())
        for pair in self.pairs:
            digest.update(json.dumps(asdict(pair), sort_keys=True).encode())
        for question in self.questions:
            digest.update(json.dumps(asdict(question), sort_keys=True).encode())
        return digest.hexdigest()[:32]

    def described(self) -> dict[str, Any]:
        """Return the description for ``board.json``."""
        return {
            "name": self.parts.name,
            "description": self.parts.description,
            "seed": self.parts.seed,
            "episodes": len(self.episodes),
            "tasks": list(self.tasks),
            "pairs": len(self.pairs),
            "questions": len(self.questions),
            "success": dict(sorted(Counter(self._success_modes()).items())),
            "fingerprint": self.fingerprint,
        }

    def _success_modes(self) -> Iterator[str]:
        """Yield the success mode, ``ever`` or ``holds``, of every labelled episode."""
        for episode in self.episodes:
            if episode.labels.success_mode is not None:
                yield episode.labels.success_mode

    def of_row(self) -> dict[str, Any]:
        """Return the part of the description that every row repeats."""
        described = self.described()
        return {name: described[name] for name in ("name", "seed", "episodes", "fingerprint")}

    def videos(self, *, goals: bool) -> tuple[Episodes, Mapping[str, Episode], Mapping[str, Episode]]:
        """Return the episodes, and the videos of pairs and of questions by their ids."""
        episodes = self.with_goals if goals else self.episodes
        by_id = {episode.id: episode for episode in episodes}
        return episodes, pair_videos(self.pairs, by_id), question_videos(self.questions, by_id)


def open_benchmark(
    parts: BenchmarkParts,
    *,
    shown_as: str = "",
    task: str | None = None,
    limit: int | None = None,
    reader: str | None = None,
) -> Benchmark:
    """Open a benchmark: list its episodes, read its pairs and questions. Nothing is decoded.

    Args:
        shown_as: The source as commands name it.
        task: Only episodes of this task; pairs and questions about others are left out.
        limit: Only the first episodes.

    Raises:
        OptionError: No episode has a label.
    """
    opened = partial(open_episodes, parts.source, parts.labels, parts.subgoals, task, limit, reader=reader)
    episodes = opened()
    if not any(episode.labels.rows for episode in episodes):
        raise OptionError(
            f"No episode of {shown(parts.source)} has a label, which a board compares judges with. "
            f"Join some: --labels FILE{''.join(f' {note}' for note in episodes.notes)}"
        )
    ids = set(episodes.ids())
    pairs: Sequence[Pair] = read_pairs(parts.pairs) if parts.pairs is not None else ()
    questions: Sequence[Question] = read_questions(parts.questions) if parts.questions is not None else ()
    if task is not None or limit is not None:
        pairs = [pair for pair in pairs if pair.episode in ids]
        questions = [question for question in questions if question.episode in ids]
    benchmark = Benchmark(
        parts,
        episodes,
        lambda goal: opened(goal=goal),
        tuple(pairs),
        tuple(questions),
        shown_as or parts.source,
    )
    benchmark.videos(goals=False)  # a pair or question about an episode that is not there is refused now
    return benchmark


def _content(episode: Episode) -> list[Any]:
    """Return everything of an episode that can change a number."""
    try:
        with exits_as_errors():
            video = episode.fingerprint
    except Exception:  # judging it says why
        video = ""
    labels = [
        [row.kind, row.name, *(None if math.isnan(v) else v for v in (row.start_s, row.end_s, row.value))]
        for row in episode.labels.rows
    ]
    subgoals = [[subgoal.name, subgoal.criterion, subgoal.mode, subgoal.view] for subgoal in episode.subgoals]
    return [
        episode.id,
        video,
        episode.instruction,
        episode.task,
        episode.policy,
        episode.pair,
        labels,
        subgoals,
    ]

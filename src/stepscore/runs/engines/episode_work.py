"""What every engine does with one episode: describe it, judge it, and write it to the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepscore._local_modules import place_in_local_code
from stepscore._tracebacks import log_traceback
from stepscore.episodes import Episode
from stepscore.errors import CapabilityError, MissingExtraError, RunError, StepScoreError, exits_as_errors
from stepscore.judges import Ask, Judge
from stepscore.models import guarded
from stepscore.models.calls import Call
from stepscore.runs.engines.base import FinishedEpisode
from stepscore.runs.journal import Entry, Journal, description_hash
from stepscore.runs.model_client import usage_of
from stepscore.runs.records import Row, episode_row, input_key, judgement_row, usage_row
from stepscore.types import Judgement

RUN_STOPPING_ERRORS = (RunError, CapabilityError, MissingExtraError)
"""Errors that every further episode would raise too: they stop the run instead of becoming a row."""


def error_text(error: Exception) -> str:
    """Return what an episode's row keeps of an error; one of ``RUN_STOPPING_ERRORS`` is raised again.

    Where a judge or reader in a user's own file failed, the innermost line there is in it; the whole is logged.
    """
    if isinstance(error, RUN_STOPPING_ERRORS):
        raise error
    log_traceback(error)
    if isinstance(error, StepScoreError):
        return str(error)
    return f"{type(error).__name__}: {error}{place_in_local_code(error)}"


class Described(NamedTuple):
    """What is known of an episode before it is judged.

    Attributes:
        id: Its id.
        row: Its row.
        key: Hash of the judge's input.
        error: Why it cannot be judged; ``None`` where it can.
    """

    id: str
    row: Row
    key: str
    error: str | None

    def is_judged(self, entry: Entry | None) -> bool:
        """Return whether the journal's entry is a judgement of this very input."""
        return entry is not None and not entry.failed and entry.key == self.key


def describe(episode: Episode, views: Sequence[str] | None) -> tuple[Episode, Described]:
    """Return the episode with only these views, and its description; what goes wrong with it is kept as text."""
    why = episode.error
    try:
        with guarded():
            selected = episode if why or views is None else episode.with_views(views)
    except Exception as error:  # as below
        selected, why = episode, error_text(error)
    try:
        with guarded():
            row = episode_row(selected)
        return selected, Described(episode.id, row, input_key(row), why)
    except Exception as error:  # a reader and its views are anyone's code
        return episode, bare(episode.id, episode.source, episode.source_index, why or error_text(error))


def bare(name: str, source: str, source_index: int | None, error: str | None = None) -> Described:
    """Return the description of an episode of which nothing but id and source is known."""
    row = episode_row(Episode(id=name, instruction="", source=source, source_index=source_index))
    return Described(name, row, input_key(row), error)


async def judged(judge: Judge, episode: Episode, ask: Ask) -> Judgement:
    """Return the judgement, or one that holds the error: a bad episode never stops a run."""
    try:
        with guarded():
            judgement = await judge.judge(episode, ask)
        if not isinstance(judgement, Judgement):
            raise TypeError(f"{judge.name} returned {type(judgement).__name__}, not a Judgement")
        return judgement
    except Exception as error:  # a judge is anyone's code
        return Judgement(error=error_text(error))


@dataclass(frozen=True)
class EpisodeWriter:
    """Writes finished episodes to the journal, which one process alone does.

    Attributes:
        journal: The open journal.
        entries: What it held at the start.
        on_done: Called after each episode.
    """

    journal: Journal
    entries: Mapping[str, Entry]
    on_done: Callable[[FinishedEpisode], None]

    def reuse(self, described: Described) -> None:
        """Count an episode as judged before; where labels or metadata changed, its new row is written."""
        if self.entries[described.id].description != description_hash(described.row):
            self.journal.append({"id": described.id, "episode": described.row})
        self.on_done(FinishedEpisode(described.id, reused=True, error=None))

    def finish(
        self, described: Described, judgement: Judgement, calls: Sequence[Call], seconds: float
    ) -> None:
        """Write a judged episode; what cannot be written becomes its error."""
        usage = usage_of(calls, judgement.usage)
        spent = usage_row(usage, calls, seconds)
        try:
            with exits_as_errors():
                self._write(described, judgement, calls, spent)
        except Exception as error:  # a judge's channels and an episode's texts are anyone's
            judgement = Judgement(error=error_text(error))
            row = described.row
            self._write(bare(described.id, row["source"], row["source_index"]), judgement, [], spent)
        self.on_done(FinishedEpisode(described.id, reused=False, error=judgement.error, usage=usage))

    def _write(self, described: Described, judgement: Judgement, calls: Sequence[Call], usage: Row) -> None:
        self.journal.append(
            {
                "id": described.id,
                "key": described.key,
                "episode": described.row,
                "judgement": judgement_row(judgement),
                "calls": [call.row() for call in calls if call.response is not None],
                "usage": usage,
            }
        )

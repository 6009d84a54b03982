"""One episode of a run: its description, its judgement, and its record in the journal."""

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
from stepscore.models.calls import Call, usage_of
from stepscore.runs.journal import Entry, Journal, description_hash
from stepscore.runs.records import Row, episode_row, input_key, judgement_row, usage_row
from stepscore.runs.work import FinishedEpisode
from stepscore.types import Judgement, Usage

RUN_STOPPING_ERRORS = (RunError, CapabilityError, MissingExtraError)
"""Errors that every further episode would raise too, so they stop the run."""


def error_text(error: Exception) -> str:
    """Log an error and return its text for an episode's row; raise ``RUN_STOPPING_ERRORS`` again.

    If it comes from a judge or reader in the user's own file, the text names the innermost line there.
    """
    if isinstance(error, RUN_STOPPING_ERRORS):
        raise error
    log_traceback(error)
    if isinstance(error, StepScoreError):
        return str(error)
    return f"{type(error).__name__}: {error}{place_in_local_code(error)}"


class Described(NamedTuple):
    """An episode before it is judged: its row, the hash of the judge's input, and why it cannot be judged."""

    id: str
    row: Row
    key: str
    error: str | None


class EpisodeTask(NamedTuple):
    """An episode to judge, and the hash of the input of its successful judgement in the journal."""

    episode: Episode
    key: str | None


@dataclass(frozen=True)
class EpisodeOutcome:
    """The outcome of one episode: its description, and its record unless that in the journal is still valid.

    ``stopped`` is an error that stops the run; there is no record then.
    """

    id: str
    row: Row
    record: Row | None = None
    usage: Usage | None = None
    stopped: Exception | None = None

    @property
    def error(self) -> str | None:
        """Why there is no judgement."""
        error: str | None = None if self.record is None else self.record["judgement"]["error"]
        return error


def describe(episode: Episode, views: Sequence[str] | None) -> tuple[Episode, Described]:
    """Return the episode with only these views, and its description; an error becomes text in it."""
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
    except Exception as error:  # a third-party reader or view may raise anything
        return episode, bare(episode, why or error_text(error))


def bare(episode: Episode, error: str | None = None) -> Described:
    """Return the description of an episode with only its id and source."""
    row = episode_row(Episode(episode.id, "", source=episode.source, source_index=episode.source_index))
    return Described(episode.id, row, input_key(row), error)


async def judged(judge: Judge, episode: Episode, ask: Ask) -> Judgement:
    """Return the judgement, or one with the error: a bad episode never stops a run."""
    try:
        with guarded():
            judgement = await judge.judge(episode, ask)
        if not isinstance(judgement, Judgement):
            raise TypeError(f"{judge.name} returned {type(judgement).__name__}, not a Judgement")
        return judgement
    except Exception as error:  # a third-party judge may raise anything
        return Judgement(error=error_text(error))


def recorded(
    described: Described, judgement: Judgement, calls: Sequence[Call], seconds: float
) -> EpisodeOutcome:
    """Return the outcome of a judged episode; if it cannot be written, that is its error."""
    usage = usage_of(calls, judgement.usage)
    spent = usage_row(usage, calls, seconds)
    try:
        with exits_as_errors():
            answered = [call.row() for call in calls if call.response is not None]
            return _outcome(described, judgement_row(judgement), answered, spent, usage)
    except Exception as error:  # a judge's channels are third-party values
        return _unwritable(described.id, described.row, error, spent, usage)


def failed(
    described: Described, error: str, spent: Row | None = None, usage: Usage | None = None
) -> EpisodeOutcome:
    """Return the outcome of an episode whose judgement is an error."""
    usage = usage or Usage()
    row = judgement_row(Judgement(error=error))
    return _outcome(described, row, [], spent or usage_row(usage, [], 0.0), usage)


def _unwritable(name: str, row: Row, error: Exception, spent: Row, usage: Usage | None) -> EpisodeOutcome:
    """Return the outcome of an episode whose record cannot be written; its description may be the reason."""
    known = Episode(name, "", source=row["source"], source_index=row["source_index"])
    return failed(bare(known), error_text(error), spent, usage)


def _outcome(
    described: Described, judgement: Row, calls: Sequence[Row], spent: Row, usage: Usage
) -> EpisodeOutcome:
    record = {
        "id": described.id,
        "key": described.key,
        "episode": described.row,
        "judgement": judgement,
        "calls": calls,
        "usage": spent,
    }
    return EpisodeOutcome(described.id, described.row, record, usage)


@dataclass(frozen=True)
class RecordWriter:
    """Writes records to the owner's journal, whose content at the start is ``entries``."""

    journal: Journal
    entries: Mapping[str, Entry]
    on_done: Callable[[FinishedEpisode], None]

    def task(self, episode: Episode) -> EpisodeTask:
        """Return the task to judge an episode, unless the journal has its judgement."""
        entry = self.entries.get(episode.id)
        return EpisodeTask(episode, None if entry is None or entry.failed else entry.key)

    def write(self, outcome: EpisodeOutcome) -> None:
        """Write the record of an episode; if it cannot be written, that is its error.

        Of an episode that was judged before, only a changed description (labels, metadata) is written.
        """
        if outcome.record is None:
            if self.entries[outcome.id].description != description_hash(outcome.row):
                self.journal.append({"id": outcome.id, "episode": outcome.row})
            self.on_done(FinishedEpisode(outcome.id, reused=True, error=None))
            return
        try:
            with exits_as_errors():
                self.journal.append(outcome.record)
        except Exception as error:  # a judge's values and an episode's texts are third-party data
            outcome = _unwritable(outcome.id, outcome.row, error, outcome.record["usage"], outcome.usage)
            assert outcome.record is not None
            self.journal.append(outcome.record)
        self.on_done(FinishedEpisode(outcome.id, reused=False, error=outcome.error, usage=outcome.usage))

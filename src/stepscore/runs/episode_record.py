"""One episode of a run: its description, its judgement, and the record of it that the journal gets."""

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


class EpisodeTask(NamedTuple):
    """An episode to judge.

    Attributes:
        episode: The episode.
        key: Hash of the input of its judgement in the journal; ``None`` where it has none that counts.
    """

    episode: Episode
    key: str | None


@dataclass(frozen=True)
class Outcome:
    """What became of one episode.

    Attributes:
        id: Its id.
        row: Its description.
        record: Its record for the journal; ``None`` where the one that is there holds.
        usage: What judging it took.
        stopped: An error that every further episode would meet, too; there is no record then.
    """

    id: str
    row: Row
    record: Row | None = None
    usage: Usage | None = None
    stopped: Exception | None = None

    @property
    def error(self) -> str | None:
        """Why there is no judgement; ``None`` when there is one."""
        error: str | None = None if self.record is None else self.record["judgement"]["error"]
        return error


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


def unknown(name: str, row: Row) -> Described:
    """Return the description of an episode of which nothing but id and source is kept."""
    return bare(name, row["source"], row["source_index"])


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


def recorded(described: Described, judgement: Judgement, calls: Sequence[Call], seconds: float) -> Outcome:
    """Return the outcome of a judged episode; what cannot be written becomes its error."""
    usage = usage_of(calls, judgement.usage)
    spent = usage_row(usage, calls, seconds)
    try:
        with exits_as_errors():
            answered = [call.row() for call in calls if call.response is not None]
            return _outcome(described, judgement_row(judgement), answered, spent, usage)
    except Exception as error:  # a judge's channels are third-party values
        return failed(unknown(described.id, described.row), error_text(error), spent, usage)


def failed(described: Described, error: str, spent: Row | None = None, usage: Usage | None = None) -> Outcome:
    """Return the outcome of an episode whose judgement is an error."""
    usage = usage or Usage()
    row = judgement_row(Judgement(error=error))
    return _outcome(described, row, [], spent or usage_row(usage, [], 0.0), usage)


def _outcome(described: Described, judgement: Row, calls: Sequence[Row], spent: Row, usage: Usage) -> Outcome:
    record = {
        "id": described.id,
        "key": described.key,
        "episode": described.row,
        "judgement": judgement,
        "calls": calls,
        "usage": spent,
    }
    return Outcome(described.id, described.row, record, usage)


@dataclass(frozen=True)
class RecordWriter:
    """Writes records to the journal, which the owner of the run alone does.

    Attributes:
        journal: The open journal.
        entries: What it held at the start.
        on_done: Called after each episode.
    """

    journal: Journal
    entries: Mapping[str, Entry]
    on_done: Callable[[FinishedEpisode], None]

    def task(self, episode: Episode) -> EpisodeTask:
        """Return an episode with the key of its judgement in the journal."""
        entry = self.entries.get(episode.id)
        return EpisodeTask(episode, None if entry is None or entry.failed else entry.key)

    def write(self, outcome: Outcome) -> None:
        """Write the record of an episode; what cannot be written becomes its error.

        One that was judged before has none: where its labels or metadata changed, its new description is written.
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
            described, spent = unknown(outcome.id, outcome.row), outcome.record["usage"]
            outcome = failed(described, error_text(error), spent, outcome.usage)
            assert outcome.record is not None
            self.journal.append(outcome.record)
        self.on_done(FinishedEpisode(outcome.id, reused=False, error=outcome.error, usage=outcome.usage))

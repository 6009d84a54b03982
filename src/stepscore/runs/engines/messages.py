"""What a run's driver and its workers tell each other. All of it can be pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from stepscore.episodes import Episode
from stepscore.models import Request, Response
from stepscore.runs.engines.episode_work import Described
from stepscore.types import Judgement


class EpisodeTask(NamedTuple):
    """An episode to judge.

    Attributes:
        episode: The episode.
        key: Hash of the input of its judgement in the journal; ``None`` where it has none that counts.
    """

    episode: Episode
    key: str | None


@dataclass(frozen=True, slots=True)
class Give:
    """To a worker: judge these episodes together."""

    number: int
    tasks: tuple[EpisodeTask, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """To a worker: the response to a request, or why there is none."""

    ask: int
    result: Response | Exception


@dataclass(frozen=True, slots=True)
class Compute:
    """To a worker: it has the model, and answers requests itself, in one pass; the driver has counted the calls.

    Attributes:
        number: Number of this message.
        asked: For each request the number of what its judge asked, and the request, or one of those that it is made
            of.
    """

    number: int
    asked: tuple[tuple[int, Request], ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """From a worker: it has the judge."""


@dataclass(frozen=True, slots=True)
class Unable:
    """From a worker: the judge cannot be loaded there, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of an episode's judge.

    Attributes:
        ask: Number of the request.
        episode_id: The episode.
        fingerprint: Its fingerprint, with the views that the judge is given.
        request: The request; it names its frames and holds none.
        model: Number of the model among those of the judge; ``None`` for its usual one.
    """

    ask: int
    episode_id: str
    fingerprint: str
    request: Request
    model: int | None


@dataclass(frozen=True, slots=True)
class Asks:
    """From a worker: requests that judges asked at the same time."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Computed:
    """From a worker: its own answers, or why there are none; ``number`` is that of what it was asked by."""

    number: int
    results: tuple[Response | Exception, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one episode.

    Attributes:
        described: Its description.
        judgement: Its judgement; ``None`` where the one in the journal holds.
        seconds: The time it took.
        stopped: An error that every further episode would meet, too; there is no judgement then.
    """

    described: Described
    judgement: Judgement | None = None
    seconds: float = 0.0
    stopped: Exception | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """From a worker: an episode of a group has ended, and asks nothing more; its outcome comes with the group's."""

    episode_id: str


@dataclass(frozen=True, slots=True)
class Finished:
    """From a worker: the outcomes of a group."""

    number: int
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Alive:
    """From a worker, every few seconds: the number of the last group that it got, and those that it holds."""

    received: int
    holding: tuple[int, ...]


ToWorker = Give | Answered | Compute
FromWorker = Ready | Unable | Asks | Ended | Computed | Finished | Alive

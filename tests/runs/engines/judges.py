"""Judges and models that other processes can load, for the tests of engines."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from stepscore.episodes import Episode
from stepscore.errors import EpisodeError, ModelError
from stepscore.judges import Ask, SingleModelJudge
from stepscore.models import Answer, Capabilities, FrameRef, Generate, Model, Prompt, Request, Response, Turn
from stepscore.models.base import SyncMethods
from stepscore.models.media import DecodedMedia
from stepscore.models.mock import MockModel
from stepscore.types import Curve, Frames, Judgement, Verdict
from tests.fakes import FakeView, episode


def many(n: int = 12) -> list[Episode]:
    return [episode(f"task/e{i:03d}", views={"top": FakeView(mark=f"v{i}")}) for i in range(n)]


@dataclass
class Brightness(SyncMethods):
    """A model in the judge's process that answers with the mean of what it is shown."""

    name: str = "mock/brightness"
    capabilities: Capabilities = field(default_factory=Capabilities)

    def describe(self) -> Mapping[str, object]:
        return {"name": self.name}

    async def answer(self, request: Request) -> Response:
        assert isinstance(request, Generate)
        (image,) = [part for part in request.prompt.turns[0].parts if isinstance(part, DecodedMedia)]
        return Answer(f"{float(np.mean(image.clip.frames)):.3f}", tokens_in=7, tokens_out=1)


@dataclass
class Asking(SingleModelJudge):
    """A judge that asks its model three times, each question made of the answer before; it prints as it goes."""

    model: Brightness | MockModel = field(default_factory=Brightness)
    fails: str = ""
    name = "asking"
    version = 1

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        print("a judge may print", episode.id)
        if episode.id == self.fails:
            raise EpisodeError(f"Episode {episode.id} cannot be judged.")
        text, values = "", []
        for index in (3, 7, 11):
            question = f"{episode.id} {text}"
            answer = await ask(Generate(Prompt((Turn("user", (FrameRef("top", index), question)),))))
            assert isinstance(answer, Answer)
            text = answer.text
            values.append(float(text) / 255)
        return Judgement(Curve(np.arange(3.0), np.array(values)), success_score=values[-1])


@dataclass(frozen=True)
class SlowView(FakeView):
    """A view that takes a time of chance to read, so that requests come in any order."""

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        time.sleep(random.SystemRandom().uniform(0, 0.02))
        return super().read(indices, size)


def slow(n: int = 11) -> list[Episode]:
    return [episode(f"e{i:03d}", views={"top": SlowView(mark=f"v{i % 8}")}) for i in range(n)]


@dataclass
class Together(Brightness):
    """A model that answers questions in passes; an answer names all that was answered with it."""

    batch: int = 3
    name: str = "mock/together"

    def is_batchable(self, request: Request) -> bool:
        return "alone" not in _question(request)

    async def answer(self, request: Request) -> Response:
        (answer,) = await self.answer_batch([request])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def answer_batch(self, requests: Sequence[Request]) -> Sequence[Response | Exception]:
        assert len(requests) <= self.batch
        await asyncio.sleep(0.002)
        together = " + ".join(map(_question, requests))
        return [
            ModelError("Not this one.") if "refused" in _question(request) else Answer(together, tokens_in=1)
            for request in requests
        ]


def _question(request: Request) -> str:
    assert isinstance(request, Generate)
    return " ".join(part for part in request.prompt.turns[0].parts if isinstance(part, str))


@dataclass
class Rounds(SingleModelJudge):
    """A judge whose episodes ask a different number of times, some two things at once; it keeps all answers."""

    model: Together = field(default_factory=Together)
    name = "rounds"
    version = 1

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        number = int(episode.id[1:])
        answers = []
        for turn in range(1 + number % 3):
            for question in ("alone ",) if number == 4 else ():
                await ask(_about(episode, f"{question}{turn}"))
            asked = [ask(_about(episode, f"{turn}.{part}")) for part in range(2 if number % 4 == 1 else 1)]
            answers += await asyncio.gather(*asked)
        if number == 5:
            answers.append(await ask(_about(episode, "refused")))
        texts = "; ".join(answer.text for answer in answers if isinstance(answer, Answer))
        return Judgement(verdicts=(Verdict("together", "yes", why=texts),))


def _about(episode: Episode, text: str) -> Generate:
    return Generate(Prompt((Turn("user", (FrameRef("top", 3), f"{episode.id}:{text}")),)))


@dataclass
class Killing(Asking):
    """It kills its process where it meets one of these episodes; with a folder, only the first time."""

    episodes: tuple[str, ...] = ()
    once: Path | None = None

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        if episode.id in self.episodes and self._first(episode.id):
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().judge(episode, ask)

    def _first(self, name: str) -> bool:
        if self.once is None:
            return True
        mark = self.once / name.replace("/", "_")
        if mark.exists():
            return False
        mark.touch()
        return True


@dataclass
class Mortal(Brightness):
    """A model that kills its process the first time it is asked, and leaves a mark."""

    mark: Path = Path()

    async def answer(self, request: Request) -> Response:
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().answer(request)


@dataclass
class Impatient(Asking):
    """It kills its process, once, while the answer to its first question is on its way; it reads nothing of it."""

    mark: Path = Path()
    model: Model = field(default_factory=Brightness)  # type: ignore[assignment]

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        question = Generate(Prompt((Turn("user", (FrameRef("top", 3), f"What of {episode.id}?")),)))
        asked = asyncio.ensure_future(ask(question))
        if episode.id == "task/e002" and not self.mark.exists():
            await asyncio.sleep(0.3)
            assert not asked.done()
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await asked
        assert isinstance(answer, Answer)
        return Judgement(success_score=len(answer.text) / 100)


@dataclass
class Sleeping(Asking):
    """It takes its time, and leaves a file with the number of its process."""

    folder: Path = Path()
    seconds: float = 60.0

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        (self.folder / str(os.getpid())).touch()
        time.sleep(self.seconds)
        return Judgement()


@dataclass
class Gathering(Asking):
    """It leaves a file with the number of its process; after the first episode, it waits until there are so many."""

    folder: Path = Path()
    processes: int = 0

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        (self.folder / str(os.getpid())).touch()
        end = time.monotonic() + 60
        while len(list(self.folder.iterdir())) < self.processes and episode.id != "task/e000":
            if time.monotonic() > end:
                raise EpisodeError("No further worker came.")
            await asyncio.sleep(0.05)
        return await super().judge(episode, ask)


@dataclass
class Exiting(Asking):
    """It calls ``sys.exit()`` about two episodes: in a task that it starts, and in its model."""

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        if episode.id == "task/e001":
            await asyncio.gather(self._exit(), asyncio.sleep(0))
        return await super().judge(episode, ask)

    async def _exit(self) -> None:
        await asyncio.sleep(0)
        sys.exit(0)


@dataclass
class ExitingModel(Brightness):
    """A model that calls ``sys.exit()`` when it is asked about one episode."""

    async def answer(self, request: Request) -> Response:
        if "task/e002" in _question(request):
            sys.exit(0)
        return await super().answer(request)

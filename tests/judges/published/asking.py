"""What a judge of a published model asks of one episode, and what it makes of given answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscore.episodes import Episode
from stepscore.judges import Judge
from stepscore.models import FrameRef, Generate, GoalImage, Model, Request, TiledFrames, VideoFrames
from stepscore.models.blocking import run_blocking
from stepscore.models.media import MediaRef
from stepscore.models.responses import Answer
from stepscore.types import Judgement
from tests.fakes import FakeView, episode

Said = Callable[[Generate], str | Answer]


def ask_judge(judge: Judge, one: Episode, said: Said | None = None) -> tuple[Judgement, list[Generate]]:
    """The judgement of one episode, and the requests in the order they came, as they name their images."""
    requests: list[Generate] = []

    async def ask(request: Request, model: Model | None = None) -> Any:
        assert isinstance(request, Generate)
        requests.append(request)
        answer = request.unknown() if said is None else said(request)
        return Answer(answer) if isinstance(answer, str) else answer

    return run_blocking(judge.judge(one, ask)), requests


def asked(judge: Judge, one: Episode, said: Said | None = None) -> list[Generate]:
    """The requests alone."""
    return ask_judge(judge, one, said)[1]


def named(part: MediaRef) -> str:
    """An image as a test states it: ``top 3``, ``goal top``, ``top 0-4-8``, ``[top 0|top 1]``."""
    if isinstance(part, GoalImage):
        return f"goal {part.view}"
    if isinstance(part, TiledFrames):
        return f"[{'|'.join(map(named, part.frames))}]"
    if isinstance(part, VideoFrames):
        return f"{part.view} {'-'.join(map(str, part.indices))}"
    assert isinstance(part, FrameRef)
    return f"{part.view} {part.index}"


def shown(request: Generate) -> list[str]:
    """The images of a request, in order."""
    return [named(part) for part in request.refs()]


def subject(views: int = 1, frames: int = 5, **fields: object) -> Episode:
    names = ("top", "left", "right", "fourth")[:views]
    values = {"views": {name: FakeView(frames, mark=name) for name in names}, **fields}
    return episode("e", **values)

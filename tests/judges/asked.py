"""What a mock model was asked, and runs that touch no cache of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import stepscore
from stepscore.episodes import Episode
from stepscore.judges import Judge
from stepscore.models import (
    DecodedMedia,
    Generate,
    Model,
    Request,
    Score,
    media_decoder,
    run_blocking,
)
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions
from stepscore.runs.run import Run


def text_of(request: Request) -> str:
    """The words of a prompt, without its images."""
    assert isinstance(request, Generate | Score)
    return "".join(p for turn in request.prompt.turns for p in turn.parts if isinstance(p, str))


def images_of(request: Request) -> list[DecodedMedia]:
    """The images of a prompt, in order."""
    assert isinstance(request, Generate | Score)
    return [p for turn in request.prompt.turns for p in turn.parts if isinstance(p, DecodedMedia)]


def frames_of(request: Request) -> list[int]:
    """The frame numbers of a prompt's images, in order."""
    return [int(shown.clip.indices[0]) for shown in images_of(request)]


def run_judge(
    judge: Judge, subjects: Episode | Sequence[Episode], out: Path, views: Sequence[str] | None = None
) -> Run:
    """A run without a cache."""
    chosen = [subjects] if isinstance(subjects, Episode) else subjects
    return stepscore.score(chosen, judge, out=out, views=views, call_options=CallOptions(cache=False))


def one_row(run: Run) -> dict[str, object]:
    """The judgement of a run of one episode that had no error."""
    (row,) = run.judgements().to_pylist()
    assert row["error"] is None, row["error"]
    return row


def judge_once(judge: Judge, subject: Episode) -> list[Request]:
    """What a judge asks its mock model about an episode, without a run."""
    model = judge.models[0]
    assert isinstance(model, MockModel)

    async def ask(request: Request, model: Model | None = None) -> Any:
        return await judge.models[0].answer(request.resolved(media_decoder(subject)))

    before = len(model.requests)
    run_blocking(judge.judge(subject, ask))
    return model.requests[before:]

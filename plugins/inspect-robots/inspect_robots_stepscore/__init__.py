"""A grader for inspect-robots: a StepScore judge scores the whole video of a trial.

``inspect-robots run ... --grader stepscore -G model=embedded`` or ``-G url=http://127.0.0.1:8000``. The verdict is
the judge's probability of success at the end of the video; its note has the progress and the protocol's hash. A trial
that the judge cannot score stays ungraded.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from inspect_robots.rollout import StepRecord, TrialRecord
    from inspect_robots.scene import Scene

__all__ = ["StepScoreGrader", "stepscore_grader"]


class StepScoreGrader:
    """Grades trials.

    Args:
        judge: Has ``open(instruction, views)``: a ``topreward`` judge, or a ``RemoteJudge``.
        fps: Frames per second of the recorded steps (their control rate).
        camera: The camera to show; ``None`` for the first by name.
        threshold: Probability from which a trial is a success.
        described: What ``config()`` says of the judge.
    """

    name = "stepscore"

    def __init__(
        self, judge: Any, *, fps: float, camera: str | None, threshold: float, described: Mapping[str, Any]
    ) -> None:
        self._judge, self._fps, self._camera = judge, fps, camera
        self._threshold, self._described = threshold, dict(described)

    def config(self) -> dict[str, Any]:
        """Return what governs each judgement, for the log."""
        chosen = {"fps": self._fps, "camera": self._camera, "threshold": self._threshold}
        return {**self._described, **chosen}

    def grade(self, record: TrialRecord, scene: Scene) -> None:
        """Judge a trial; what fails leaves the record as it is, and says so on stderr."""
        from inspect_robots.transcript import operator_event

        try:
            if record.operator_judgement is not None:
                return
            if record.terminated and record.termination_reason in ("success", "failure"):
                verdict, source, note = str(record.termination_reason), "embodiment", None
            else:
                verdict, note = self._judged(record, scene)
                source = self.name
        except Exception as error:  # grading never crashes a finished run
            print(f"stepscore grader: {error}; trial left ungraded", file=sys.stderr)
            return
        record.operator_judgement = verdict
        if note is not None:
            record.operator_note = note
        record.events.append(operator_event(t=len(record.steps), verdict=verdict, source=source, note=note))

    def _judged(self, record: TrialRecord, scene: Scene) -> tuple[str, str]:
        """Return the verdict and a note."""
        from stepscore.episodes import Clip

        frames = _frames(record.steps, self._camera)
        clip = Clip(np.stack(frames), np.arange(len(frames)) / self._fps, np.arange(len(frames)))
        with self._judge.open(scene.instruction) as session:
            curves = [each for each in (session.add(clip), session.finish()) if len(each)]
        if not curves:
            raise ValueError(f"{len(frames)} frames are too few for a point")
        last = curves[-1]
        calibrated = "success_probability" in last.channels
        success = last.channels["success_probability" if calibrated else "success"][-1]
        if math.isnan(success):
            raise ValueError("the judge does not know (the video may be out of its distribution)")
        words = "probability of success" if calibrated else "uncalibrated success score"
        note = f"{words} {success:.2f}, progress {last.progress[-1]:.2f} after {len(frames)} frames"
        if protocol := self._described.get("protocol_hash"):
            note += f"; protocol {protocol}"
        return ("success" if success >= self._threshold else "failure"), note


def stepscore_grader(
    model: str = "embedded",
    url: str | None = None,
    token_file: str | None = None,
    fps: float = 2.0,
    camera: str | None = None,
    threshold: float = 0.5,
    calibration: str | None = None,
) -> StepScoreGrader:
    """Return a grader.

    Args:
        model: Model string of a judge in this process.
        url: A reward server (``stepscore serve``) instead of a model.
        token_file: File with the server's token.
        fps: Control steps per second of the recorded trials.
        camera: The camera to show; by default the first by name.
        threshold: Probability from which a trial is a success.
        calibration: A map of ``stepscore calibrate`` for causal sampling.
    """
    if not 0 < threshold <= 1 or not fps > 0:
        raise ValueError(f"threshold must be in 0..1 and fps above 0, got {threshold} and {fps}")
    if url is not None:
        from stepscore.rewards import RemoteJudge

        remote = RemoteJudge(url, None if token_file is None else Path(token_file))
        described = {"url": url, "protocol_hash": remote.info["protocol_hash"]}
        return StepScoreGrader(remote, fps=fps, camera=camera, threshold=threshold, described=described)
    from stepscore.judges import get_judge
    from stepscore.runs import protocol_of

    options: dict[str, Any] = {"sampling": "causal"}
    if calibration is not None:
        options["calibration"] = calibration
    judge = get_judge("topreward", model=model, **options)
    described = {"model": model, "protocol_hash": protocol_of(judge).hash}
    return StepScoreGrader(judge, fps=fps, camera=camera, threshold=threshold, described=described)


def _frames(steps: list[StepRecord], camera: str | None) -> list[Any]:
    """Return the images of a camera: before the first step, then after every one."""
    if not steps:
        raise ValueError("the trial has no steps")
    inside = [(steps[0].observation.images, steps[0].image_refs)]
    inside += [(step.result.observation.images, step.result_image_refs) for step in steps]
    frames = []
    for images, refs in inside:
        found = images or refs or {}
        if not found:
            raise ValueError("the trial was recorded without images")
        name = sorted(found)[0] if camera is None else camera
        if name not in found:
            raise ValueError(f"no camera {name!r}; the trial has {', '.join(sorted(found))}")
        one = found[name]
        frames.append(np.asarray(one.load() if hasattr(one, "load") else one, dtype=np.uint8)[..., :3])
    return frames

"""SARM: a trained network predicts which stage of the task is under way, and how much of it is done.

Chen et al. 2025, arXiv 2509.25358. The network looks at a window of frames and at the episode's first one; see
``models/sarm/window.py`` for the window and ``models/sarm/network.py`` for the network. Progress is the place of
the stage on the way and the share of it that is done: phi = P_k + tau (P_{k+1} - P_k).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from stepscore.episodes import Episode, sample_frames
from stepscore.episodes.lerobot import read_state
from stepscore.errors import CapabilityError, EpisodeError, UnknownNameError
from stepscore.judges.base import Ask, SingleModelJudge
from stepscore.judges.common.ask_model import require
from stepscore.judges.common.calibration import CalibratedJudge, FittedMap
from stepscore.judges.common.option_checks import at_least, check_options, frame_rate, one_of, optional, whole
from stepscore.judges.sarm.session import SarmSession, stage_curve
from stepscore.models import PredictStages, VideoFrames
from stepscore.models.sarm import DIGITS, Decode, SarmModel
from stepscore.registry import names
from stepscore.types import Curve, FloatArray, IntArray, Judgement

Head = Literal["sparse", "dense"]
FINAL_POINTS = 3
"""Points at the end whose mean progress is the success score."""


@dataclass(frozen=True)
class Sarm(CalibratedJudge, SingleModelJudge):
    """Progress at every frame from a trained stage-aware network: absolute, uncalibrated.

    Channels: ``stage``, the number of the likeliest stage from 0; ``share``, how much of it is done;
    ``p_stage_0``, ``p_stage_1`` ..., the stages' probabilities, in the order in which the checkpoint's
    ``sarm.json`` names them; ``sparse`` and ``dense``, the heads' progress where there are both; ``raw``, progress
    before smoothing where that is asked for. The success score is the mean of the last three points.

    Attributes:
        model: ``sarm/CHECKPOINT``.
        head: Whose progress counts; by default the dense one where the checkpoint has it.
        decode: ``argmax``: progress of the likeliest stage, as published; ``expected``: the mean over all stages
            by their probability.
        fps: Points a second; ``None`` for a point at every frame.
        max_frames: Most points; a longer episode is scored at as many, evenly spread.
        smooth_s: Seconds of the trailing mean over points; 0 for none.
        calibration: A map from ``stepscore calibrate``, fitted with the same options and checkpoint.
    """

    model: SarmModel = field(metadata=names("model"))
    head: Head | None = None
    decode: Decode = "argmax"
    fps: float | None = None
    max_frames: int = 3000
    smooth_s: float = 0.0
    calibration: str | Path | None = field(default=None, metadata=names("path"))
    fitted: FittedMap | None = field(init=False, repr=False, default=None)
    name = "sarm"
    version = 1

    def __post_init__(self) -> None:
        require(self.model, self.name, stages=True)
        check_options(self, head=optional(one_of(Head)), decode=one_of(Decode), fps=optional(frame_rate()))
        check_options(self, max_frames=whole(2), smooth_s=at_least(0))
        self.read_map()

    def options(self) -> Mapping[str, object]:
        """Return everything that can change a number; the checkpoint is the model."""
        # Without a map there is no calibration to state.
        calibration = {} if self.fitted is None else {"calibration": self.map_content()}
        return {
            **calibration,
            "head": self.head,
            "decode": self.decode,
            "fps": None if self.fps is None else float(self.fps),
            "max_frames": self.max_frames,
            "smooth_s": float(self.smooth_s),
        }

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return the curve, and the mean of its last three points as success score."""
        config = self.model.config
        viewed = episode.with_views(config.views) if episode.views else episode
        task = config.task_of(episode.task, episode.instruction)
        frames, scored = self._plan(viewed)
        sampled = sample_frames(viewed, indices=frames.tolist())
        side = self.model.frame_encoder.side
        request = PredictStages(
            tuple(VideoFrames(view, tuple(at.tolist()), side) for view, at in sampled.indices.items()),
            episode.instruction,
            task,
            frames=None if len(scored) == len(frames) else tuple(scored.tolist()),
            decode=self.decode,
            state=_rows(read_state(episode, config.state)[frames]) if config.state else None,
        )
        response = await ask(request)
        times = sampled.times[scored]
        if not response.heads:
            return Judgement(Curve(times, np.full(len(times), np.nan)))
        curve = stage_curve(times, response, self.chosen, self.smooth_s)
        judgement = Judgement(curve, success_score=float(np.mean(curve.progress[-FINAL_POINTS:])))
        return self.calibrated(judgement, episode)

    def open(self, instruction: str, views: Sequence[str], task: str | None = None) -> SarmSession:
        """Open a session on a video that is still being recorded, scored frame by frame as :meth:`judge` would.

        Args:
            instruction: The text the robot was given.
            views: The cameras that will be shown; the checkpoint's must be among them.
            task: The trained task whose stages count, where the instruction does not name it.

        Raises:
            CapabilityError: The checkpoint is bidirectional: it would need later frames.
        """
        if not self.model.config.window.causal:
            raise CapabilityError(
                f"{self.model.name} is bidirectional; online scoring needs a -T causal=true checkpoint: "
                "stepscore train sarm DATASET -T causal=true"
            )
        for view in self.model.config.views:
            if view not in views:
                raise UnknownNameError("view", view, views, where="the session")
        chosen = self.model.config.task_of(task, instruction)
        return SarmSession(
            self.model, self.chosen, instruction, chosen, decode=self.decode, smooth_s=self.smooth_s
        )

    @property
    def chosen(self) -> str:
        """The head whose progress counts."""
        config = self.model.config
        head = self.head or config.head
        if head not in config.procedures:
            raise UnknownNameError("head", head, config.procedures, where=self.model.name)
        return head

    def _plan(self, episode: Episode) -> tuple[IntArray, IntArray]:
        """Return the frames of the main view that any window holds, and which of these are scored."""
        if not episode.views:
            raise EpisodeError(f"Episode {episode.id} has no video; sarm needs one.")
        times = episode.views[episode.main_view].timestamps()
        if not len(times):
            raise EpisodeError(f"Episode {episode.id} has no frames.")
        scored = np.arange(len(times))
        if self.fps is not None:
            scored = sample_frames(episode, fps=self.fps).indices[episode.main_view]
        if len(scored) > self.max_frames:
            scored = scored[
                np.unique(np.round(np.linspace(0, len(scored) - 1, self.max_frames)).astype(np.int64))
            ]
        in_window, inside = self.model.config.window.frames_at(times, scored)
        frames = np.unique(np.append(in_window[inside], scored))
        return frames, np.searchsorted(frames, scored)


def _rows(state: FloatArray) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, np.round(state, DIGITS).tolist()))

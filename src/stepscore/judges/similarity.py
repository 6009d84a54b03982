"""Similarity: how alike are this frame and the goal, or this frame and the instruction, to a frozen encoder?

The baseline that reward models are compared with: cosine similarity in the space of CLIP, SigLIP, DINOv2 or another
encoder. PRM-as-a-Judge has it as "CLIP (I2I)"; to a text it is the reward of Rocamonde et al., arXiv 2310.12921.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from stepscore.episodes import Episode, SampledFrames, sample_frames
from stepscore.errors import CapabilityError, EpisodeError, OptionError
from stepscore.judges.base import Ask, SingleModelJudge
from stepscore.judges.common.calibration import CalibratedJudge, FittedMap
from stepscore.judges.common.option_checks import (
    boolean,
    check_options,
    frame_rate,
    image_size,
    one_of,
    optional,
    text,
    whole,
)
from stepscore.metrics import trailing_mean
from stepscore.models import FrameRef, GoalImage, Model, ScoreSimilarity, Similarities, VideoFrames
from stepscore.registry import names
from stepscore.types import Curve, FloatArray, Judgement

Target = Literal["goal", "text"]
SimilarityForm = Literal["gap", "projection", "cosine"]

MIN_GAP = 1e-4
"""Least difference between start and goal, 1 - cosine, for which a share of it has a meaning."""
GOAL, BASELINE = 0, 1
"""Places of the goal and of the baseline among the references of a request."""


@dataclass(frozen=True)
class Similarity(CalibratedJudge, SingleModelJudge):
    """Progress from cosine similarities of an encoder, s_t that of frame t with the target: uncalibrated.

    ============  =======================================================  ===========================================
    form          progress                                                 baseline b
    ============  =======================================================  ===========================================
    gap           (s_t - s_0) / (1 - s_0), s_0 of the first frame          goal images only: the first frame
    projection    (x_t - b) (g - b) / |g - b|^2 of unit features, the      the first frame; with a text the option
                  place on the line from baseline to goal                  ``baseline``
    cosine        unknown: a cosine is not progress                        none
    ============  =======================================================  ===========================================

    ``gap`` and ``projection`` are 0 at the first frame and 1 at the goal image. A frame that is less like the goal
    than the start lies below 0: progress is unknown there unless ``clip`` is set. The line from baseline to goal is
    that of Rocamonde et al., whose reward at full regularization, 1 - |g - b|^2 (1 - p)^2 / 2, orders frames up to
    the goal as p does. With ``cosine`` only the similarity is returned; a map of ``stepscore calibrate --channel
    raw`` turns it into progress. A goal that the encoder cannot tell from the start has no progress: unknown.

    Channels: ``raw``, the cosine s_t; ``gap`` or ``projection`` before the cut to 0..1; with several views also
    ``raw:VIEW``. Several views are scored one by one and averaged, those that have a goal image. Facts:
    ``start_similarity``, s_0 of the first view. The success score is the mean of the last three points, within 0..1
    ((1 + s_t) / 2 for ``cosine``); no published rule turns it into a verdict.

    Attributes:
        model: ``embedded`` (goal images only), ``hf/clip``, ``hf/siglip``, ``hf/dinov2`` (goal images only), or
            another encoder: ``hf/PATH-OR-ID``.
        target: ``goal``, the goal image of each view; ``text``, the instruction.
        form: See above; by default ``gap`` for a goal image and ``cosine`` for a text.
        frames: Frames spread evenly from the first to the last.
        fps: Or one every 1/fps seconds (and the last), at most ``max_frames``.
        max_frames: With ``fps``: at most this many, evenly spread.
        prompt: The text that is compared, with ``{instruction}`` in it.
        baseline: With ``target=text`` and ``form=projection``: the text that describes the scene without the task.
        size: Longer side in pixels to which frames are decoded; encoders then resize them to squares.
        clip: Put progress outside 0..1 at 0 or 1; without it, it is unknown there.
        calibration: A map from ``stepscore calibrate``, fitted with the same options and model.
    """

    model: Model = field(metadata=names("model"))
    target: Target = "goal"
    form: SimilarityForm | None = None
    frames: int = 32
    fps: float | None = None
    max_frames: int = 256
    prompt: str = field(default="{instruction}", metadata=names("text"))
    baseline: str = field(default="a robot arm", metadata=names("text"))
    size: int | None = 224
    clip: bool = False
    calibration: str | Path | None = field(default=None, metadata=names("path"))
    fitted: FittedMap | None = field(init=False, repr=False, default=None)
    name = "similarity"
    uses_goals = True
    version = 1
    score_is_verdict = False

    def __post_init__(self) -> None:
        check_options(self, target=one_of(Target), form=optional(one_of(SimilarityForm)), frames=whole(2))
        check_options(self, fps=optional(frame_rate()), max_frames=whole(2), prompt=text(), baseline=text())
        check_options(self, size=image_size(), clip=boolean())
        if self.target == "text" and self.form == "gap":
            raise OptionError(
                "form=gap needs goal images: no image has a similarity of 1 with a text. Use form=projection, or "
                "form=cosine."
            )
        if self.target == "text" and not self.prompt.strip():
            raise OptionError("prompt is empty; it is the text to compare, for example '{instruction}'.")
        self.read_map()

    @property
    def chosen_form(self) -> SimilarityForm:
        """The form, or the default of the target."""
        return self.form or ("gap" if self.target == "goal" else "cosine")

    def options(self) -> Mapping[str, object]:
        """Return everything that can change a number."""
        texts = {"prompt": self.prompt, "baseline": self.baseline} if self.target == "text" else {}
        return {
            "target": self.target,
            "form": self.chosen_form,
            "frames": self.frames if self.fps is None else None,
            "fps": None if self.fps is None else float(self.fps),
            "max_frames": self.max_frames if self.fps is not None else None,
            "size": self.size,
            "clip": self.clip,
            **texts,
            "views": "each scored alone, mean of those that are known",
            "calibration": self.map_content(),
        }

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return the curve; one relative to the first frame has no point there if it is 0 by definition."""
        count = None if self.fps is not None else self.frames
        sampled = sample_frames(episode, count=count, fps=self.fps, most=self.max_frames)
        if len(sampled) < 2:
            raise EpisodeError(f"Episode {episode.id} has one frame; similarity compares two or more.")
        first = int(self.target == "goal" and self.chosen_form != "cosine")
        found = await self._similarities(episode, sampled, ask)
        cosines = {view: one.frames[first:, GOAL] for view, one in found.items()}
        values = {view: self._values(one)[first:] for view, one in found.items()}
        start = float(next(iter(found.values())).frames[0, GOAL])
        judgement = self._judgement(sampled.times[first:], cosines, values, start)
        return self.calibrated(judgement, episode)

    async def compare(
        self,
        episode: Episode,
        sampled: SampledFrames,
        pairs: Sequence[tuple[int, int]],
        ask: Ask,
        *,
        repeat: int = 0,
    ) -> FloatArray:
        """Return by how much the form's value rises in each pair of frames; see :class:`FrameComparer`."""
        found = await self._similarities(episode, sampled, ask)
        value = _mean_of_known([self._values(one) for one in found.values()])
        return np.array([value[after] - value[before] for before, after in pairs])

    async def _similarities(
        self, episode: Episode, sampled: SampledFrames, ask: Ask
    ) -> dict[str, Similarities]:
        """Return the similarities of every sampled frame, by view."""
        self._require()
        found = {}
        for view in self._views(episode):
            response = await ask(self._request(episode, sampled, view))
            found[view] = response
        return found

    def _require(self) -> None:
        can = self.model.capabilities.similarity
        if can == "none" or (can == "images" and self.target == "text"):
            lacks = (
                "scores no similarity" if can == "none" else "has no text encoder in the space of its images"
            )
            raise CapabilityError(
                f"similarity: {self.model.name} {lacks}. hf/clip and hf/siglip compare images and texts; hf/dinov2, "
                "other encoders under hf/ and embedded compare images (-J target=goal)."
            )

    def _views(self, episode: Episode) -> list[str]:
        if not episode.views:
            raise EpisodeError(f"Episode {episode.id} has no video; similarity needs one.")
        views = [view for view in episode.views if self.target == "text" or view in episode.goals]
        if not views:
            raise EpisodeError(
                f"Episode {episode.id} has no goal image. Give one: --goal FILE, --goal FOLDER or "
                "--goal last-success; or compare with the instruction: -J target=text"
            )
        return views

    def _request(self, episode: Episode, sampled: SampledFrames, view: str) -> ScoreSimilarity:
        indices = sampled.indices[view]
        video = VideoFrames(view, tuple(indices.tolist()), self.size)
        if self.target == "goal":
            return ScoreSimilarity(
                video, (GoalImage(view, self.size), FrameRef(view, int(indices[0]), self.size))
            )
        prompt = self.prompt.replace("{instruction}", episode.instruction.strip())
        return ScoreSimilarity(video, texts=(prompt, self.baseline))

    def _values(self, found: Similarities) -> FloatArray:
        """Return the form's value at each frame, before the cut to 0..1."""
        if self.chosen_form == "cosine":
            return found.frames[:, GOAL]
        # Unit features: |g - b|^2 = 2 - 2 g b, and (x - b) (g - b) = x g - x b - g b + 1.
        between = found.references[GOAL, BASELINE]
        if not 1 - between >= MIN_GAP:
            return np.full(len(found.frames), np.nan)
        if self.chosen_form == "gap":
            return np.asarray((found.frames[:, GOAL] - between) / (1 - between))
        along = found.frames[:, GOAL] - found.frames[:, BASELINE] - between + 1
        return np.asarray(along / (2 - 2 * between))

    def _judgement(
        self,
        times: FloatArray,
        cosines: Mapping[str, FloatArray],
        values: Mapping[str, FloatArray],
        start: float,
    ) -> Judgement:
        raw, value = _mean_of_known(list(cosines.values())), _mean_of_known(list(values.values()))
        channels = {"raw": raw}
        if len(cosines) > 1:
            channels |= {f"raw:{view}": cosine for view, cosine in cosines.items()}
        if self.chosen_form == "cosine":
            progress, score = np.full(len(times), np.nan), (1 + raw) / 2
        else:
            channels[self.chosen_form] = value
            inside = (value >= 0) & (value <= 1)
            progress = np.clip(value, 0, 1) if self.clip else np.where(inside, value, np.nan)
            score = np.clip(value, 0, 1)
        success = float(trailing_mean(score)[-1])
        facts = {"start_similarity": start}
        return Judgement(Curve(times, progress, channels), success_score=success, facts=facts)


def _mean_of_known(rows: Sequence[FloatArray]) -> FloatArray:
    """Return the mean over views at each point, of those that are known there; NaN if none is."""
    values = np.stack(rows)
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    count = known.sum(axis=0)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan), dtype=np.float64)

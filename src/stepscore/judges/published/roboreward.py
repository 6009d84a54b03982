"""RoboReward as it was published: a level from 1 to 5 for the last state of a video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from stepscore.episodes import Episode, sample_frames
from stepscore.judges.base import Ask
from stepscore.judges.common.ask_model import ask_texts, require
from stepscore.judges.common.curves import progress_curve, success_at_end
from stepscore.judges.common.option_checks import check_options, text, whole, within
from stepscore.judges.published.profiles import VideoRule
from stepscore.judges.published.prompting import OWN, PUBLISHED
from stepscore.judges.published.published_judge import PublishedJudge
from stepscore.models import Generate, Model, VideoFrames
from stepscore.registry import names
from stepscore.types import Judgement


@dataclass(frozen=True)
class RoboReward(PublishedJudge):
    """Progress from RoboReward's levels 1 to 5 of growing prefixes of the video: (level - 1) / 4.

    The model was trained to score a whole episode by its last state; every point of the curve is its score of the
    video up to there, and the last one is that of the episode. An answer without a level from 1 to 5 in its form
    is unknown (published code takes any digit, else level 1). The channel ``level`` has the levels; the fact
    ``unread`` counts answers without one. The success score is 1 where the last progress is at least ``success_at``,
    else 0, NaN where it is unknown.

    Attributes:
        model: RoboReward-4B or RoboReward-8B.
        points: Prefixes to score, evenly up to the whole video; 1 for the whole video alone, as trained.
        success_at: Progress that counts as success; 1 is level 5.
        profile: Profile of a model that is not known by its name: ``roboreward``.
        prompt: ``"published"``, ``"own"``, or a path to a text or to the published file.
        max_tokens: Length at which an answer is cut.
    """

    model: Model = field(metadata=names("model"))
    points: int = 8
    success_at: float = 1.0
    profile: str | None = field(default=None, metadata=names("text"))
    prompt: str = field(default=PUBLISHED, metadata=names("path", PUBLISHED, OWN))
    max_tokens: int = 128
    name = "roboreward"
    version = 1

    def __post_init__(self) -> None:
        check_options(self, points=whole(1), success_at=within(0, 1), prompt=text(), max_tokens=whole(1))
        _ = self.rules

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number, digests of the prompt and the profile's rules included."""
        return self.published_options()

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return a progress curve over the ends of the prefixes."""
        require(self.model, self.name, text=True)
        sampled = sample_frames(episode, count=self.points + 1)
        view = self.view_names(episode)[0]
        ends = sampled.indices[view][-self.points :]
        texts = await ask_texts(ask, [self._request(episode, view, int(end)) for end in ends])
        levels = np.array([self.read_number("video", text) for text in texts], dtype=np.float64)
        rule = self.question("video").answer
        assert rule is not None
        raw = (levels - rule.lowest) / (rule.highest - rule.lowest)
        curve = progress_curve(sampled.times[-len(raw) :], raw, {"level": levels})
        unread = float(np.isnan(levels).sum())
        return Judgement(
            curve, success_score=success_at_end(curve, self.success_at), facts={"unread": unread}
        )

    def _request(self, episode: Episode, view: str, end: int) -> Generate:
        rule = self.rules.video or VideoRule()
        indices = video_indices(end, episode.views[view].info().fps, rule)
        video = VideoFrames(view, indices, self.image_size(episode, view))
        return self.request(
            "video", [video], {"instruction": episode.instruction}, max_tokens=self.max_tokens
        )


def video_indices(last: int, fps: float, rule: VideoRule) -> tuple[int, ...]:
    """Return the frames that stand for the first ``last + 1`` of a video: ``rule.fps`` a second, evenly, both ends.

    As Qwen's own preprocessing counts them: at least ``least``, at most ``most`` and as many as there are, rounded
    down to a multiple. A single frame is shown as often as ``multiple`` says.
    """
    there = last + 1
    wanted = there / fps * rule.fps if fps > 0 else rule.least
    count = min(max(int(wanted), rule.least), rule.most, there) // rule.multiple * rule.multiple
    if count == 0:
        return tuple(range(there)) + (last,) * (rule.multiple - there)
    return tuple(int(index) for index in np.round(np.linspace(0, last, count)))

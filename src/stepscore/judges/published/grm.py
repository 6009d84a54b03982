"""Robo-Dopamine's general reward model (GRM) as it was published: hops between frames, in its own words.

The laws and modes are those of the judge :class:`stepscore.judges.Hop`, which asks any model in words of this
project. Here the question is the published one: eight images in a fixed order, the published prompt, sampling and
strict form of the answer, of which the profile ``grm`` states all.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stepscore.episodes import Episode
from stepscore.errors import EpisodeError, OptionError
from stepscore.judges.common.option_checks import check_options, one_of, seed, text
from stepscore.judges.hop import GOAL, Hop, HopMode, HopScene, goal_views
from stepscore.judges.published.profiles import Slot
from stepscore.judges.published.prompting import OWN, PUBLISHED
from stepscore.judges.published.published_judge import PublishedJudge
from stepscore.models import Answer, FrameRef, Generate, GoalImage, Part
from stepscore.registry import names

ReferenceEnd = Literal["goal", "last"]


@dataclass(frozen=True)
class Grm(PublishedJudge, Hop):
    """Progress from GRM's hops, asked as published; options beyond these are those of the judge ``hop``.

    Modes and laws are the published ones: incremental (p_1 = r, then p + (1 - p) r or p + p r), forward (r),
    backward (1 + r, BEFORE is the goal image in all three places), fused. Where the published code counts an answer
    that cannot be read as 0, it is unknown here, and so is progress; in incremental mode the next point is compared
    with the last known one. Progress below 0 or above 1 stays in the channel ``raw``.

    A question has eight images: the first frame and the goal of the main camera, BEFORE of three cameras, AFTER of
    three. With two cameras the second is shown twice, with one it is shown three times.

    Attributes:
        profile: Profile of a model that is not known by its name: ``grm``.
        prompt: ``"published"``, ``"own"``, or a path to a text or to the published file.
        end: What is shown as REFERENCE END: ``"goal"``, the episode's goal image; or ``"last"``, its own last frame,
            as the published code does where it is given no goal. Then incremental and forward alone: backward would
            compare the end with itself.
        sampling_seed: Seed of the sampled answers, for servers that take one.
    """

    size: int | None = None
    max_tokens: int = 1024
    profile: str | None = field(default=None, metadata=names("text"))
    prompt: str = field(default=PUBLISHED, metadata=names("path", PUBLISHED, OWN))
    end: ReferenceEnd = "goal"
    sampling_seed: int = 0
    structured: bool | None = field(default=False, init=False)
    name = "grm"
    version = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, prompt=text(), end=one_of(ReferenceEnd), sampling_seed=seed())
        if self.end == "last" and self.mode in ("backward", "fused"):
            raise OptionError(
                f"end=last with mode={self.mode} would compare the last frame with itself. Use a goal image, or "
                "mode=incremental or forward."
            )
        _ = self.rules

    def first_hop(self, hop: float) -> float:
        """Return progress after a hop from the first frame: the hop, also below 0."""
        return hop

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number, digests of the prompt and the profile's rules included."""
        return self.published_options()

    def usable_mode(self, episode: Episode, change: float) -> tuple[HopMode, tuple[str, ...]]:
        """Return the mode, and the views with a goal image; GRM was never asked without a REFERENCE END."""
        goals = self.comparison_goals(episode, change)
        if goals and change < self.alike:
            warnings.warn(
                f"Episode {episode.id} has a goal image that looks like its start ({change:.2%} of the pixels "
                "differ): judged in incremental mode.",
                stacklevel=2,
            )
            return "incremental", goals
        return self.mode, goals

    def comparison_goals(self, episode: Episode, change: float) -> tuple[str, ...]:
        """Return the views with a goal image, of which one is REFERENCE END; none with ``end=last``."""
        if self.end == "last":
            return ()
        goals = goal_views(episode)
        if not goals:
            raise EpisodeError(
                f"Episode {episode.id} has no goal image, which GRM is shown as REFERENCE END. Give one: "
                "--goal FILE. Or show the episode's own last frame: -J end=last"
            )
        return goals

    def pair_request(self, scene: HopScene, before: int, after: int) -> Generate:
        """Return the published question about two points; BEFORE may be ``GOAL``."""
        images = [self._image(scene, slot, before, after) for slot in self.question("pair").images]
        values = {"instruction": scene.episode.instruction}
        return self.request("pair", images, values, max_tokens=self.max_tokens, seed=self.sampling_seed)

    def read_hop(self, answer: Answer) -> float:
        """Return the hop that an answer states in the published form, NaN where none is."""
        return self.read_number("pair", answer.text)

    def _image(self, scene: HopScene, slot: Slot, before: int, after: int) -> Part:
        view = self.view_names(scene.episode)[slot.view - 1]
        main = scene.sampled.views[0]
        end = slot.role == "goal" or (slot.role == "before" and before == GOAL)
        if end and scene.goals:
            return GoalImage(scene.goals[0], self._size(scene.episode, scene.goals[0]))
        points = {"first": 0, "goal": len(scene.sampled) - 1, "before": before, "after": after}
        shown = main if end else view
        index = int(scene.sampled.indices[shown][points[slot.role]])
        return FrameRef(shown, index, self._size(scene.episode, shown))

    def _size(self, episode: Episode, view: str) -> int | None:
        return self.size if self.size is not None else self.image_size(episode, view)

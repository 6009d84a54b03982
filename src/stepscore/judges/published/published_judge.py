"""What the judges of published models share: their profile, its prompts, and how its answers are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, cast

from stepscore.episodes import Episode
from stepscore.errors import EpisodeError, OptionError
from stepscore.judges.base import SingleModelJudge
from stepscore.judges.common.parsing import parse_stated_number
from stepscore.judges.published.profiles import (
    Profile,
    Question,
    fetch_texts,
    find_checkpoint,
    load_profile,
    profile_names,
)
from stepscore.judges.published.prompting import OWN, PUBLISHED, question_texts, text_digests, with_images
from stepscore.models import FrameRef, Generate, Model, Part, Prompt, TiledFrames, Turn


class PublishedJudge(SingleModelJudge):
    """Mixin for a judge that asks as a profile says.

    Attributes:
        name: The judge's name.
        model: The model.
        profile: Name of the profile; ``None`` for that of the model, by its name.
        prompt: ``"published"``, ``"own"``, or a path; see ``prompting.py``.
    """

    name: str
    model: Model
    profile: str | None
    prompt: str

    @property
    def rules(self) -> Profile:
        """The profile.

        Raises:
            OptionError: The model is not known by its name and no profile is given, or it is another judge's.
        """
        return chosen_profile(self.name, self.profile, self.model.name)

    @property
    def questions(self) -> tuple[str, ...]:
        """Names of the profile's questions that its options ask."""
        return tuple(self.rules.questions)

    def question(self, name: str) -> Question:
        """Return a question of the profile."""
        return self.rules.questions[name]

    def texts(self, name: str) -> Mapping[str, str]:
        """Return the texts of a question by role; published ones are fetched on first use."""
        return question_texts(self.rules, name, self.prompt)

    def prepare(self, *, offline: bool = False) -> None:
        """Fetch the texts that a run needs and that are not in the cache; called once, where a run begins.

        Raises:
            OptionError: ``offline`` forbids it; the message says how to get the texts. Or a given file is wrong.
            ModelError: It cannot be fetched, or is not what was pinned.
        """
        if self.prompt == PUBLISHED:
            fetch_texts(self.rules, *map(self.question, self.questions), offline=offline)
        for name in self.questions:
            self.texts(name)

    def published_options(self) -> dict[str, object]:
        """Return all that can change a number: options, the profile's rules, and the digests of the texts."""
        values = {field.name: getattr(self, field.name) for field in fields(cast("Any", self)) if field.init}
        del values["model"]
        rules = self.rules
        used = {name: rules.questions[name] for name in self.questions}
        return {
            **values,
            "profile": rules.name,
            "prompt": self.prompt if self.prompt in (PUBLISHED, OWN) else "file",
            "prompts": {name: text_digests(rules, name, self.prompt) for name in used},
            "images": rules.images.model_dump(exclude_defaults=True),
            "sampling": rules.sampling.model_dump(),
        }

    def request(
        self,
        name: str,
        images: Sequence[Part],
        values: Mapping[str, object],
        *,
        max_tokens: int | None = None,
        seed: int = 0,
        top_logprobs: int = 0,
    ) -> Generate:
        """Return a question of the profile: the system's turn where it has one, then the user's.

        Args:
            name: The question.
            images: Its images, in the order of its slots.
            values: What fills the fields of its texts.
            max_tokens: Length at which an answer is cut; ``None`` for the published one.
            seed: Seed of a sampled answer.
            top_logprobs: Number of log-probabilities to return at every token of the answer.
        """
        question, texts, sampling = self.question(name), self.texts(name), self.rules.sampling
        user = with_images(texts["user"], images, question.texts["user"].fields, values)
        system = [Turn("system", (texts["system"],))] if "system" in texts else []
        return self.sampled(
            Prompt((*system, Turn("user", user))),
            max_tokens=max_tokens or sampling.max_tokens,
            seed=seed,
            top_logprobs=top_logprobs,
        )

    def sampled(self, prompt: Prompt, *, max_tokens: int, seed: int, top_logprobs: int = 0) -> Generate:
        """Return a request with the published sampling."""
        sampling = self.rules.sampling
        return Generate(
            prompt,
            max_tokens=max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=seed if sampling.temperature else None,
            top_logprobs=top_logprobs,
        )

    def frame(self, episode: Episode, view: str, index: int) -> Part:
        """Return a frame as the profile shows it: at its size, or stretched to its square."""
        images = self.rules.images
        if images.square is not None:
            return TiledFrames((FrameRef(view, index),), 1, images.square, stretch=True)
        return FrameRef(view, index, self.image_size(episode, view))

    def read_number(self, name: str, text: str) -> float:
        """Return what an answer to a question states, over its unit; NaN where that is unknown."""
        rule = self.question(name).answer
        assert rule is not None, name
        value = parse_stated_number(text, rule.pattern, rule.begins, ignore_case=rule.ignore_case)
        return value / rule.per if rule.lowest <= value <= rule.highest else float("nan")

    def view_names(self, episode: Episode) -> tuple[str, ...]:
        """Return the episode's views, as many as the model takes; the last is repeated where there are fewer."""
        names, most = tuple(episode.views), self.rules.views
        if len(names) > most:
            raise EpisodeError(
                f"Episode {episode.id} has {len(names)} cameras; {self.name} shows at most {most}. Choose: "
                f"--views {','.join(names[:most])}"
            )
        return names + names[-1:] * (most - len(names))

    def image_size(self, episode: Episode, view: str) -> int | None:
        """Return the longer side of a view's images, by the profile."""
        info = episode.views[view].info()
        return self.rules.images.longer_side(info.width, info.height)


@lru_cache(maxsize=64)
def chosen_profile(judge: str, profile: str | None, model: str) -> Profile:
    """Return the profile of this name, else of this model.

    Raises:
        OptionError: The model is not known by its name and no profile is given, or it is another judge's.
    """
    if profile is not None:
        found = load_profile(profile)
    elif (known := find_checkpoint(model)) is not None:
        found = known[0]
    else:
        names = [name for name in profile_names() if load_profile(name).judge == judge]
        raise OptionError(
            f"{judge} does not know {model} by its name. Say which published model it is: "
            f"{' or '.join(f'-J profile={name}' for name in names)}. List them: stepscore ls models --published"
        )
    if found.judge != judge:
        given = f"{model} is" if profile is None else "That profile is"
        raise OptionError(
            f"{given} {found.title}, which the judge {found.judge!r} asks: --judge {found.judge}"
        )
    return found

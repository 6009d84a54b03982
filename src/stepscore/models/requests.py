"""Requests of a judge to a model: text, token scores, scores of growing prefixes, stages, heads, similarity.

A request names its images (view, frame, size) instead of holding them. The call chain looks the request up in the
cache by those names, and decodes only what was never asked before. A model gets the resolved request, in which every
:data:`MediaRef` has become :class:`DecodedMedia`. A request type knows its media, the most tokens it can have, its
response and what that may hold: a new one is written here, and in the models that answer it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from stepscore.episodes import Clip
from stepscore.errors import TransientModelError
from stepscore.models.media import (
    Decode,
    DecodedMedia,
    FrameRef,
    GoalImage,
    Media,
    MediaRef,
    VideoFrames,
    decoded,
    label,
)
from stepscore.models.prompts import Prompt
from stepscore.models.responses import (
    MAX_ADDED_IN,
    MAX_ADDED_OUT,
    MAX_LOGPROB,
    Answer,
    Preference,
    PrefixScores,
    ProgressPredictions,
    Response,
    Scores,
    Similarities,
    StagePredictions,
    TokenChoice,
    cosines,
    count_of,
    logprob_of,
    probabilities,
)
from stepscore.models.schemas import Schema, object_schema
from stepscore.models.tagged import Tagged, plain
from stepscore.types import FloatArray

MAX_TOKENS_PER_IMAGE = 16_384
"""No vision model in use reads one image as more tokens than this."""

BLOCK_MARKUP = 10
"""Tokens around a block of frames in Qwen3-VL: its timestamp, and a mark at either end."""

MIN_ANSWER_CHARS = 65_536
CHARS_PER_TOKEN = 16
"""Longest text that is taken from an answer: so many characters a requested token, and at least as many as above.
Judges search it with patterns whose time grows with its square."""

R = TypeVar("R", bound=Response)


class Stream(Protocol):
    """A growing video that a model in process scores; from ``open_stream``."""

    def append(self, clip: Clip) -> None:
        """Append frames."""

    def score(self, prompts: Sequence[Prompt], candidates: Sequence[str]) -> FloatArray:
        """Return log-probabilities for the video so far."""


@dataclass(frozen=True)
class TypedRequest(Tagged, Generic[R]):
    """A request that is answered with a response of type ``R``.

    Attributes:
        response: That type.
        shown: Names of its fields with images and videos, or prompts that hold them.
        unanswered: What a message says of a model that does not answer such requests.
        cached: Whether the answer depends on nothing but the request, so that it is kept.
        writes_text: Whether the answer is as long as the model makes it; the number of tokens of others is known.
    """

    response: ClassVar[type[Response]]
    shown: ClassVar[tuple[str, ...]] = ("prompt",)
    unanswered: ClassVar[str] = "does not answer this"
    cached: ClassVar[bool] = True
    writes_text: ClassVar[bool] = False

    def media(self) -> list[Media]:
        """Return the images and videos it shows, in order."""
        return [part for name in self.shown for part in _media(getattr(self, name))]

    def refs(self) -> list[MediaRef]:
        """Return the images and videos that it names."""
        return [part for part in self.media() if isinstance(part, MediaRef)]

    def resolved(self, decode: Decode) -> Self:
        """Return it with decoded frames in place of names."""
        return replace(self, **{name: _resolved(getattr(self, name), decode) for name in self.shown})

    def words(self) -> list[str]:
        """Return all its words, the instruction among them."""
        return []

    def as_text(self) -> str:
        """Return it as a person would read it, images as their names."""
        raise NotImplementedError

    def token_bound(self) -> tuple[int, int]:
        """Return an upper bound of its input and output tokens."""
        return 0, 0

    def token_estimate(self, image_tokens: int, frames_per_block: int) -> tuple[int, int]:
        """Return its input tokens, about, and its output tokens at most; a token is four bytes.

        Args:
            image_tokens: Tokens of its images.
            frames_per_block: Frames of a video's prefix that are read as one image, after a timestamp.
        """
        return image_tokens, 0

    def unknown(self, text: str = "") -> R:
        """Return the response in which nothing is known; ``text`` is that of a generated one."""
        raise NotImplementedError

    def check(self, response: object, where: str) -> R:
        """Return a response with unknown in place of what cannot be true.

        Args:
            response: From a model or the cache.
            where: The model's name, for messages.

        Raises:
            TransientModelError: It is not of the kind, length or shape that this asks for.
        """
        checked = self.checked(response) if isinstance(response, self.response) else None
        if checked is None:
            raise TransientModelError(f"{where} returned something other than what was requested.")
        return checked

    def checked(self, response: Any) -> R | None:
        """Return a response of its kind as :meth:`check` does; ``None`` where it is no answer."""
        raise NotImplementedError

    def possible_counts(self, response: Response) -> tuple[int, int]:
        """Return the counts of tokens of a response, each 0 where it is more than this can have."""
        most_in, most_out = self.token_bound()
        read, written = count_of(response.tokens_in), count_of(response.tokens_out)
        return (
            read if read <= most_in + MAX_ADDED_IN else 0,
            written if written <= most_out + MAX_ADDED_OUT else 0,
        )


Request: TypeAlias = TypedRequest[Any]


def _media(value: Prompt | tuple[Media, ...] | Media) -> list[Media]:
    if isinstance(value, Prompt):
        return value.media()
    return list(value) if isinstance(value, tuple) else [value]


def _resolved(value: Any, decode: Decode) -> Any:
    if isinstance(value, Prompt):
        return value.resolved(decode)
    return (
        tuple(decoded(each, decode) for each in value) if isinstance(value, tuple) else decoded(value, decode)
    )


@dataclass(frozen=True)
class PromptRequest(TypedRequest[R]):
    """A request that is one prompt."""

    prompt: Prompt

    def words(self) -> list[str]:
        """Return the texts of the prompt."""
        return self.prompt.texts()

    def as_text(self) -> str:
        """Return the turns, one a line."""
        return self.prompt.as_text()

    def token_bound(self) -> tuple[int, int]:
        """Return an upper bound of its input and output tokens."""
        images = sum(part.images for part in self.media())
        return self.prompt.text_tokens() + images * MAX_TOKENS_PER_IMAGE, 0

    def token_estimate(self, image_tokens: int, frames_per_block: int) -> tuple[int, int]:
        """Return its input tokens, about, and its output tokens at most."""
        return image_tokens + _bytes(self.words()) // 4, self.token_bound()[1]

    @property
    def video_frames(self) -> int:
        """Number of frames of its videos together."""
        return sum(part.images for part in self.media() if isinstance(part, VideoFrames | DecodedMedia))


def _bytes(texts: list[str]) -> int:
    return sum(len(text.encode()) for text in texts)


@dataclass(frozen=True)
class Generate(PromptRequest[Answer]):
    """Generate text.

    Attributes:
        prompt: What to answer.
        max_tokens: Length at which to stop.
        temperature: 0 for greedy decoding.
        top_p: Share of probability to sample from.
        top_k: Number of most likely tokens to sample from; ``None`` for all.
        top_logprobs: Number of most likely tokens whose log-probabilities are returned at every token of the answer.
        seed: For servers that take one.
        json: Ask for a JSON object where the model supports it.
        repeat: Number among several equal requests; each is asked, and cached, on its own.
        schema: The form that the answer must have, where the model supports it; ``None`` for any text.
    """

    max_tokens: int = 512
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    json: bool = False
    repeat: int = 0
    top_k: int | None = None
    top_logprobs: int = 0
    schema: Schema | None = None
    tag: ClassVar[str] = "generate"
    later: ClassVar[Mapping[str, object]] = {"top_k": None, "top_logprobs": 0, "schema": None}
    response = Answer
    unanswered = "writes no text"
    writes_text = True

    def token_bound(self) -> tuple[int, int]:
        """Return an upper bound of its input and output tokens; a hosted API bills a schema as part of the prompt."""
        stated = 0 if self.schema is None else len(json.dumps(object_schema(self.schema)))
        return super().token_bound()[0] + stated, self.max_tokens

    def unknown(self, text: str = "") -> Answer:
        """Return this text."""
        return Answer(text)

    def checked(self, response: Answer) -> Answer | None:
        """Return the answer, cut to what was asked for."""
        longest = max(MIN_ANSWER_CHARS, CHARS_PER_TOKEN * self.max_tokens)
        if not isinstance(response.text, str) or len(response.text) > longest:
            return None
        finish = response.finish if isinstance(response.finish, str) else "stop"
        mass = response.schema_mass
        return Answer(
            response.text,
            finish[:40],
            *self.possible_counts(response),
            choices=self._checked_choices(response),
            schema_mass=mass if self.schema is not None and mass is not None and 0 <= mass <= 1 else None,
        )

    def _checked_choices(self, response: Answer) -> tuple[TokenChoice, ...]:
        """Return the log-probabilities of the tokens; none where there are more tokens than were requested."""
        if not self.top_logprobs or len(response.choices) > self.max_tokens:
            return ()
        return tuple(
            TokenChoice(
                token, tuple(pair for pair in top[: self.top_logprobs] if not math.isnan(logprob_of(pair[1])))
            )
            for token, top in response.choices
        )


@dataclass(frozen=True)
class Score(PromptRequest[Scores]):
    """Log-probability of each candidate as the next token after the prompt (one token each)."""

    candidates: tuple[str, ...]
    repeat: int = 0
    tag: ClassVar[str] = "score"
    response = Scores
    unanswered = "gives no token scores; hf/, vllm/ and sglang/ give them"

    def token_bound(self) -> tuple[int, int]:
        """Return an upper bound of its input and output tokens."""
        return super().token_bound()[0], 1

    def unknown(self, text: str = "") -> Scores:
        """Return censored scores."""
        n = len(self.candidates)
        return Scores((0.0,) * n, (True,) * n)

    def checked(self, response: Scores) -> Scores | None:
        """Return the scores; a censored number is a bound, and nothing is above 0."""
        n = len(self.candidates)
        if len(response.logprobs) != n or len(response.censored) != n:
            return None
        values = [logprob_of(value) for value in response.logprobs]
        pairs = zip(values, response.censored, strict=True)
        return Scores(
            tuple(0.0 if math.isnan(value) else value for value in values),
            tuple(bool(hidden) or math.isnan(value) for value, hidden in pairs),
            *self.possible_counts(response),
        )


@dataclass(frozen=True)
class ScorePrefixes(TypedRequest[PrefixScores]):
    """Log-probability of each candidate after growing prefixes of one video, under one or more prompts.

    For every length k and prompt s the model reads prompt s with the first ``lengths[k]`` frames of ``video`` in
    the place of its :class:`VideoPrefix`; the candidates' log-probabilities as the next token are the response.

    Attributes:
        video: The frames, sampled once for the whole episode, so that prefixes share them.
        lengths: Number of frames in each prefix.
        prompts: One per instruction or question, alike up to the video.
        candidates: Words to score, one token each, the leading space included (``" True"``).
    """

    video: VideoFrames | DecodedMedia
    lengths: tuple[int, ...]
    prompts: tuple[Prompt, ...]
    candidates: tuple[str, ...]
    repeat: int = 0
    tag: ClassVar[str] = "score-prefixes"
    shown = ("video",)
    response = PrefixScores
    unanswered = Score.unanswered

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of prompts, prefixes and candidates."""
        return len(self.prompts), len(self.lengths), len(self.candidates)

    def words(self) -> list[str]:
        """Return the texts of all prompts."""
        return [text for prompt in self.prompts for text in prompt.texts()]

    def as_text(self) -> str:
        """Return the prompts, a turn a line."""
        prefixes = f"{label(self.video)}, prefixes of {list(self.lengths)} frames"
        return "\n".join(prompt.as_text(prefixes) for prompt in self.prompts)

    def token_bound(self) -> tuple[int, int]:
        """Return an upper bound of its input and output tokens."""
        text = sum(prompt.text_tokens() for prompt in self.prompts)
        frames = sum(self.lengths) * len(self.prompts)
        tokens_in = len(self.lengths) * text + frames * MAX_TOKENS_PER_IMAGE
        return tokens_in, len(self.lengths) * len(self.prompts)

    def token_estimate(self, image_tokens: int, frames_per_block: int) -> tuple[int, int]:
        """Return its input tokens, about, and no output tokens."""
        if frames_per_block > 1:
            frames = max(self.lengths)
            blocks = -(-frames // frames_per_block)
            image_tokens = image_tokens * blocks // frames + BLOCK_MARKUP * blocks
        return image_tokens + _bytes(self.words()) * len(self.lengths) // 4, 0

    def unknown(self, text: str = "") -> PrefixScores:
        """Return NaN for every prefix."""
        return PrefixScores(np.full(self.shape, np.nan))

    def checked(self, response: PrefixScores) -> PrefixScores | None:
        """Return the scores; one above 0 is unknown."""
        return _known_scores(self, response, self.shape)


def _known_scores(request: Request, response: PrefixScores, shape: tuple[int, ...]) -> PrefixScores | None:
    """Return scores with NaN in place of those above 0; ``None`` where they have another shape."""
    if response.logprobs.shape != shape or response.logprobs.dtype.kind != "f":
        return None
    values = np.asarray(response.logprobs, dtype=np.float64)
    known = np.where(values <= MAX_LOGPROB, np.minimum(values, 0.0), np.nan)
    return PrefixScores(known, *request.possible_counts(response), count_of(response.tokens_reused))


@dataclass(frozen=True, eq=False)
class ScoreStream(TypedRequest[PrefixScores]):
    """Append frames to a live video, then score each candidate as the next token after each prompt.

    The video is a stream of a model in process, so that the answer depends on what was appended before: it is
    recorded and counted, and never cached.

    Attributes:
        stream: From the model's ``open_stream``.
        video: The new frames.
        prompts: One per instruction or question, alike up to the video.
        candidates: Words to score, one token each.
    """

    stream: Stream
    video: DecodedMedia
    prompts: tuple[Prompt, ...]
    candidates: tuple[str, ...]
    tag: ClassVar[str] = "score-stream"
    shown = ("video",)
    response = PrefixScores
    unanswered = "scores no live video; embedded and Qwen3-VL under hf/ do"
    cached = False

    def plain_fields(self) -> dict[str, Any]:
        """Return its fields as JSON values, without the stream."""
        return {
            "video": plain(self.video),
            "prompts": plain(self.prompts),
            "candidates": plain(self.candidates),
        }

    def words(self) -> list[str]:
        """Return the texts of all prompts."""
        return [text for prompt in self.prompts for text in prompt.texts()]

    def as_text(self) -> str:
        """Return the prompts, a turn a line."""
        return "\n".join(prompt.as_text("live video") for prompt in self.prompts)

    def unknown(self, text: str = "") -> PrefixScores:
        """Return NaN for every candidate."""
        return PrefixScores(np.full((len(self.prompts), 1, len(self.candidates)), np.nan))

    def checked(self, response: PrefixScores) -> PrefixScores | None:
        """Return the scores; one above 0 is unknown."""
        return _known_scores(self, response, self.unknown().logprobs.shape)


@dataclass(frozen=True)
class PredictStages(TypedRequest[StagePredictions]):
    """Stage and progress at frames of a video, by a trained stage-aware reward model (``sarm/``).

    Attributes:
        videos: The same timestamps in each of the checkpoint's views, in its order.
        instruction: What the robot was asked to do.
        task: The trained task whose stages count.
        frames: Positions in the videos to score; ``None`` for all.
        decode: How stage probabilities become progress: ``"argmax"`` or ``"expected"``.
        state: The robot's state at each frame, where the checkpoint takes it.
    """

    videos: tuple[VideoFrames | DecodedMedia, ...]
    instruction: str
    task: str
    frames: tuple[int, ...] | None = None
    decode: str = "argmax"
    state: tuple[tuple[float, ...], ...] | None = None
    tag: ClassVar[str] = "predict-stages"
    shown = ("videos",)
    response = StagePredictions
    unanswered = "predicts no stages; a checkpoint under sarm/ does"

    def as_text(self) -> str:
        """Return the videos, the task and the instruction."""
        videos = "".join(f"[{label(video)}]" for video in self.videos)
        return f"{videos}task: {self.task}\ninstruction: {self.instruction}"

    def unknown(self, text: str = "") -> StagePredictions:
        """Return no stages."""
        return StagePredictions({})

    def checked(self, response: StagePredictions) -> StagePredictions | None:
        """Return the predictions, whose arrays belong together."""
        if not all(head.fits for head in response.heads.values()):
            return None
        return replace(response, tokens_in=count_of(response.tokens_in))


@dataclass(frozen=True)
class PredictProgress(PromptRequest[ProgressPredictions]):
    """Progress and success after each frame of a video, by the heads of a reward model (Robometer).

    Attributes:
        prompt: One user's turn: texts and one video. The model shows its frames as images and writes the special
            token at which its heads read each of them.
    """

    tag: ClassVar[str] = "predict-progress"
    response = ProgressPredictions
    unanswered = "has no reward heads; a Robometer checkpoint under hf/ has"

    def unknown(self, text: str = "") -> ProgressPredictions:
        """Return NaN for every frame."""
        unknown = np.full(self.video_frames, np.nan)
        return ProgressPredictions(unknown, unknown, unknown)

    def checked(self, response: ProgressPredictions) -> ProgressPredictions | None:
        """Return the predictions; one outside of 0..1 is unknown."""
        values = (response.progress, response.success, response.spread)
        arrays = [np.asarray(array, dtype=np.float64) for array in values]
        if any(array.shape != (self.video_frames,) for array in arrays):
            return None
        progress, success, spread = map(probabilities, arrays)
        return ProgressPredictions(progress, success, spread, count_of(response.tokens_in))


@dataclass(frozen=True)
class PreferVideo(PromptRequest[Preference]):
    """How likely the first of two videos shows more progress than the second, by a reward model's head (Robometer).

    Attributes:
        prompt: One user's turn: texts and two videos. The model writes the special tokens. Frames of another
            episode than the one that is judged are given decoded.
    """

    tag: ClassVar[str] = "prefer-video"
    response = Preference
    unanswered = PredictProgress.unanswered

    def unknown(self, text: str = "") -> Preference:
        """Return NaN."""
        return Preference(math.nan)

    def checked(self, response: Preference) -> Preference:
        """Return the probability; one outside of 0..1 is unknown."""
        return Preference(float(probabilities(np.float64(response.first))), count_of(response.tokens_in))


@dataclass(frozen=True)
class ScoreSimilarity(TypedRequest[Similarities]):
    """Cosine similarity of every frame of a video with some images and texts, by a model's encoders.

    Attributes:
        video: The frames; each is encoded once.
        images: Images to compare them with.
        texts: Texts to compare them with, where the model has a text encoder of the same space.
    """

    video: VideoFrames | DecodedMedia
    images: tuple[FrameRef | GoalImage | DecodedMedia, ...] = ()
    texts: tuple[str, ...] = ()
    tag: ClassVar[str] = "score-similarity"
    shown = ("video", "images")
    response = Similarities
    unanswered = "scores no similarity; embedded and encoders under hf/ do"

    @property
    def shape(self) -> tuple[int, int]:
        """The number of frames, and of references: images, then texts."""
        return self.video.images, len(self.images) + len(self.texts)

    def words(self) -> list[str]:
        """Return the texts."""
        return list(self.texts)

    def as_text(self) -> str:
        """Return the video, the images and the texts."""
        images = "".join(f"[{label(image)}]" for image in self.images)
        return "\n".join([f"[{label(self.video)}] similar to {images}", *self.texts])

    def unknown(self, text: str = "") -> Similarities:
        """Return NaN for every frame."""
        n, r = self.shape
        return Similarities(np.full((n, r), np.nan), np.full((r, r), np.nan))

    def checked(self, response: Similarities) -> Similarities | None:
        """Return the similarities; one outside of -1..1 is unknown."""
        n, r = self.shape
        frames, references = (np.asarray(a, dtype=np.float64) for a in (response.frames, response.references))
        if frames.shape != (n, r) or references.shape != (r, r):
            return None
        return Similarities(cosines(frames), cosines(references), count_of(response.tokens_in))

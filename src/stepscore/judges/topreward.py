"""TOPReward: how probable is the word True after "this video shows the robot completing the task"?

Chen et al. 2026, arXiv 2602.19313. Growing prefixes of the video are shown with one sentence, and nothing is
generated: the log-probabilities of two words as the next token are the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from stepscore.episodes import Clip, Episode, sample_frames
from stepscore.errors import EpisodeError, OptionError
from stepscore.judges.base import Ask, SingleModelJudge
from stepscore.judges.common.ask_model import require
from stepscore.judges.common.calibration import CalibratedJudge, FittedMap
from stepscore.judges.common.option_checks import check_options, frame_rate, image_size, one_of, text, whole
from stepscore.judges.common.prefixes import causal_prefixes, spread_prefixes
from stepscore.judges.common.prompts import PromptTemplate, load_prompt, video_prompt
from stepscore.judges.topreward_session import OddFrames, TopRewardSession
from stepscore.metrics import minmax, trailing_mean
from stepscore.models import DecodedMedia, Model, Prompt, ScorePrefixes, Template, VideoFrames
from stepscore.models.calls import Call
from stepscore.registry import names
from stepscore.types import Curve, FloatArray, Judgement

StatementForm = Literal["upstream", "paper", "chat"]
Variant = Literal["token", "instruction"]
Sampling = Literal["spread", "causal"]
MARKUP: Mapping[StatementForm, Template] = {"upstream": "open", "paper": "none", "chat": "chat"}
"""How each form is rendered; see :class:`stepscore.models.Prompt`."""


@runtime_checkable
class TokenizingModel(Protocol):
    """A model that returns how its tokenizer splits a text."""

    def token_texts(self, text: str) -> Sequence[str]:
        """Return the text of each token; joined, they give ``text``."""


@runtime_checkable
class WarmingModel(Protocol):
    """A model in process that can compute once before it is needed."""

    def warm_up(self, prompt: Prompt, candidates: Sequence[str]) -> None:
        """Load the weights and compute once."""


@dataclass(frozen=True)
class TopReward(CalibratedJudge, SingleModelJudge):
    """Progress = sigmoid(log P(True) - log P(False)) after each prefix of the video: absolute, uncalibrated.

    Channels: ``logp_true`` and ``logp_false``, the two words' log-probabilities; ``margin``, their
    difference; ``minmax``, the paper's scaling of log P(True) by the episode's own minimum and maximum (every
    episode runs from 0 to 1 under it); ``success``, the mean of the sigmoid over the last three prefixes so
    far, whose end is the success score. The paper averages log P(True) there, which does not lie in 0..1: it
    is the fact ``logp_success``. A word whose log-probability the server did not return makes its prefix unknown.
    With a success map, ``success_probability`` is the calibrated probability after each prefix.

    Several views are scored one by one on frames of the same timestamps, and their log-odds averaged; each
    view's log-probabilities are in ``logp_true:VIEW`` and ``logp_false:VIEW``.

    Attributes:
        model: Any model that returns token log-probabilities.
        prefixes: Points on the curve; fewer where the episode has too few frames.
        sampling: ``spread``, frames evenly over the whole episode, more a second in a short one, to fill the
            prefixes; ``causal``, at a fixed rate from the first frame on, so that nothing depends on how long the
            video is. See ``common/prefixes.py``.
        fps: Frames shown per second; prefixes share them.
        min_first: Frames in the first prefix. The score rises over the first eight or so images whatever they
            show, so a curve that starts with fewer begins with a rise that means nothing.
        max_frames: Most frames shown, whatever the episode's length.
        size: Longer side of a frame in pixels; ``None`` for the recorded size.
        form: ``upstream``, the text of the published code: a user's turn that is never closed; ``paper``, the
            only the text of the paper, without markup; ``chat``, a whole chat turn, whose answer is scored
            (with it, the paper reports a VOC of 0.500 instead of 0.945 for Qwen3-VL-8B).
        variant: ``token``, as above; ``instruction``, the mean log-likelihood of the instruction's own tokens
            after "... completes the following task:". It is not a probability of success: it is the channel
            ``raw``, and progress is unknown unless a calibration map is given.
        target: The word for a completed task, without its leading space.
        other: The word for one that is not completed.
        calibration: A map from ``stepscore calibrate``, fitted with the same options and model.
    """

    model: Model = field(metadata=names("model"))
    prefixes: int = 16
    sampling: Sampling = "spread"
    fps: float = 2.0
    min_first: int = 8
    max_frames: int = 128
    size: int | None = 224
    form: StatementForm = "upstream"
    variant: Variant = "token"
    target: str = field(default="True", metadata=names("text"))
    other: str = field(default="False", metadata=names("text"))
    calibration: str | Path | None = field(default=None, metadata=names("path"))
    fitted: FittedMap | None = field(init=False, repr=False, default=None)
    name = "topreward"
    version = 1
    causal = True

    def __post_init__(self) -> None:
        check_options(self, prefixes=whole(1), min_first=whole(1), max_frames=whole(2), fps=frame_rate())
        check_options(self, size=image_size(), form=one_of(StatementForm), variant=one_of(Variant))
        check_options(self, sampling=one_of(Sampling))
        check_options(self, target=text(), other=text())
        if self.variant == "instruction" and self.form == "chat":
            raise OptionError("variant=instruction scores the user's own words: use form=paper or upstream.")
        if not self.target or not self.other or self.target == self.other:
            raise OptionError(f"target and other are {self.target!r} and {self.other!r}; give two words.")
        self.read_map()

    def options(self) -> Mapping[str, object]:
        """Return everything that can change a number, the whole prompt included."""
        names = ("prefixes", "min_first", "max_frames", "size", "form", "variant", "target", "other")
        return {
            **{name: getattr(self, name) for name in names},
            # Named where it changes an answer: maps that were fitted before it existed hold on.
            **({} if self.sampling == "spread" else {"sampling": self.sampling}),
            "fps": float(self.fps),
            "prompt": "{video}" + self._template().text,
            "views": "each scored alone, log-odds averaged",
            "calibration": self.map_content(),
        }

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return the curve over prefixes, and the mean of the last three as success score."""
        require(self.model, self.name, scores=True)
        if not episode.views:
            raise EpisodeError(f"Episode {episode.id} has no video; topreward needs one.")
        main = episode.views[episode.main_view].timestamps()
        if not len(main):
            raise EpisodeError(f"Episode {episode.id} has no frames.")
        choose = causal_prefixes if self.sampling == "causal" else spread_prefixes
        frames, lengths = choose(
            main, prefixes=self.prefixes, fps=self.fps, min_first=self.min_first, max_frames=self.max_frames
        )
        sampled = sample_frames(episode, indices=frames.tolist())
        times = sampled.times[np.array(lengths) - 1]
        scored = {}
        for view, indices in sampled.indices.items():
            video = VideoFrames(view, tuple(indices.tolist()), self.size)
            scored[view] = await self._score(video, lengths, episode.instruction, ask)
        return self.judgement(times, scored, episode)

    def judgement(self, times: FloatArray, scored: Mapping[str, FloatArray], episode: Episode) -> Judgement:
        """Return the judgement of log-probabilities by view, calibrated where there is a map.

        Args:
            times: Seconds of the points.
            scored: Log-probabilities of each view, (K, words); NaN or infinite where unknown.
            episode: What they are of.
        """
        scored = {view: np.where(np.isfinite(each), each, np.nan) for view, each in scored.items()}
        curve = (_token_curve if self.variant == "token" else _instruction_curve)(times, scored)
        likelihood = curve.channels["logp_true" if self.variant == "token" else "raw"]
        judgement = Judgement(
            curve,
            success_score=float(curve.channels["success"][-1]) if self.variant == "token" else np.nan,
            facts={"logp_success": float(trailing_mean(likelihood)[-1])},
        )
        return self.calibrated(judgement, episode)

    def open(
        self,
        instruction: str,
        views: Sequence[str] = ("main",),
        task: str | None = None,
        *,
        odd: OddFrames = "wait",
        ask: Ask | None = None,
        calls: list[Call] | None = None,
    ) -> TopRewardSession:
        """Open a session on a video that is still being recorded; its points are those of :meth:`judge`.

        Args:
            instruction: The text the robot was given.
            views: The cameras that will be shown.
            task: The task's name, where the calibration has a term for it.
            odd: ``"wait"``: a point with every pair of frames. ``"repeat"``: with every frame.
            ask: Sends the requests; by default a call chain of the session's own.
            calls: Gets the record of each call, where ``ask`` is given.
        """
        require(self.model, self.name, scores=True)
        if self.sampling != "causal":
            raise OptionError(
                "A session samples causally, and this judge has sampling='spread', which needs the length of the "
                "video. Make it with sampling='causal' (-J sampling=causal)."
            )
        if self.variant != "token":
            raise OptionError("A session scores variant=token; variant=instruction is for recorded episodes.")
        if not views:
            raise OptionError("Name at least one view.")
        return TopRewardSession(self, instruction, views, task=task, odd=odd, ask=ask, calls=calls)

    def warm_up(self, instruction: str = "") -> None:
        """Load the weights and compute once, before the first frame of a live video comes."""
        if isinstance(self.model, WarmingModel):
            self.model.warm_up(self.live_prompt(instruction), self.words())

    async def score_clips(
        self, clips: Mapping[str, Clip], instruction: str, ask: Ask, task: str | None = None
    ) -> Judgement:
        """Return the judgement of a video that is given decoded: a point for every frame, in one pass a view.

        Every frame is shown; a prefix of an odd number of frames ends with its last frame twice.
        """
        require(self.model, self.name, scores=True)
        times = next(iter(clips.values())).timestamps
        lengths = tuple(range(1, len(times) + 1))
        scored = {
            view: await self._score(DecodedMedia(clip, video=True), lengths, instruction, ask)
            for view, clip in clips.items()
        }
        return self.judgement(times, scored, Episode("clip", instruction, task=task))

    def live_prompt(self, instruction: str) -> Prompt:
        """Return the statement that a session scores."""
        return self._prompt(instruction)

    def words(self) -> tuple[str, str]:
        """Return the two words whose log-probabilities are read, as the form needs them."""
        space = "" if self.form == "chat" else " "
        return f"{space}{self.target}", f"{space}{self.other}"

    async def _score(
        self, video: VideoFrames | DecodedMedia, lengths: tuple[int, ...], instruction: str, ask: Ask
    ) -> FloatArray:
        """Score one view: log-probabilities (K, 2); (K, tokens) for the instruction's own."""
        if self.variant == "token":
            request = ScorePrefixes(video, lengths, (self._prompt(instruction),), self.words())
            both: FloatArray = (await _scores(request, ask))[0]
            return both
        before, tokens = self._instruction_tokens(instruction)
        texts = [before + "".join(tokens[:number]) for number in range(len(tokens))]
        scored = np.full((len(lengths), len(tokens)), np.nan)
        for group in self._request_groups(texts, tokens):
            words = tuple(dict.fromkeys(tokens[number] for number in group))
            prompts = tuple(video_prompt(texts[number], template=self._markup()) for number in group)
            scores = await _scores(ScorePrefixes(video, lengths, prompts, words), ask)
            for row, number in enumerate(group):
                scored[:, number] = scores[row, :, words.index(tokens[number])]
        return scored

    def _prompt(self, instruction: str) -> Prompt:
        """Return the statement about the video; its last sentence is what True or False continues."""
        # The paper's sentence ends the instruction with a period of its own.
        text = instruction.strip().rstrip(". ") if self.form == "paper" else instruction.strip()
        template = self._template()
        if self.form == "chat":
            return video_prompt(template.fill(instruction=text))
        body, cue = template.split_last_sentence()
        return video_prompt(body.fill(instruction=text), prefill=cue, template=self._markup())

    def _template(self) -> PromptTemplate:
        return load_prompt("statement_paper" if self.form == "paper" else "statement")

    def _markup(self) -> Template:
        return MARKUP[self.form]

    def _instruction_tokens(self, instruction: str) -> tuple[str, Sequence[str]]:
        """Return the text before the instruction, and the instruction token by token.

        A model that does not return its tokens is asked word by word; it refuses a word that is several tokens.
        """
        before = self._template().text.partition("{instruction}")[0].rstrip()
        words = instruction.strip().rstrip(". ").split()
        if not words:
            raise EpisodeError("variant=instruction needs an instruction, and this episode's is empty.")
        if isinstance(self.model, TokenizingModel):
            return before, self.model.token_texts(" " + " ".join(words))
        return before, [f" {word}" for word in words]

    def _request_groups(self, texts: Sequence[str], tokens: Sequence[str]) -> list[list[int]]:
        """Return which tokens of the instruction one request can score; each token is in one group.

        A request scores all its words after all its texts. The first token of a word is one token after any of
        them; the second need not be, and has a request of its own. So has every token of a model that does not
        return its tokens.
        """
        if not isinstance(self.model, TokenizingModel):
            return [[number] for number in range(len(tokens))]
        split = self.model.token_texts
        before = {text: list(split(text)) for text in texts}
        is_one_token = [
            all(list(split(text + token)) == [*before[text], token] for text in texts) for token in tokens
        ]
        together = [number for number, fits in enumerate(is_one_token) if fits]
        alone = [[number] for number, fits in enumerate(is_one_token) if not fits]
        return [together, *alone] if together else alone


async def _scores(request: ScorePrefixes, ask: Ask) -> FloatArray:
    """Return log-probabilities by text, prefix and word."""
    response = await ask(request)
    return np.asarray(response.logprobs, dtype=np.float64)


def _token_curve(times: FloatArray, scored: Mapping[str, FloatArray]) -> Curve:
    """Return the curve of the two words' log-probabilities, averaged over views."""
    yes, no = np.mean(list(scored.values()), axis=0).T
    margin = yes - no
    sigmoid = 0.5 * (1.0 + np.tanh(margin / 2))
    channels = {
        "logp_true": yes,
        "logp_false": no,
        "margin": margin,
        "minmax": minmax(yes),
        "success": trailing_mean(sigmoid),
    }
    if len(scored) > 1:
        for view, (view_yes, view_no) in ((view, both.T) for view, both in scored.items()):
            channels |= {f"logp_true:{view}": view_yes, f"logp_false:{view}": view_no}
    return Curve(times, sigmoid, channels)


def _instruction_curve(times: FloatArray, scored: Mapping[str, FloatArray]) -> Curve:
    """Return the curve of the mean log-likelihood per token of the instruction, averaged over views."""
    means = {view: logprobs.mean(axis=1) for view, logprobs in scored.items()}
    raw = np.mean(list(means.values()), axis=0)
    channels = {"raw": raw, "minmax": minmax(raw)}
    if len(means) > 1:
        channels |= {f"raw:{view}": mean for view, mean in means.items()}
    return Curve(times, np.full(len(times), np.nan), channels)

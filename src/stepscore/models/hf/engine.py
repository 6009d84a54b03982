"""The engine of an ``hf/`` model: it finds the files, loads the weights once, and computes on one thread."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from stepscore._untrusted import shown
from stepscore._untrusted.checkpoint_folder import brief, named_folder
from stepscore.episodes import Clip
from stepscore.errors import CapabilityError, MissingExtraError, ModelError, StepScoreError
from stepscore.models.base import Handlers, handler_of
from stepscore.models.blocking import WorkerThread
from stepscore.models.chatml import render_prefixes, split_at_video, tails_after
from stepscore.models.hf.files import (
    checkpoint_folder,
    config_digest,
    first_line,
    has_tokenizer,
    load_tokenizer,
    read_json,
    tokenizer_folder,
    weight_headers,
    weights_digest,
)
from stepscore.models.hf.options import NAMED_ENCODERS, PREFIX_SHARING_FAMILIES, HfOptions
from stepscore.models.prompts import Prompt
from stepscore.models.requests import (
    Generate,
    PredictProgress,
    PreferVideo,
    Request,
    Score,
    ScorePrefixes,
    ScoreSimilarity,
)
from stepscore.models.responses import Answer, PrefixScores, Response, Scores
from stepscore.models.robometer.config import RobometerConfig, read_config
from stepscore.models.vision_encoder import VisionEncoder, score_similarity
from stepscore.types import FloatArray

if TYPE_CHECKING:
    from stepscore.models.hf.loading import Loaded
    from stepscore.models.qwen3vl.prefix_stream import PrefixStream
    from stepscore.models.robometer.engine import RobometerEngine

MAX_FAMILY_CHARS = 100

BATCHED, HEADS = (ScorePrefixes,), (PredictProgress, PreferVideo)
"""Requests that are answered several in one pass: by a model that scores prefixes, and by a Robometer checkpoint."""


class HfEngine:
    """Loads a model on first use and answers its requests; all that touches the weights runs on ``thread``."""

    def __init__(self, options: HfOptions) -> None:
        self.options = options
        self._loaded: Loaded | RobometerEngine | StepScoreError | None = None
        self.thread: WorkerThread[Request, Response] = WorkerThread(self._answer_all)

    @cached_property
    def folder(self) -> Path:
        """The checkpoint's folder."""
        named = self.options.checkpoint
        if named in NAMED_ENCODERS and not named_folder(named).is_dir():
            named = NAMED_ENCODERS[named]
        return checkpoint_folder(named, remote_code=self.options.trust_remote_code)

    @cached_property
    def robometer(self) -> RobometerConfig | None:
        """The config of a Robometer checkpoint, which has heads; ``None`` for any other."""
        return read_config(self.folder, weight_headers(self.folder))

    @cached_property
    def family(self) -> str:
        """The ``model_type`` of its configuration; of a Robometer checkpoint, that of its backbone."""
        if self.robometer is not None:
            return self.robometer.family
        family = read_json(self.folder / "config.json").get("model_type")
        if not isinstance(family, str) or not family.isprintable() or len(family) > MAX_FAMILY_CHARS:
            raise ModelError(
                f"{shown(self.folder / 'config.json')}: model_type must be the name of a family, got {brief(family)}."
            )
        return family

    @cached_property
    def digests(self) -> dict[str, str]:
        """Digests that identify the checkpoint."""
        remote_code = self.options.trust_remote_code
        digests = {
            "weights": weights_digest(self.folder),
            "config": config_digest(self.folder, remote_code=remote_code),
        }
        if self.tokenizer_folder != self.folder:
            digests["tokenizer"] = config_digest(self.tokenizer_folder, remote_code=remote_code)
        return digests

    @cached_property
    def tokenizer_folder(self) -> Path:
        """The folder with the tokenizer's files."""
        if self.options.tokenizer is not None:
            return tokenizer_folder(self.options.tokenizer)
        if self.robometer is None or has_tokenizer(self.folder):
            return self.folder
        if not self.robometer.base_model:
            raise ModelError(
                f"{self.options.name} has no tokenizer and names no base model. Give the tokenizer of the model that "
                "it was trained from: -M tokenizer=FOLDER-OR-ID"
            )
        return tokenizer_folder(self.robometer.base_model)

    def token_texts(self, text: str) -> tuple[str, ...]:
        """Return the text of each token of a text; ModelError if a character is several tokens."""
        try:
            found = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            cut = tuple(text[start:stop] for start, stop in found["offset_mapping"])
        except StepScoreError:
            raise
        except Exception as error:  # a tokenizer of any configuration raises anything
            raise ModelError(f"{self.options.name}: the tokenizer failed ({first_line(error)}).") from error
        if "".join(cut) != text:
            raise ModelError(
                f"{self.options.name}: {text!r} has a character that is several tokens; no token of it has a text."
            )
        return cut

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            return load_tokenizer(self.tokenizer_folder, remote_code=self.options.trust_remote_code)
        except ImportError as error:
            raise MissingExtraError(f"The model {self.options.name}", "local") from error

    @property
    def loaded(self) -> Loaded:
        """The model in memory, where it is one that chats and scores tokens."""
        if self.robometer is not None:
            raise CapabilityError(
                f"{self.options.name} is a Robometer checkpoint, not usable part by part. Use --judge robometer"
            )
        return cast("Loaded", self._in_memory())

    def _in_memory(self) -> Loaded | RobometerEngine:
        """Return the model in memory. One that failed to load fails again without a second try."""
        if self._loaded is None:
            try:
                self._loaded = self._load()
            except StepScoreError as error:
                self._loaded = error
        if isinstance(self._loaded, StepScoreError):
            raise self._loaded
        return self._loaded

    def _load(self) -> Loaded | RobometerEngine:
        """Load the model, and check that sharing work is exact for it."""
        options = self.options
        try:
            from stepscore.models.hf.loading import Loader
            from stepscore.models.hf.network_loading import library_errors
            from stepscore.models.qwen3vl.prefix_scoring import check_sharing
        except ImportError as error:
            raise MissingExtraError(f"The model {options.name}", "local") from error
        loader = Loader(options, self.folder)
        if self.robometer is not None:
            return loader.load_robometer(self.robometer, self._tokenizer)
        found = loader.load(self._tokenizer)
        if found.network is not None and options.scoring != "naive" and options.self_check:
            with library_errors(f"{options.name}: the network cannot compute"):
                check_sharing(found.network, found.prefix_inputs, options.name, options.scoring)
        return found

    @property
    def limit(self) -> int:
        """Bytes for the temporary values of one pass."""
        return self.options.memory_limit_mb << 20

    def is_batchable(self, request: Request) -> bool:
        """Return whether a request may be answered in one pass with others; all of a batch are of one kind."""
        with suppress(StepScoreError):  # it is raised again where the request is answered
            return type(request) in (BATCHED if self.robometer is None else HEADS)
        return False

    def _similarities(self, request: ScoreSimilarity) -> Response | Exception:
        """Return similarities by only the vision encoder; turn a library's exception into a ModelError."""
        try:
            from stepscore.models.hf.network_loading import library_errors
        except ImportError:
            return MissingExtraError(f"The model {self.options.name}", "local")
        from stepscore.models.qwen3vl.vision_features import image_features

        try:
            with library_errors(f"{self.options.name}: the encoder failed"):
                if self.family not in PREFIX_SHARING_FAMILIES:
                    return self._encoder.similarities(request)
                network = self.loaded.network
                assert network is not None
                return score_similarity(
                    request, lambda images: image_features(network, images), self.options.name
                )
        except StepScoreError as error:
            return error

    @cached_property
    def _encoder(self) -> VisionEncoder:
        return VisionEncoder(self.options.name, str(self.folder), self.options.device)

    def _answer_all(self, requests: Sequence[Request]) -> Sequence[Response | Exception]:
        """Answer requests in passes of ``batch``, cut in their order; an error of a pass is that of all in it."""
        answers: list[Response | Exception] = []
        for batch in self._passes(requests):
            try:
                answers += self._answer_batch(batch)
            except StepScoreError as error:
                answers += [error] * len(batch)
        return answers

    def _passes(self, requests: Sequence[Request]) -> list[list[Request]]:
        passes: list[list[Request]] = []
        room = 0
        for request in requests:
            batchable = self.is_batchable(request)
            if not batchable or not room:
                passes.append([])
                room = self.options.batch if batchable else 1
            passes[-1].append(request)
            room = room - 1 if batchable else 0
        return passes

    def _answer_batch(self, requests: Sequence[Request]) -> Sequence[Response | Exception]:
        if (
            answer := self._without_network.get(type(requests[0]))
        ) is not None:  # never with others in a batch
            return [answer(requests[0])]
        in_memory = self._in_memory()
        from stepscore.models.hf.network_loading import is_out_of_memory

        try:
            if self.robometer is not None:
                return cast("RobometerEngine", in_memory).answer(requests)
            loaded = cast("Loaded", in_memory)
            if len(requests) > 1 and loaded.network is not None and self.options.scoring == "shared":
                return self._shared(loaded, cast("Sequence[ScorePrefixes]", requests))
            return [self._answer(loaded, request) for request in requests]
        except StepScoreError:
            raise
        except Exception as error:  # a network of any configuration raises anything
            if is_out_of_memory(error):
                raise ModelError(
                    f"{self.options.name}: out of memory. Lower memory_limit_mb (now {self.options.memory_limit_mb}) "
                    f"or batch (now {self.options.batch}), or show fewer or smaller frames."
                ) from error
            raise ModelError(f"{self.options.name}: the network failed ({first_line(error)}).") from error

    @cached_property
    def _without_network(self) -> Handlers:
        return {ScoreSimilarity: self._similarities}

    @cached_property
    def _handlers(self) -> Handlers:
        return {ScorePrefixes: self._score_prefixes, Generate: self._generate, Score: self._score}

    def _answer(self, loaded: Loaded, request: Request) -> Response | Exception:
        try:
            response: Response = handler_of(self._handlers, request, self.options.name)(loaded, request)
            return response
        except StepScoreError as error:
            return error

    def _generate(self, loaded: Loaded, request: Generate) -> Answer:
        from stepscore.models.hf import chat

        return chat.generate(loaded.model, loaded.tokenizer, _chat_of(loaded), request)

    def _score(self, loaded: Loaded, request: Score) -> Scores:
        from stepscore.models.hf import chat

        return chat.score(loaded.model, loaded.encode, _chat_of(loaded), request)

    def _score_prefixes(self, loaded: Loaded, request: ScorePrefixes) -> Response | Exception:
        from stepscore.models.qwen3vl import full_forward, prefix_scoring

        if loaded.network is None or self.options.scoring == "naive":
            rendered = render_prefixes(request)
            return PrefixScores(*full_forward.score_naive(loaded.model, loaded.prefix_inputs, rendered))
        if self.options.scoring == "shared":
            return self._shared(loaded, [request])[0]
        video = prefix_scoring.prepare_video(loaded.network, render_prefixes(request))
        values = prefix_scoring.score_incremental(loaded.network, video, self.limit)
        return PrefixScores(values, video.plan.tokens)

    def _shared(self, loaded: Loaded, requests: Sequence[ScorePrefixes]) -> list[Response | Exception]:
        """Score videos side by side; one that cannot be prepared does not stop the others."""
        from stepscore.models.qwen3vl.prefix_scoring import PreparedVideo, prepare_video, score_shared

        assert loaded.network is not None
        prepared: list[PreparedVideo | StepScoreError] = []
        for request in requests:
            try:
                prepared.append(prepare_video(loaded.network, render_prefixes(request)))
            except StepScoreError as error:
                prepared.append(error)
        ready = [video for video in prepared if isinstance(video, PreparedVideo)]
        scored = iter(score_shared(loaded.network, ready, self.limit) if ready else [])
        return [
            PrefixScores(next(scored), video.plan.tokens) if isinstance(video, PreparedVideo) else video
            for video in prepared
        ]


def _chat_of(loaded: Loaded) -> Any:
    """Return what writes chats; raise the error where the model has none."""
    if isinstance(loaded.chat, ModelError):
        raise loaded.chat
    return loaded.chat


class HfStream:
    """A growing video, computed on the model's thread: append frames, score, append."""

    def __init__(self, engine: HfEngine, prompt: Prompt) -> None:
        self._engine = engine
        self._head = split_at_video(prompt)[0]
        self._stream = engine.thread.run(self._open)

    def _open(self) -> PrefixStream:
        options, network = self._engine.options, self._engine.loaded.network
        if network is None or options.scoring != "shared":
            raise CapabilityError(
                f"{options.name}: a growing video needs a model whose prefixes share work exactly (Qwen3-VL) and "
                f"scoring=shared; this is {self._engine.family} with scoring={options.scoring}."
            )
        from stepscore.models.qwen3vl.prefix_stream import PrefixStream

        return PrefixStream(network, self._head, self._engine.limit)

    def __len__(self) -> int:
        """Frames appended so far."""
        return len(self._stream)

    def append(self, clip: Clip) -> None:
        """Append frames."""
        self._engine.thread.run(lambda: self._stream.append(clip))

    def score(self, prompts: Sequence[Prompt], candidates: Sequence[str]) -> FloatArray:
        """Return log-probabilities (S, C) for the video so far; OptionError if a prompt differs before the video."""
        tails = tails_after(self._head, prompts)
        return self._engine.thread.run(lambda: self._stream.score(tails, candidates))

"""The engine of ``embedded``: loads the checkpoint once, and computes in NumPy on its own thread.

BLAS is limited to one thread while it computes: its matrices are small, and threads that wait for each other on a
busy machine cost more than they bring (3.8 s instead of 0.14 s for a rollout, with two threads on two busy cores).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from stepscore.episodes import Clip
from stepscore.errors import ModelError, StepScoreError
from stepscore.models.base import Handler, Handlers, handler_of
from stepscore.models.blocking import WorkerThread
from stepscore.models.chatml import render_prefixes, split_at_video, tails_after
from stepscore.models.embedded.runtime import chat, prefix_scoring
from stepscore.models.embedded.runtime.layers import Array
from stepscore.models.embedded.runtime.network import NumpyNetwork, load_network
from stepscore.models.hf.files import config_digest, weights_digest
from stepscore.models.prompts import Prompt
from stepscore.models.requests import Generate, Request, Score, ScorePrefixes, ScoreSimilarity
from stepscore.models.responses import Response
from stepscore.models.vision_encoder import score_similarity
from stepscore.types import FloatArray, Frames

T = TypeVar("T")


class EmbeddedEngine:
    """Loads a checkpoint on first use and answers requests one after another."""

    def __init__(self, folder: Path, name: str, max_pixels: int) -> None:
        self.folder, self._name, self._max_pixels = folder, name, max_pixels
        self._loaded: NumpyNetwork | StepScoreError | None = None
        self._thread: WorkerThread[Request, Response] = WorkerThread(self._answer_all)

    @cached_property
    def digests(self) -> dict[str, str]:
        """Digests that identify the checkpoint."""
        return {
            "weights": weights_digest(self.folder),
            "config": config_digest(self.folder, remote_code=False),
        }

    @property
    def is_loaded(self) -> bool:
        """Whether the weights are in memory."""
        return isinstance(self._loaded, NumpyNetwork)

    @property
    def network(self) -> NumpyNetwork:
        """The network in memory. One that failed to load fails again without a second try."""
        if self._loaded is None:
            try:
                self._loaded = load_network(self.folder, self._name, self._max_pixels)
            except StepScoreError as error:
                self._loaded = error
        if isinstance(self._loaded, StepScoreError):
            raise self._loaded
        return self._loaded

    @cached_property
    def _prefixes(self) -> prefix_scoring.PrefixScorer:
        """Used only on the engine's thread."""
        return prefix_scoring.PrefixScorer(self.network)

    @cached_property
    def _handlers(self) -> Handlers:
        return {
            ScorePrefixes: lambda request: self._prefixes.score(render_prefixes(request)),
            Generate: lambda request: chat.generate(self.network, request),
            Score: lambda request: chat.score(self.network, request),
            ScoreSimilarity: lambda request: score_similarity(
                request, self.network.image_features, self._name
            ),
        }

    def handler(self, request: Request) -> Handler:
        """Return what answers a request on the engine's thread; a CapabilityError where nothing does."""
        return handler_of(self._handlers, request, self._name)

    async def answer(self, request: Request) -> Response:
        """Return the response, computed on the engine's thread."""
        return await asyncio.wrap_future(self._thread.submit(request))

    def run(self, work: Callable[[NumpyNetwork], T]) -> T:
        """Return the result of other work with the network, on the engine's thread."""

        def limited() -> T:
            with one_blas_thread():
                return work(self.network)

        return self._thread.run(limited)

    def image_features(self, images: Sequence[Frames]) -> Array:
        """Return the vision encoder's features of single images, (n, features)."""
        return self.run(lambda network: network.image_features(images))

    def token_texts(self, text: str) -> tuple[str, ...]:
        """Return the text of each token of a text; ModelError if a character is several tokens."""
        found = self.network.tokenizer.encode(text, add_special_tokens=False)
        cut = tuple(text[start:stop] for start, stop in found.offsets)
        if "".join(cut) != text:
            raise ModelError(
                f"{self._name}: {text!r} has a character that is several tokens; no token of it has a text."
            )
        return cut

    def _answer_all(self, requests: Sequence[Request]) -> list[Response | Exception]:
        with one_blas_thread():
            return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Response | Exception:
        try:
            response: Response = self.handler(request)(request)
            return response
        except StepScoreError as error:
            return error
        except MemoryError:
            return ModelError(f"{self._name}: out of memory. Show fewer or smaller frames.")


class EmbeddedStream:
    """A growing video, computed on the engine's thread: append frames, score, append."""

    def __init__(self, engine: EmbeddedEngine, prompt: Prompt) -> None:
        self._engine = engine
        self._head = split_at_video(prompt)[0]
        self._stream = engine.run(lambda network: prefix_scoring.NumpyPrefixStream(network, self._head))

    def __len__(self) -> int:
        """Frames appended so far."""
        return len(self._stream)

    def append(self, clip: Clip) -> None:
        """Append frames."""
        self._engine.run(lambda _: self._stream.append(clip))

    def score(self, prompts: Sequence[Prompt], candidates: Sequence[str]) -> FloatArray:
        """Return log-probabilities (S, C) for the video so far; OptionError if a prompt differs before the video."""
        tails = tails_after(self._head, prompts)
        return self._engine.run(lambda _: self._stream.score(tails, candidates))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within it, NumPy's matrix products use one thread; what was set before holds again afterwards."""
    with _blas_controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas_controller() -> Any:
    """Return the controller of the BLAS libraries of this process; finding them takes milliseconds, so once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

"""A loaded Robometer: it answers requests for progress, success and preferences, several in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stepscore.errors import ModelError, StepScoreError
from stepscore.models.base import Handlers, handler_of
from stepscore.models.requests import PredictProgress, PreferVideo, Request
from stepscore.models.responses import Preference, ProgressPredictions, Response
from stepscore.models.robometer.inputs import ReadRequest, RobometerInputs, batched
from stepscore.types import FloatArray

ANSWERS = (
    "is a Robometer checkpoint: it predicts progress, success and preferences, and answers no other question. "
    "Choose its judge: --judge robometer"
)


@dataclass(frozen=True, eq=False)
class RobometerEngine:
    """A network with its inputs."""

    network: RobometerNetwork
    inputs: RobometerInputs
    name: str

    def answer(self, requests: Sequence[Request]) -> list[Response | Exception]:
        """Return the response, or the error, of each request; all that can be read are computed in one pass."""
        read = [self._read(request) for request in requests]
        ready = [one for one in read if isinstance(one, ReadRequest)]
        states = iter(self._states(ready) if ready else ())
        return [
            self._response(request, one, next(states)) if isinstance(one, ReadRequest) else one
            for request, one in zip(requests, read, strict=True)
        ]

    def _read(self, request: Request) -> ReadRequest | StepScoreError:
        try:
            prompt, preference, _ = handler_of(self._heads, request, self.name, ANSWERS)(request)
            return self.inputs.read(prompt, preference=preference)
        except StepScoreError as error:
            return error

    @property
    def _heads(self) -> Handlers:
        """The prompt of a request, whether it compares two videos, and what reads its answer off the states."""
        return {
            PredictProgress: lambda request: (request.prompt, False, self._progress),
            PreferVideo: lambda request: (request.prompt, True, self._preference),
        }

    @torch.inference_mode()
    def _states(self, requests: Sequence[ReadRequest]) -> list[Tensor]:
        """Return the last hidden states at the positions of each request, (n, hidden)."""
        backbone = self.network.model
        moved = {name: value.to(backbone.device) for name, value in batched(requests).items()}
        hidden = backbone(**moved, use_cache=False).last_hidden_state
        return [hidden[row, list(request.positions)] for row, request in enumerate(requests)]

    @torch.inference_mode()
    def _response(self, request: Request, read: ReadRequest, states: Tensor) -> Response | Exception:
        try:
            response: Response = self._heads[type(request)](request)[-1](states, read.tokens)
            return response
        except StepScoreError as error:
            return error

    def _preference(self, states: Tensor, tokens: int) -> Preference:
        return Preference(float(self._known(self.network.preference(states))[0]), tokens)

    def _progress(self, states: Tensor, tokens: int) -> ProgressPredictions:
        progress, spread = self.network.progress(states)
        success = self.network.success(states)
        return ProgressPredictions(
            self._known(progress), self._known(success), spread.cpu().double().numpy(), tokens
        )

    def _known(self, values: Tensor) -> FloatArray:
        found: FloatArray = values.cpu().double().numpy()
        if np.isnan(found).any():
            raise ModelError(
                f"{self.name}: its predictions are not numbers (NaN): its values overflow. With dtype=float32 they "
                "may not."
            )
        return found


class RobometerNetwork(nn.Module):
    """Backbone and heads."""

    def __init__(self, backbone: Any, hidden: int, bins: int) -> None:
        super().__init__()
        self.model = backbone
        self.progress_head = prediction_head(hidden, bins)
        self.success_head = prediction_head(hidden, 1)
        self.preference_head = prediction_head(hidden, 1)

    def progress(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return progress and the standard deviation of its distribution, (n, hidden) to (n,) each.

        Progress is the mean of the softmax over values evenly from 0 to 1; a head with one output is a sigmoid,
        whose spread is unknown.
        """
        outputs = self.progress_head(states).float()
        if outputs.shape[1] == 1:
            return torch.sigmoid(outputs[:, 0]), torch.full_like(outputs[:, 0], torch.nan)
        values = torch.linspace(0.0, 1.0, outputs.shape[1], device=outputs.device)
        shares = torch.softmax(outputs, dim=1)
        mean = shares @ values
        variance = (shares * (values - mean[:, None]) ** 2).sum(dim=1)
        return mean.clamp(0.0, 1.0), variance.sqrt()

    def success(self, states: Tensor) -> Tensor:
        """Return the probability that the task is done, (n, hidden) to (n,)."""
        return torch.sigmoid(self.success_head(states)[:, 0].float())

    def preference(self, states: Tensor) -> Tensor:
        """Return the probability that the first video shows more progress, (n, hidden) to (n,)."""
        return torch.sigmoid(self.preference_head(states)[:, 0].float())


def prediction_head(hidden: int, outputs: int) -> nn.Sequential:
    """Return a head; its layers have the numbers of the published one, whose fourth is a dropout."""
    half = hidden // 2
    return nn.Sequential(
        nn.Linear(hidden, half), nn.LayerNorm(half), nn.GELU(), nn.Identity(), nn.Linear(half, outputs)
    )

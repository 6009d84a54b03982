"""Metrics of a network in training on held-out videos, in seconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from stepscore.metrics import roc_auc
from stepscore.models.qwen3vl import patches
from stepscore.training.vlm.data.clips import Texts
from stepscore.training.vlm.data.dataset import LabelledVideo
from stepscore.training.vlm.data.prompt_tree import Statement, batch_trees, video_tree
from stepscore.training.vlm.trainer import WORDS, VlmTrainer
from stepscore.types import FloatArray


@torch.no_grad()
def evaluate(trainer: VlmTrainer, videos: Sequence[LabelledVideo], blocks: int = 8) -> dict[str, float]:
    """Return metrics on held-out videos.

    ``auc``: success at the end of the video, from the last prefix; ``auc_prefix``: success at every prefix;
    ``right``, ``failed`` and ``wrong``: P(True) at the end of successes and of failures under their own
    instruction, and of successes under another; ``subgoals``: balanced accuracy of all labelled subgoals at the last
    prefix; ``gain``: rise of P(True) over the video of a success, ``frozen``: its absolute change over the video's
    first frame repeated.

    Args:
        trainer: The training run.
        videos: Videos it is not trained on.
        blocks: Prefixes of each video.
    """
    network = trainer.loss_computer.network
    network.eval()
    rng = np.random.default_rng(0)
    rows = [_video_scores(trainer, video, trainer.texts, blocks, rng) for video in videos]
    network.train()
    ends = np.array([row["played"][-1] for row in rows])
    at_end = np.array([row["success"][-1] for row in rows])
    success, failure = at_end == 1.0, at_end == 0.0
    prefix_scores = np.concatenate([row["played"] for row in rows])
    prefix_success = np.concatenate([row["success"] for row in rows])
    predicted = np.concatenate([row["subgoals"] for row in rows]) > 0.5
    reached = np.concatenate([row["subgoals_true"] for row in rows])
    true, false = reached == 1.0, reached == 0.0
    wrong = np.array([row["wrong"][0] for row in rows])
    gains = np.array([row["played"][-1] - row["played"][0] for row in rows])
    frozen = np.array([row["frozen"][-1] - row["frozen"][0] for row in rows])
    metrics = {
        "auc": roc_auc(ends, at_end),
        "auc_prefix": roc_auc(prefix_scores, prefix_success),
        "right": _mean(ends[success]),
        "failed": _mean(ends[failure]),
        "wrong": _mean(wrong[success]),
        "subgoals": (_mean(predicted[true]) + _mean(~predicted[false])) / 2,
        "gain": _mean(gains[success]),
        "frozen": np.abs(frozen).mean(),
    }
    return {name: round(float(value), 4) for name, value in metrics.items()}


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else np.nan


def _video_scores(
    trainer: VlmTrainer, video: LabelledVideo, texts: Texts, blocks: int, rng: np.random.Generator
) -> dict[str, FloatArray]:
    index = np.round(np.linspace(0, len(video) - 1, 2 * blocks)).astype(int)
    own = texts.fill(video.instruction)
    other = texts.wrong(video.instruction, rng) or video.instruction
    prefixes = [Statement(block, own, 0.0) for block in range(1, blocks + 1)]
    at_end = [texts.fill(subgoal.name) for subgoal in video.subgoals] + [texts.fill(other)]
    frames = next(iter(video.views.values()))
    times = video.times[index]
    statements = [*prefixes, *(Statement(blocks, text, 0.0) for text in at_end)]
    played = _scores(trainer, frames[index], times, statements)
    frozen = _scores(trainer, frames[np.zeros_like(index)], times, [prefixes[0], prefixes[-1]])
    everything = np.ones(len(video), dtype=bool)
    true = [video.reached(k, everything) for k in range(len(video.subgoals))]
    return {
        "played": played[:blocks],
        "subgoals": played[blocks:-1],
        "wrong": played[-1:],
        "frozen": frozen,
        "success": video.success[index[1::2]],
        "subgoals_true": np.array(true),
    }


def _scores(
    trainer: VlmTrainer, frames: np.ndarray, times: FloatArray, statements: Sequence[Statement]
) -> FloatArray:
    """Return P(True) against P(False) of each statement."""
    tree = video_tree(trainer.layout, times, statements, WORDS)
    batch = batch_trees([tree], trainer.layout.tokens.end)
    pixels = torch.from_numpy(patches(np.ascontiguousarray(frames), trainer.geometry))
    hidden, _, _ = trainer.loss_computer.forward(batch, pixels)
    places = batch.choice_places
    logits = trainer.loss_computer.network.lm_head(hidden[places[:, 0], places[:, 1]])
    yes, no = logits.gather(1, torch.from_numpy(batch.choice_ids).to(logits.device)).unbind(1)
    return torch.sigmoid(yes - no).double().cpu().numpy()

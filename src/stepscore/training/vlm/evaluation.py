"""How well a network in training judges films it does not learn from: a few figures, in seconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from stepscore.metrics import roc_auc
from stepscore.models.qwen3vl import patches
from stepscore.training.vlm.data.clips import Texts
from stepscore.training.vlm.data.dataset import LabelledFilm
from stepscore.training.vlm.data.prompt_tree import Statement, batch, film_tree
from stepscore.training.vlm.training import WORDS, Training
from stepscore.types import FloatArray


@torch.no_grad()
def check(training: Training, films: Sequence[LabelledFilm], blocks: int = 8) -> dict[str, float]:
    """Figures on held-out films.

    ``auc``: success at the end of the film, from the last prefix; ``auc_prefix``: success at every prefix;
    ``right`` and ``wrong``: P(True) of successes under their own instruction and under another; ``subgoals``:
    balanced accuracy of all subgoals at the last prefix; ``frozen``: what P(True) gains over the film's first
    frame shown over and over, ``gain``: over the film of a success.

    Args:
        training: The network in training.
        films: Films it does not learn from.
        blocks: Prefixes of each film.
    """
    network = training.teacher.network
    network.eval()
    rng = np.random.default_rng(0)
    rows = [_film(training, film, training.texts, blocks, rng) for film in films]
    network.train()
    ends = np.array([row["played"][-1] for row in rows])
    ok = np.array([row["success"][-1] for row in rows], dtype=bool)
    every = np.concatenate([row["played"] for row in rows])
    true = np.concatenate([row["success"] for row in rows]).astype(bool)
    said = np.concatenate([row["subgoals"] for row in rows]) > 0.5
    stands = np.concatenate([row["truths"] for row in rows]).astype(bool)
    wrong = np.array([row["wrong"][0] for row in rows])
    gains = np.array([row["played"][-1] - row["played"][0] for row in rows])
    frozen = np.array([row["frozen"][-1] - row["frozen"][0] for row in rows])
    figures = {
        "auc": roc_auc(ends, ok),
        "auc_prefix": roc_auc(every, true),
        "right": ends[ok].mean(),
        "failed": ends[~ok].mean(),
        "wrong": wrong[ok].mean(),
        "subgoals": (said[stands].mean() + (~said[~stands]).mean()) / 2,
        "gain": gains[ok].mean(),
        "frozen": np.abs(frozen).mean(),
    }
    return {name: round(float(value), 4) for name, value in figures.items()}


def _film(
    training: Training, film: LabelledFilm, texts: Texts, blocks: int, rng: np.random.Generator
) -> dict[str, FloatArray]:
    index = np.round(np.linspace(0, len(film) - 1, 2 * blocks)).astype(int)
    own = texts.fill(film.instruction)
    other = texts.wrong(film.instruction, rng) or film.instruction
    told = [Statement(block, own, 0.0) for block in range(1, blocks + 1)]
    ends = [texts.fill(subgoal.name) for subgoal in film.subgoals] + [texts.fill(other)]
    frames = next(iter(film.views.values()))
    times = film.times[index]
    played = _scores(
        training, frames[index], times, [*told, *(Statement(blocks, text, 0.0) for text in ends)]
    )
    frozen = _scores(training, frames[np.zeros_like(index)], times, [told[0], told[-1]])
    stands = [
        film.truths[:, k].any() if subgoal.mode == "ever" else film.truths[-1, k]
        for k, subgoal in enumerate(film.subgoals)
    ]
    return {
        "played": played[:blocks],
        "subgoals": played[blocks:-1],
        "wrong": played[-1:],
        "frozen": frozen,
        "success": film.success[index[1::2]].astype(np.float64),
        "truths": np.array(stands, dtype=np.float64),
    }


def _scores(
    training: Training, frames: np.ndarray, times: FloatArray, said: Sequence[Statement]
) -> FloatArray:
    """P(True) against P(False) of each statement."""
    tree = film_tree(training.layout, times, said, WORDS)
    made = batch([tree], training.layout.tokens.end)
    pixels = torch.from_numpy(patches(np.ascontiguousarray(frames), training.geometry))
    hidden, _, _ = training.teacher.read(made, pixels)
    told = training.teacher.network.lm_head(hidden[made.asked[:, 0], made.asked[:, 1]])
    yes, no = told.gather(1, torch.from_numpy(made.words).to(told.device)).unbind(1)
    return torch.sigmoid(yes - no).double().cpu().numpy()

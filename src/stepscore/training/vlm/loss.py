"""What a batch of trees teaches: one pass of the network, and the loss of its answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import Tensor, nn

from stepscore.models.qwen3vl import VisionTokens
from stepscore.training.vlm.aux_heads import FactHeads, Facts, Known, TowerHeads
from stepscore.training.vlm.data.prompt_tree import Batch
from stepscore.training.vlm.vision_forward import VisionPass

ODDS_SHARE, STILL_SHARE, FACT_SHARE = 0.1, 0.15, 0.5
"""Weights of the log-odds' own error, of drift over still films and of the facts, beside 1 for statements and for
written answers."""


class Heads(nn.Module):
    """Tell the facts of each block from its tokens, and where the language model has read it.

    Args:
        hidden: Width of the language model.
        tokens: Tokens of a block.
        states: How many recorded numbers.
        facts: Tasks and subgoals.
    """

    def __init__(self, hidden: int, tokens: int, states: int, facts: Facts) -> None:
        super().__init__()
        self.seen = TowerHeads(hidden, tokens, states, facts)
        self.read = FactHeads(hidden, states, facts)


@dataclass(frozen=True, eq=False)
class Teacher:
    """A network and what it takes to teach it.

    Attributes:
        network: A ``Qwen3VLForConditionalGeneration``.
        vision: Its tower, for blocks of one size.
        tokens: Ids that stand for pictures.
        heads: Training-only heads; ``None`` without recorded states.
    """

    network: Any
    vision: VisionPass
    tokens: VisionTokens
    heads: Heads | None

    def read(self, batch: Batch, pixels: Tensor, *, settled: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """What the language model makes of every token, in the end and half-way, and every block's tokens.

        Args:
            batch: The trees.
            pixels: Patches of all blocks, in order.
            settled: The vision tower learns no more.
        """
        network = self.network
        device = network.device
        ids = torch.from_numpy(batch.ids).to(device)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not settled):
            embeddings, deep = self.vision(pixels.to(device))
        pictures = (ids == self.tokens.image) | (ids == self.tokens.video)
        text = network.model.language_model
        embedded = text.embed_tokens(ids).masked_scatter(pictures[..., None], embeddings)
        out = text(
            inputs_embeds=embedded,
            position_ids=torch.from_numpy(batch.positions).to(device),
            attention_mask=torch.from_numpy(batch.visible).to(device)[:, None],
            use_cache=False,
            visual_pos_masks=pictures,
            deepstack_visual_embeds=deep,
            output_hidden_states=True,
        )
        return out.last_hidden_state, out.hidden_states[len(text.layers) // 2], embeddings

    def loss(
        self, batch: Batch, pixels: Tensor, known: Known | None, *, settled: bool = False
    ) -> tuple[Tensor, Mapping[str, float]]:
        """The loss of a batch, and its parts by name.

        Args:
            batch: The trees.
            pixels: Patches of all blocks, in order.
            known: What is true of each block that has a mark; ``None`` to leave it out.
            settled: The vision tower learns no more.
        """
        hidden, halfway, embeddings = self.read(batch, pixels, settled=settled)
        parts: dict[str, Tensor] = {}
        if len(batch.asked):
            parts |= self._weighed(batch, hidden)
        if len(batch.rows):
            logits = self.network.lm_head(hidden[batch.rows[:, 0], batch.rows[:, 1]])
            wanted = torch.from_numpy(batch.next_ids).to(logits.device)
            parts["words"] = F.cross_entropy(logits, wanted)
        if known is not None and self.heads is not None:
            # Half-way up: the layers above let later words read it there.
            marked = halfway[batch.marks[:, 0], batch.marks[:, 1]]
            told = [self.heads.read(marked)]
            if not settled:
                told += self.heads.seen(embeddings.reshape(len(marked), -1))
            parts |= {name: FACT_SHARE * part for name, part in known.losses(told).items()}
        total = torch.stack(list(parts.values())).sum()
        return total, {name: float(part.detach()) for name, part in parts.items()}

    def _weighed(self, batch: Batch, hidden: Tensor) -> dict[str, Tensor]:
        """Answers of two words: their cross entropy, their log-odds, and what moves while nothing moves."""
        told = self.network.lm_head(hidden[batch.asked[:, 0], batch.asked[:, 1]]).log_softmax(-1)
        yes, no = told.gather(1, torch.from_numpy(batch.words).to(told.device)).unbind(1)
        wanted = torch.from_numpy(batch.log_odds).to(told)
        true = torch.sigmoid(wanted)
        least = F.binary_cross_entropy_with_logits(wanted, true)  # what even the right answer costs
        odds = yes - no
        parts = {
            "statements": -(true * yes + (1 - true) * no).mean() - least,
            "odds": ODDS_SHARE * F.smooth_l1_loss(odds, wanted),
        }
        still = torch.from_numpy(batch.still).to(told.device)
        moves = [_spread(odds[still == tree]) for tree in torch.unique(still[still >= 0])]
        if moves:
            parts["still"] = STILL_SHARE * torch.stack(moves).mean()
        return parts


def _spread(values: Tensor) -> Tensor:
    return (values - values.mean()).abs().mean()

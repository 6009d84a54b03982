"""The loss of a batch of prompt trees: one forward pass of the network, and the loss of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import Tensor, nn

from stepscore.models.qwen3vl import VisionTokens
from stepscore.training.vlm.aux_heads import AuxHead, AuxLabelSpace, AuxTargets, VisionAuxHeads
from stepscore.training.vlm.config import TrainDtype
from stepscore.training.vlm.data.prompt_tree import TreeBatch
from stepscore.training.vlm.vision_forward import BatchedVisionEncoder

LOG_ODDS_WEIGHT, DRIFT_WEIGHT, AUX_WEIGHT = 0.1, 0.15, 0.5
"""Loss weights of the log-odds' own error, of drift over frozen videos and of the auxiliary heads, beside 1 for
statements and for written answers."""


NUMBER_SD, EXPECTED_WEIGHT = 0.03, 2.0
"""Standard deviation of the target over number tokens, as progress; weight of the expected value's error."""
SETTLED_WEIGHT = 0.05
"""Least weight of a token in the mean over an answer's tokens."""


class AuxHeads(nn.Module):
    """Predict the labels of each block from its vision tokens, and from the language model's state after it.

    Args:
        hidden_size: Hidden size of the language model.
        tokens: Tokens of a block.
        n_states: How many recorded numbers to predict.
        label_space: Tasks and subgoals to predict.
    """

    def __init__(self, hidden_size: int, tokens: int, n_states: int, label_space: AuxLabelSpace) -> None:
        super().__init__()
        self.vision = VisionAuxHeads(hidden_size, tokens, n_states, label_space)
        self.language = AuxHead(hidden_size, n_states, label_space)


@dataclass(frozen=True, eq=False)
class LossComputer:
    """A network with its training losses.

    Attributes:
        network: A ``Qwen3VLForConditionalGeneration``.
        vision: Its vision encoder, for blocks of one size.
        tokens: Ids of the image and video placeholder tokens.
        heads: Auxiliary heads; ``None`` without recorded states.
        number_ids: Tokens of 0 to 100, where the tokenizer has one for each.
        dtype: Type of the network's matrix products.
    """

    network: Any
    vision: BatchedVisionEncoder
    tokens: VisionTokens
    heads: AuxHeads | None
    number_ids: Sequence[int] = ()
    dtype: TrainDtype = "float32"

    def forward(
        self, batch: TreeBatch, pixels: Tensor, *, freeze_vision: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the language model's last hidden states, those of its middle layer, and the vision tokens.

        Args:
            batch: The trees.
            pixels: Patches of all blocks, in order.
            freeze_vision: Whether the vision encoder gets no gradient.
        """
        network = self.network
        device = network.device
        ids = torch.from_numpy(batch.input_ids).to(device)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not freeze_vision):
            embeddings, deep = self.vision(pixels.to(device))
        visual = (ids == self.tokens.image) | (ids == self.tokens.video)
        text = network.model.language_model
        embedded = text.embed_tokens(ids).masked_scatter(visual[..., None], embeddings)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.dtype == "bfloat16"):
            out = text(
                inputs_embeds=embedded,
                position_ids=torch.from_numpy(batch.position_ids).to(device),
                attention_mask=torch.from_numpy(batch.attention_mask).to(device)[:, None],
                use_cache=False,
                visual_pos_masks=visual,
                deepstack_visual_embeds=deep,
                output_hidden_states=True,
            )
        middle = out.hidden_states[len(text.layers) // 2]
        return out.last_hidden_state.float(), middle.float(), embeddings

    def loss(
        self, batch: TreeBatch, pixels: Tensor, aux_targets: AuxTargets | None, *, freeze_vision: bool = False
    ) -> tuple[Tensor, Mapping[str, float]]:
        """Return the loss of a batch, and its parts by name.

        Args:
            batch: The trees.
            pixels: Patches of all blocks, in order.
            aux_targets: Labels of each block that has an end token; ``None`` to leave the auxiliary heads out.
            freeze_vision: Whether the vision encoder gets no gradient.
        """
        hidden, middle, embeddings = self.forward(batch, pixels, freeze_vision=freeze_vision)
        parts: dict[str, Tensor] = {}
        if len(batch.choice_places):
            parts |= self._choice_losses(batch, hidden)
        if len(batch.target_places):
            logits = self.network.lm_head(hidden[batch.target_places[:, 0], batch.target_places[:, 1]])
            targets = torch.from_numpy(batch.target_ids).to(logits.device)
            parts["words"] = _mean_of_unsettled(F.cross_entropy(logits, targets, reduction="none"))
        if len(batch.number_places):
            parts |= self._number_losses(batch, hidden)
        if aux_targets is not None and self.heads is not None:
            # From the middle layer: the layers above let later words read it there.
            ends = middle[batch.block_ends[:, 0], batch.block_ends[:, 1]]
            predictions = [self.heads.language(ends)]
            if not freeze_vision:
                predictions += self.heads.vision(embeddings.reshape(len(ends), -1))
            parts |= {name: AUX_WEIGHT * part for name, part in aux_targets.losses(predictions).items()}
        total = torch.stack(list(parts.values())).sum()
        return total, {name: float(part.detach()) for name, part in parts.items()}

    def _number_losses(self, batch: TreeBatch, hidden: Tensor) -> dict[str, Tensor]:
        """Return the losses of percentages: cross entropy around the right number, and the expected value's error."""
        logits = self.network.lm_head(hidden[batch.number_places[:, 0], batch.number_places[:, 1]])
        logprobs = logits.log_softmax(-1)[:, list(self.number_ids)]
        values = torch.from_numpy(batch.values).to(logprobs)
        grid = torch.linspace(0, 1, len(self.number_ids)).to(logprobs)
        near = torch.softmax(-0.5 * ((grid - values[:, None]) / NUMBER_SD) ** 2, dim=1)
        expected = (logprobs.softmax(1) * grid).sum(1)
        return {
            "numbers": -(near * logprobs).sum(1).mean(),
            "expected": EXPECTED_WEIGHT * (expected - values).abs().mean(),
        }

    def _choice_losses(self, batch: TreeBatch, hidden: Tensor) -> dict[str, Tensor]:
        """Return the losses of answers of two words: cross entropy, log-odds, and drift over frozen videos."""
        logits = self.network.lm_head(hidden[batch.choice_places[:, 0], batch.choice_places[:, 1]])
        logprobs = logits.log_softmax(-1)
        yes, no = logprobs.gather(1, torch.from_numpy(batch.choice_ids).to(logprobs.device)).unbind(1)
        target = torch.from_numpy(batch.log_odds).to(logprobs)
        p_yes = torch.sigmoid(target)
        least = F.binary_cross_entropy_with_logits(target, p_yes)  # what even the right answer costs
        log_odds = yes - no
        parts = {
            "statements": -(p_yes * yes + (1 - p_yes) * no).mean() - least,
            "odds": LOG_ODDS_WEIGHT * F.smooth_l1_loss(log_odds, target),
        }
        tree_of = torch.from_numpy(batch.static_tree).to(logprobs.device)
        drifts = [_mean_deviation(log_odds[tree_of == tree]) for tree in torch.unique(tree_of[tree_of >= 0])]
        if drifts:
            parts["still"] = DRIFT_WEIGHT * torch.stack(drifts).mean()
        return parts


def _mean_of_unsettled(losses: Tensor) -> Tensor:
    """Return the mean over tokens, each weighted by the probability that the network still gives to others.

    Most of a written answer is settled by its form. A plain mean would soon be a mean of zeros, with the few tokens
    that say something lost among them.
    """
    weights = (1 - torch.exp(-losses.detach())).clamp(min=SETTLED_WEIGHT)
    return (weights * losses).sum() / weights.sum()


def _mean_deviation(values: Tensor) -> Tensor:
    return (values - values.mean()).abs().mean()

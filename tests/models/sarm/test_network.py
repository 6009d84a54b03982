"""SARM's network: time runs one way, padding is not there, and every window has its own text and task."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from stepscore.errors import OptionError
from stepscore.models.sarm.network import SarmShape, Windows, attention_mask
from stepscore.models.sarm.window import Window
from tests.models.sarm import tiny_sarm


def shape(*, causal: bool, views: int = 2, state: int = 3) -> SarmShape:
    return SarmShape(
        features=5, text=4, views=views, state=state, stages={"sparse": 1, "dense": 4}, slots=7, causal=causal,
        width=16, layers=2, attention_heads=2,
    )  # fmt: skip


def windows(of: SarmShape, batch: int = 3, seed: int = 0) -> Windows:
    rng = torch.Generator().manual_seed(seed)
    draw = lambda *size: torch.randn(*size, generator=rng)  # noqa: E731
    return Windows(
        draw(batch, of.slots, of.views, of.features),
        draw(batch, of.text),
        draw(batch, of.slots, of.state) if of.state else None,
        torch.ones(batch, of.slots, dtype=torch.bool),
        {"sparse": torch.ones(batch, dtype=torch.long), "dense": torch.full((batch,), 4)},
    )


def everything(network: torch.nn.Module, given: Windows) -> Tensor:
    """All that the network says of every slot, side by side, (B, T, numbers)."""
    with torch.no_grad():
        result = network.stages(given)  # type: ignore[operator]
        stage = result["dense"].argmax(-1)
        shares = network.shares(given, {"dense": stage, "sparse": torch.zeros_like(stage)})  # type: ignore[operator]
    return torch.cat([result["dense"].exp(), shares["dense"][..., None], shares["sparse"][..., None]], dim=-1)


def changed(given: Windows, first: int) -> Windows:
    """The same up to slot ``first``, and everything else from there on: every view, and the state."""
    views, state = given.views.clone(), given.state
    views[:, first:] += 3.0
    if state is not None:
        state = state.clone()
        state[:, first:] -= 2.0
    return Windows(views, given.text, state, given.valid, given.counts)


@pytest.mark.parametrize("first", range(1, 7))
def test_the_future_changes_nothing_in_a_causal_network(first: int) -> None:
    of = shape(causal=True)
    network, given = tiny_sarm.network(of), windows(of)
    before, after = everything(network, given), everything(network, changed(given, first))
    assert torch.equal(before[:, :first], after[:, :first])
    assert not torch.allclose(before[:, first:], after[:, first:], atol=1e-3)


def test_the_future_counts_in_a_bidirectional_one() -> None:
    of = shape(causal=False)
    network, given = tiny_sarm.network(of), windows(of)
    before, after = everything(network, given), everything(network, changed(given, 6))
    assert not torch.allclose(before[:, 0], after[:, 0], atol=1e-3)


@pytest.mark.parametrize("causal", [True, False])
def test_what_stands_in_padding_is_seen_by_no_one(*, causal: bool) -> None:
    of = shape(causal=causal)
    network, given = tiny_sarm.network(of), windows(of)
    valid = given.valid.clone()
    valid[:, 2] = False
    padded = Windows(given.views, given.text, given.state, valid, given.counts)
    other = given.views.clone()
    other[:, 2] = 100.0
    noisy = Windows(other, given.text, given.state, valid, given.counts)
    assert torch.equal(everything(network, padded)[valid], everything(network, noisy)[valid])


def test_the_mask_goes_by_slots_and_not_by_the_order_of_tokens() -> None:
    valid = torch.tensor([[True, True, False]])
    sees = attention_mask(valid, 2, causal=True)[0, 0]
    for query, key in itertools.product(range(6), range(6)):
        assert bool(sees[query, key]) == (key // 2 <= query // 2 and bool(valid[0, key // 2]))


def test_every_window_has_a_text_of_its_own() -> None:
    of = shape(causal=True)
    network, given = tiny_sarm.network(of), windows(of)
    text = given.text.clone()
    text[1] += torch.tensor([3.0, -1.0, 0.0, 2.0])
    after = everything(network, Windows(given.views, text, given.state, given.valid, given.counts))
    before = everything(network, given)
    assert torch.allclose(before[[0, 2]], after[[0, 2]], atol=1e-6)
    assert not torch.allclose(before[1], after[1], atol=1e-3)


def test_tokens_made_before_are_the_same_tokens() -> None:
    of = shape(causal=True)
    network, given = tiny_sarm.network(of), windows(of)
    with torch.no_grad():
        network.feature_mean += 0.3
        made = network.project_features(given.views)
    again = Windows(torch.empty(0), given.text, given.state, given.valid, given.counts, made)
    assert torch.allclose(everything(network, given), everything(network, again), atol=1e-6)


def test_a_stage_a_task_lacks_has_no_probability() -> None:
    of = shape(causal=True)
    given = windows(of)
    counts = {"sparse": given.counts["sparse"], "dense": torch.tensor([2, 4, 3])}
    result = tiny_sarm.network(of).stages(Windows(given.views, given.text, given.state, given.valid, counts))
    chances = result["dense"].exp()
    assert torch.all(chances[0, :, 2:] == 0)
    assert torch.all(chances[2, :, 3] == 0)
    assert torch.allclose(chances.sum(-1), torch.ones(3, 7))


@pytest.mark.parametrize(("views", "state"), [(1, 0), (3, 0), (2, 5)])
def test_any_number_of_views_with_or_without_a_state(views: int, state: int) -> None:
    of = shape(causal=True, views=views, state=state)
    found = everything(tiny_sarm.network(of), windows(of))
    assert found.shape == (3, 7, 6)
    assert torch.isfinite(found).all()


def test_scaling_is_saved_with_the_weights() -> None:
    names = tiny_sarm.network(shape(causal=True)).state_dict()
    assert {"feature_mean", "feature_std", "state_mean", "state_std"} <= set(names)


def test_a_width_that_cannot_be_cut_into_heads_is_refused() -> None:
    with pytest.raises(OptionError, match="multiple"):
        SarmShape(1, 1, 1, 0, {"sparse": 1}, 3, True, width=10, attention_heads=4)


@pytest.mark.parametrize("causal", [True, False])
def test_a_window_shows_the_first_frame_and_the_frames_of_its_seconds(*, causal: bool) -> None:
    window = Window(frames=4, gap_s=0.5, causal=causal, rewind=2)
    times = np.cumsum(np.random.default_rng(0).uniform(0.05, 0.3, 40))
    times -= times[0]
    moments = np.arange(40)
    frames, valid = window.frames_at(times, moments)
    offsets = [-1.5, -1.0, -0.5, 0.0] if causal else [-1.0, -0.5, 0.0, 0.5]
    for moment in moments:
        assert frames[moment, 0] == 0
        assert valid[moment, 0]
        for slot, offset in enumerate(offsets, start=1):
            second = times[moment] + offset
            shown = [i for i, t in enumerate(times) if t <= second + 5e-7]
            inside = bool(shown) and second <= times[-1] + 5e-7
            assert valid[moment, slot] == inside
            assert frames[moment, slot] == (shown[-1] if inside else 0)
        assert frames[moment, window.current_slot] == moment
    if causal:
        assert (frames <= moments[:, None]).all()

"""A learning rate rises to its peak and falls to its end by a cosine."""

from __future__ import annotations

import pytest

from stepscore.training.schedule import cosine_lr


def test_it_rises_to_the_peak_and_falls_to_the_fraction_of_its_end() -> None:
    rates = [cosine_lr(2.0, step, 100, warmup_steps=10, final_fraction=0.1) for step in range(101)]
    assert rates[0] == pytest.approx(0.2)
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[50] == pytest.approx(2.0 * (0.1 + 0.9 / 2))
    assert rates[100] == pytest.approx(0.2)
    assert cosine_lr(2.0, 150, 100, warmup_steps=10, final_fraction=0.1) == rates[100]


def test_it_is_torchs_cosine_without_a_warm_up() -> None:
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    for step in range(20):
        assert cosine_lr(3e-3, step, 20) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        schedule.step()

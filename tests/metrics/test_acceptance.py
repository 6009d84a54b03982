"""The error among the surest answers, with a plain loop as the oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepscore.errors import OptionError
from stepscore.metrics import accept_threshold, risk_coverage


@pytest.mark.parametrize("seed", range(4))
def test_every_border_is_that_of_a_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = np.round(rng.uniform(size=60), 1 + seed % 2)
    labels = (rng.uniform(size=60) < p).astype(float)
    found = risk_coverage([*p, np.nan], [*labels, 1])
    assert found.n == 60
    for border, accepted, wrong in zip(found.confidence, found.accepted, found.wrong, strict=True):
        chosen = [i for i in range(60) if max(p[i], 1 - p[i]) >= border]
        assert accepted == len(chosen)
        assert wrong == sum((p[i] >= 0.5) != labels[i] for i in chosen)
    assert found.coverage[-1] == 1.0
    for max_error in (0.05, 0.2, 0.4):
        good = [c for c, risk in zip(found.confidence, found.risk, strict=True) if risk <= max_error]
        lowest = 0.5 if good and found.risk[-1] <= max_error else min(good, default=math.inf)
        assert accept_threshold(p, labels, max_error) == lowest


def test_a_judge_that_is_always_right_is_always_accepted_and_one_that_never_is_never() -> None:
    assert accept_threshold([0.9, 0.6, 0.1], [1, 1, 0], 0.0) == 0.5
    assert accept_threshold([0.9, 0.6, 0.1], [0, 0, 1], 0.3) == math.inf
    assert math.isnan(accept_threshold([np.nan], [1], 0.1))
    with pytest.raises(OptionError, match="max_error"):
        accept_threshold([0.5], [1], 1.0)
    with pytest.raises(OptionError, match=r"expected 0\.\.1"):
        risk_coverage([1.5], [1])

from __future__ import annotations

import numpy as np
import pytest

from stepscore.types import Curve


def test_a_curve_refuses_times_that_do_not_rise() -> None:
    with pytest.raises(ValueError, match="strictly increasing"):
        Curve(np.array([0.0, 0.0]), np.array([0.1, 0.2]))


def test_a_curve_refuses_progress_out_of_range_and_names_the_raw_channel() -> None:
    with pytest.raises(ValueError, match="raw"):
        Curve(np.array([0.0, 1.0]), np.array([0.1, 1.2]))


def test_a_curve_refuses_a_channel_of_another_length() -> None:
    with pytest.raises(ValueError, match="raw"):
        Curve(np.array([0.0, 1.0]), np.array([0.1, 0.2]), {"raw": np.array([1.0])})


def test_unknown_progress_counts_against_coverage() -> None:
    assert Curve(np.arange(4.0), np.array([0.0, np.nan, 0.5, 1.0])).coverage == 0.75
    assert np.isnan(Curve(np.empty(0), np.empty(0)).coverage)

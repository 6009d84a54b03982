"""How fast ``stepscore train`` is, and when it ends."""

from __future__ import annotations

from stepscore.cli.training.train import Pace


def test_the_rate_and_the_time_left_count_from_the_first_step_of_this_start() -> None:
    times = iter([100.0, 130.0, 160.0])
    pace = Pace(lambda: next(times))
    assert pace.after(501, 1000) == "rate not known yet"  # resumed, and what was loaded is not counted
    assert pace.after(511, 1000) == "20 steps/min, 24 min left"
    assert pace.after(521, 1000) == "20 steps/min, 24 min left"

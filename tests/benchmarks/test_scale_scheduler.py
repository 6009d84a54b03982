"""A slice of the simulation of many workers; all of it is ``python -m benchmarks.scale.scheduler``."""

from __future__ import annotations

import pytest

from benchmarks.scale.scheduler import FAULTS, Setup, Simulation, check


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_episode_is_lost_or_doubled_whatever_fails(seed: int) -> None:
    setup = Setup(workers=60, episodes=1500, failures=0.2, poison=3, seed=seed)
    simulation = Simulation(setup)
    found = simulation.run()
    assert check(setup, found, simulation.poison) == []
    assert simulation.poison <= found.given_up.keys()
    assert min(found.faults[name] for name in FAULTS) >= 10, "every kind of failure was planted"
    assert found.most == 2, "a worker holds no more than what it works on and what comes next"
    assert found.computed < 1.1 * setup.episodes


def test_the_check_finds_what_is_lost_and_what_is_doubled() -> None:
    setup = Setup(workers=5, episodes=20, failures=0.0, poison=0)
    found = Simulation(setup).run()
    assert check(setup, found, set()) == []
    del found.results["e000003"]
    found.results["e000004"] += 1
    assert check(setup, found, {"e000005"}) == [
        "1 episodes are lost",
        "1 episodes are doubled",
        "an episode that ends every worker was finished",
    ]

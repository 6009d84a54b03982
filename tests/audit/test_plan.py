"""How many episodes each probe gets."""

from __future__ import annotations

import pytest

from stepscore.audit.plan import BUDGET, HEADLINE_EPISODES, PROBE_EPISODES, _shares
from stepscore.audit.probes import choose_probes


@pytest.mark.parametrize("n", [20, 300, 5_000, 100_000])
def test_no_probe_takes_more_than_a_thousand_episodes_and_small_sources_share_all(n: int) -> None:
    probes = choose_probes(None)
    shares = _shares(probes, {probe.name: n for probe in probes}, n, full=False)
    assert max(shares.values()) <= min(n, PROBE_EPISODES)
    assert all(shares[probe.name] <= HEADLINE_EPISODES for probe in probes if probe.headline)
    cost = sum(shares[probe.name] * probe.length for probe in probes)
    assert cost <= (BUDGET - 1) * n
    # What the probes add does not grow with a large source.
    assert n <= 5_000 or cost <= PROBE_EPISODES * sum(probe.length for probe in probes)


def test_a_full_audit_takes_every_episode() -> None:
    probes = choose_probes(None)
    eligible = {probe.name: 100_000 for probe in probes}
    assert _shares(probes, eligible, 100_000, full=True) == eligible

"""Which change of an episode each probe makes: every perturbation is probed, or it is said why not."""

from __future__ import annotations

from stepscore.audit import PROBES, Context
from stepscore.episodes import PERTURBATIONS
from tests.audit.planted_judges import COUNTERFACTUALS, EXPECTED, scripted_episodes

UNPROBED = {"zoomed": "what matters may leave the image; a camera that was touched is `shifted`"}
"""Perturbations without a probe, and why."""


def changes() -> dict[str, str]:
    """The perturbation that each probe makes of a success."""
    episodes = scripted_episodes(1)
    context = Context(episodes, dict(COUNTERFACTUALS))
    success = next(one for one in episodes if one.labels.success)
    made = {name: probe.change(success, context).metadata["changed"] for name, probe in PROBES.items()}
    return {name: str(notes[-1]["change"]) for name, notes in made.items()}  # type: ignore[index]


def test_every_perturbation_has_a_probe() -> None:
    missing = sorted(set(PERTURBATIONS) - set(changes().values()) - set(UNPROBED))
    assert not missing, (
        f"add a probe in src/stepscore/audit/probes, or a reason in UNPROBED: {', '.join(missing)}"
    )
    assert not set(UNPROBED) & set(changes().values())


def test_every_probe_has_an_outcome_that_is_stated_for_every_planted_judge() -> None:
    missing = {fault: sorted(set(PROBES) - set(stated)) for fault, stated in EXPECTED.items()}
    assert not any(missing.values()), f"add to EXPECTED in tests/audit/planted_judges.py: {missing}"

"""On the twelve real rollouts: which probes decide at that n, and that judges which know nothing fail them."""

from __future__ import annotations

from pathlib import Path

from stepscore.audit import AuditOptions, audit
from stepscore.episodes import open_episodes
from stepscore.judges import get_judge
from tests.audit.planted_judges import EXPECTED

TOO_FEW = {"early-success", "opposite"}
"""No label says when a task was done; three instructions begin with a verb that has an opposite."""
ONE_CAMERA = {"swapped-cameras", "blank-camera"}
NOT_GIVEN = {"counterfactual"}


def test_at_twelve_rollouts_all_but_five_probes_decide_and_trivial_judges_fail_those_they_must(
    shared_data: Path, tmp_path: Path
) -> None:
    episodes = open_episodes(shared_data / "rollouts")
    found = audit(episodes, get_judge("linear-time"), tmp_path / "audit", AuditOptions(full=True))
    assert (found.episodes, sum(bool(one.labels.success) for one in episodes)) == (12, 9)
    undecided = TOO_FEW | ONE_CAMERA | NOT_GIVEN
    assert {one.probe for one in found.results if one.outcome == "undecided"} == undecided

    def failed(judge: str) -> set[str]:
        return {one.probe for one in found.trivial if one.judge == judge and one.outcome == "fail"}

    def must_fail(fault: str) -> set[str]:
        return {probe for probe, outcome in EXPECTED[fault].items() if outcome == "fail"} - undecided

    assert failed("linear-time") == must_fail("clock")
    assert failed("constant") == must_fail("always yes")
    # It follows any change of the image, also the one that is played backwards, and reads no word.
    assert failed("image-difference") == {"reversed", "twice", "other-task", "negated"}

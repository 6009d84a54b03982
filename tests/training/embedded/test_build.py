"""``python -m stepscore.training.embedded build``: from nothing to a judge in a folder, in miniature."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscore
from stepscore.errors import OptionError
from stepscore.judges import TopReward
from stepscore.judges.common import read_calibration
from stepscore.models import get_model
from stepscore.models.embedded import gate_digest, load_gate
from stepscore.models.embedded.domain_check import DomainCheck
from stepscore.training.embedded.build import BuildPlan, RolloutSet, build_judge, install_judge
from stepscore.training.gate.config import CameraConfig, GateConfig
from stepscore.training.trainer import STATE_FILE

TASKS = ("door-open", "button-press")
PLAN = BuildPlan(
    training=(RolloutSet("A", ("expert",), 3, 1, ("close", "left"), TASKS),),
    validation=RolloutSet("V", ("expert",), 1, 2, tasks=TASKS),
    out_of_distribution=(RolloutSet("O", ("expert",), 2, 3, tasks=("sweep",)),),
    calibration=RolloutSet("M", ("freeze",), 3, 4, tasks=TASKS),  # without a success: a map to progress alone
    vision_pretrain_steps=1,
    align_steps=1,
    steps=3,
    gate=GateConfig(frames_per_episode=2, components=8, hidden_dim=16, steps=20),
    cameras=CameraConfig(tasks=TASKS, scenes=4, cameras_per_scene=1, hidden_dim=8, steps=20),
)


def test_a_judge_is_built_from_nothing_and_what_is_done_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A gate of twenty steps refuses at random, and the maps need a few episodes that are answered.
    monkeypatch.setattr(DomainCheck, "accepts", lambda check, request: True)
    said: list[str] = []
    assert build_judge(tmp_path, 7, PLAN, max_minutes=0, log=said.append) is None  # stopped before a step
    assert not (tmp_path / "judge-7").exists()
    assert not (tmp_path / "M").exists()  # not needed yet
    folder = build_judge(tmp_path, 7, PLAN, log=said.append)
    assert folder == tmp_path / "judge-7"
    assert load_gate(folder / "gate.safetensors").cameras is not None
    fitted = read_calibration(folder / "calibration.json")
    assert fitted.identity is not None
    assert fitted.identity["gate"] == gate_digest(folder)

    files = (*sorted(folder.iterdir()), tmp_path / "seed-7" / STATE_FILE)
    before = [(path, path.read_bytes()) for path in files]
    made = len(said)
    assert build_judge(tmp_path, 7, PLAN, log=said.append) == folder
    assert [(path, path.read_bytes()) for path in files if path.name != STATE_FILE] == [
        (path, data) for path, data in before if path.name != STATE_FILE
    ]
    assert not any("rollouts" in line or "maps" in line for line in said[made:])

    model = get_model("embedded", checkpoint=str(folder))
    judge = stepscore.get_judge("topreward", model=model)
    assert isinstance(judge, TopReward)
    assert str(folder) in str(judge.calibration)  # the maps beside the weights, not those of the package


def test_a_judge_that_is_not_finished_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="Run build first"):
        install_judge(tmp_path)

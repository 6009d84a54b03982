"""``python -m stepscore.training.embedded build``: from nothing to a judge in a folder, in miniature."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import pytest

import stepscore
from stepscore.errors import OptionError
from stepscore.judges import TopReward
from stepscore.judges.common import read_calibration
from stepscore.models import get_model
from stepscore.models.embedded import gate_digest, load_gate
from stepscore.models.embedded.ood import DomainCheck
from stepscore.sim import choose_gl_backend
from stepscore.training.embedded.build import BuildPlan, RolloutSet, build_judge, install_judge
from stepscore.training.gate.config import CameraConfig, GateConfig

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


def check_a_build(work: Path) -> None:
    choose_gl_backend()
    # A gate of twenty steps refuses at random, and the maps need a few episodes that are answered.
    with patch.object(DomainCheck, "accepts", lambda check, request: True):
        said: list[str] = []
        assert build_judge(work, 7, PLAN, max_minutes=0, log=said.append) is None  # stopped before a step
        assert not (work / "judge-7").exists()
        assert not (work / "M").exists()  # not needed yet
        folder = build_judge(work, 7, PLAN, log=said.append)
        assert folder == work / "judge-7"
        assert load_gate(folder / "gate.safetensors").cameras is not None
        fitted = read_calibration(folder / "calibration.json")
        assert fitted.identity is not None
        assert fitted.identity["gate"] == gate_digest(folder)

        before = {path: path.read_bytes() for path in folder.iterdir()}
        made = len(said)
        assert build_judge(work, 7, PLAN, log=said.append) == folder
        assert {path: path.read_bytes() for path in folder.iterdir()} == before
        assert not any("rollouts" in line or "maps" in line for line in said[made:])

        model = get_model("embedded", checkpoint=str(folder))
        judge = stepscore.get_judge("topreward", model=model)
        assert isinstance(judge, TopReward)
        assert str(folder) in str(judge.calibration)  # the maps beside the weights, not those of the package


def test_a_judge_is_built_from_nothing_and_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    # In a process of its own: where MuJoCo was imported before, it may have no OpenGL.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(check_a_build, tmp_path).result()


def test_a_judge_that_is_not_finished_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="Run build first"):
        install_judge(tmp_path)

"""LeRobot's own code reads the progress file and computes the weights that were shown.

Runs only where LeRobot is installed, which its pins keep out of this project's environment. Its loader needs no
more of it than this, in a folder of its own::

    pip install --no-deps --target lerobot-only lerobot==0.4.4 'pandas<3' python-dateutil pytz tzdata six
    PYTHONPATH=lerobot-only python -m pytest tests/curation/test_lerobot_itself.py
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.curation import lerobot_rabc, write_lerobot_progress
from tests.curation.made import frames_of


def lerobots_loader() -> Any:
    for module in ("lerobot.rewards.sarm.rabc", "lerobot.utils.rabc"):
        try:
            return importlib.import_module(module).RABCWeights
        except ImportError:
            continue
    pytest.skip("LeRobot is not installed; its own loader was not run")


@pytest.mark.parametrize("kappa", [0.01, 0.2])
def test_lerobots_weights_are_those_that_were_shown(tmp_path: Path, kappa: float) -> None:
    loader = lerobots_loader()
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    curves = [
        np.clip(np.linspace(0, end, n) + rng.normal(0, 0.05, n), 0, 1) for n, end in ((40, 1.0), (90, 0.4))
    ]
    curves[1][10:14] = math.nan
    frames = frames_of(*(curve.tolist() for curve in curves), [0.5], [math.nan, 0.1, 0.1])
    write_lerobot_progress(tmp_path / "progress.parquet", frames, provenance={})
    theirs = loader(
        tmp_path / "progress.parquet",
        chunk_size=8,
        kappa=kappa,
        fallback_weight=0.25,
        device=torch.device("cpu"),
    )
    scaled, _ = theirs.compute_batch_weights({"index": torch.arange(len(frames))})
    ours = lerobot_rabc(frames, chunk_size=8, kappa=kappa, fallback_weight=0.25)
    weights = np.where(np.isnan(ours.weights), 0.25, ours.weights)
    assert theirs.delta_mean == pytest.approx(ours.facts["mean gain"])
    assert theirs.delta_std == pytest.approx(ours.facts["deviation of gains"])
    np.testing.assert_allclose(scaled.numpy(), weights * len(weights) / (weights.sum() + 1e-6), atol=1e-6)

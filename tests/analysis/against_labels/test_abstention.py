"""What to accept of a judge's verdicts, on planted probabilities whose error is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from stepscore.analysis import abstention
from stepscore.cli.app import app
from stepscore.errors import OptionError
from stepscore.runs import Run
from tests.report.made_runs import write_run

N = 240


def planted(
    folder: Path,
    probability: Callable[[np.random.Generator], float],
    *,
    n: int = N,
    bias: float = 0.0,
    fitted: int = 0,
    calibrated: bool = True,
) -> Run:
    """A run in which an episode succeeds as often as it is said to, less ``bias``; two episodes a scene."""
    rng = np.random.default_rng(5)

    def change(number: int, record: dict[str, Any]) -> None:
        p = probability(rng)
        record["episode"] |= {"pair": f"scene {number // 10}", "success": bool(rng.uniform() < p - bias)}
        record["judgement"] |= {
            "success_probability": p if calibrated else None,
            "success_calibrated": calibrated,
            "facts": {"fitted_on": float(number < fitted)},
        }

    return write_run(folder, n, steps=4, change=change)


def sure_or_not(rng: np.random.Generator) -> float:
    """Half of the episodes are sure, the others a coin."""
    return float(rng.choice([0.01, 0.99, 0.45, 0.55]))


def test_the_sure_half_is_accepted_and_the_rest_goes_to_a_person(tmp_path: Path) -> None:
    (found,) = abstention(planted(tmp_path / "run", sure_or_not))
    assert found.n == N
    assert found.threshold == pytest.approx(0.99)
    assert 0.4 < found.accepted.value < 0.6
    assert found.error.value < 0.05
    assert found.error.n == round(found.accepted.value * N)
    assert found.accepted.clusters < N
    assert f"Accept {100 * found.accepted.value:.1f} %" in found.sentence
    assert "0.99 sure" in found.sentence
    whole = found.shares[0]
    assert whole.coverage == 1.0
    assert 0.15 < whole.risk.value < 0.35
    assert [one.low for one in found.bins] == pytest.approx([0.0, 0.4, 0.5, 0.9])


def test_a_coin_is_never_accepted_and_one_without_error_always(tmp_path: Path) -> None:
    (coin,) = abstention(planted(tmp_path / "coin", lambda rng: float(rng.uniform(0.45, 0.55))))
    assert coin.accepted.value < 0.1
    (right,) = abstention(planted(tmp_path / "right", lambda rng: float(rng.integers(0, 2))))
    assert right.accepted.value == 1.0
    assert right.threshold == 0.5
    assert right.ece.value == 0.0


def test_the_error_is_that_of_scenes_which_did_not_choose_the_border(tmp_path: Path) -> None:
    """An oracle by hand: ten folds of scenes, the border of nine applied to the tenth."""
    run = planted(tmp_path / "run", lambda rng: float(rng.uniform()))
    (found,) = abstention(run, max_error=0.1)
    assert found.error.value == pytest.approx(0.1, abs=0.06)
    assert found.error.hi > 0.1
    assert "do not show" in found.sentence
    (strict,) = abstention(run, max_error=0.02)
    assert strict.accepted.value < found.accepted.value


def test_reliability_finds_a_probability_that_is_too_high(tmp_path: Path) -> None:
    draw: Callable[[np.random.Generator], float] = lambda rng: float(rng.uniform(0.3, 1))  # noqa: E731
    (sound,) = abstention(planted(tmp_path / "sound", draw))
    (biased,) = abstention(planted(tmp_path / "biased", draw, bias=0.25))
    assert biased.ece.value == pytest.approx(0.25, abs=0.06)
    assert sound.ece.value < 0.12
    assert biased.ece.lo > sound.ece.value


def test_episodes_and_scenes_that_the_map_was_fitted_on_are_left_out(tmp_path: Path) -> None:
    (found,) = abstention(planted(tmp_path / "run", sure_or_not, fitted=45))
    assert found.n == N - 50  # ten episodes of five tasks share each scene's name, two of them a scene
    assert found.left_out == 50
    (nothing,) = abstention(planted(tmp_path / "few", sure_or_not, n=30, fitted=20))
    assert "unknown: 10 labelled episodes" in nothing.sentence
    (none,) = abstention(planted(tmp_path / "none", sure_or_not, n=20, fitted=20))
    assert none.n == 0
    assert "unknown: 0 labelled episodes" in none.sentence
    assert abstention(planted(tmp_path / "raw", sure_or_not, n=20, calibrated=False)) == []


def test_the_command_prints_it_in_every_form(tmp_path: Path) -> None:
    run = str(planted(tmp_path / "run", sure_or_not).path)
    ask = ["metrics", run, "--show", "abstention"]
    runner = CliRunner()
    for form in ("table", "markdown", "latex", "csv", "json"):
        printed = runner.invoke(app, [*ask, "--format", form])
        assert printed.exit_code == 0
        if form in ("markdown", "latex"):
            assert "automatically" in printed.stdout
    rows = json.loads(runner.invoke(app, [*ask, "--json"]).stdout)
    by_metric = {row["metric"]: row for row in rows}
    assert {"abstention:accepted", "abstention:error", "abstention:ECE", "abstention:risk"} <= set(by_metric)
    raw = str(planted(tmp_path / "raw", sure_or_not, n=20, calibrated=False).path)
    assert "stepscore calibrate" in runner.invoke(app, ["metrics", raw, "--show", "abstention"]).stdout
    assert runner.invoke(app, [*ask, "--max-error", "0.6"]).exit_code == 2
    with pytest.raises(OptionError, match="max-error"):
        abstention([], max_error=float("nan"))

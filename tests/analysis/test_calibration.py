from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import stepscore
from stepscore.analysis.calibration import calibrate
from stepscore.analysis.labelled_progress import LabelledCurve, split
from stepscore.cli.trust.calibrate import calibrate as command
from stepscore.episodes import Episode
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.errors import OptionError, UnknownNameError
from stepscore.judges.common.calibration import read_calibration, write_calibration
from stepscore.judges.topreward import TopReward
from stepscore.metrics.order import ccc
from stepscore.models import PrefixScores, ScorePrefixes
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions, Run
from tests.fakes import FakeView, episode

FRESH = CallOptions(cache=False)


def shy(request: object) -> PrefixScores:
    """A model whose log-odds rise with time, and say far too little of it."""
    assert isinstance(request, ScorePrefixes)
    times = np.array([request.video.clip.timestamps[n - 1] for n in request.lengths])  # type: ignore[union-attr]
    margin = -4 + 3 * times / 4.9
    return PrefixScores(np.stack([margin, np.zeros_like(margin)], axis=-1)[None])


def many(n: int = 24, **fields: Callable[[int], object]) -> list[Episode]:
    """Episodes of one length, each with its own video."""
    return [
        episode(
            f"e{i:02d}",
            views={"top": FakeView(mark=str(i))},
            **{name: make(i) for name, make in fields.items()},
        )
        for i in range(n)
    ]


def judge() -> TopReward:
    return TopReward(MockModel("shy", script=shy), prefixes=8)


def judged(folder: Path, episodes: list[Episode]) -> Run:
    return stepscore.score(episodes, judge(), out=folder, call_options=FRESH)


def progress_file(path: Path, episodes: list[Episode], names: tuple[str, ...] = ("",)) -> Path:
    """Labels that rise from 0 at the start to 1 at the end, a little differently for each episode."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["episode_id", "kind", "name", "start_s", "value"])
        for number, e in enumerate(episodes):
            for name in names:
                for at in np.linspace(0, 4.9, 6):
                    value = np.clip(at / 4.9 + 0.02 * math.sin(number), 0, 1)
                    writer.writerow([e.id, "progress", name, at, round(float(value), 6)])
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return judged(tmp_path_factory.mktemp("run") / "run", many())


def test_the_map_repairs_the_level_on_episodes_it_has_not_seen(run: Run, tmp_path: Path) -> None:
    made = calibrate(run, labels=progress_file(tmp_path / "l.csv", many()))
    assert (made.n_fit, made.n_held_out, made.left_out) == (12, 12, 0)
    assert made.before is not None
    assert made.before.mae.value > 0.3
    assert made.after.mae.value < 0.05
    assert made.after.ccc.value > 0.95 > 0.5 > made.before.ccc.value
    assert made.after.ece < made.before.ece
    assert made.after.mae.n == 12
    assert made.reliability.n.sum() == 12 * 8
    assert made.after.mae.lo < made.after.mae.value < made.after.mae.hi


def test_the_pooled_concordance_is_that_of_all_held_out_points(run: Run, tmp_path: Path) -> None:
    labels = progress_file(tmp_path / "l.csv", many())
    made = calibrate(run, labels=labels)
    fitted_on = set(made.fitted.fit["episodes"])
    table: dict[str, list[Any]] = {row["episode_id"]: [] for row in run.episodes().to_pylist()}
    for row in run.curves().to_pylist():
        table[row["episode_id"]].append((row["time_s"], row["progress"]))
    said, truth = [], []
    for number, e in enumerate(many()):
        if e.id not in fitted_on:
            times, scores = map(np.array, zip(*table[e.id], strict=True))
            at = np.linspace(0, 4.9, 6)
            values = np.round(np.clip(at / 4.9 + 0.02 * math.sin(number), 0, 1), 6)
            assert made.fitted.map is not None
            said += made.fitted.map.apply(scores).tolist()
            truth += np.interp(times, at, values).tolist()
    assert made.after.ccc.value == pytest.approx(ccc(said, truth))
    assert made.after.brier == pytest.approx(np.mean((np.array(said) - truth) ** 2))


def test_figures_never_come_from_the_episodes_that_were_fitted_on() -> None:
    episodes = [LabelledCurve(f"e{i}", "t", None, np.zeros(1), np.zeros(1)) for i in range(31)]
    for seed in range(5):
        for share in (0.01, 0.5, 0.99):
            fit, held = split(episodes, share, seed)
            assert fit
            assert held
            assert {e.id for e in fit}.isdisjoint(e.id for e in held)
            assert len(fit) + len(held) == 31
    assert [e.id for e in split(episodes, 0.5, 0)[0]] != [e.id for e in split(episodes, 0.5, 1)[0]]
    shuffled = split(episodes[::-1], 0.5, 0)[0]
    assert {e.id for e in shuffled} == {e.id for e in split(episodes, 0.5, 0)[0]}


def test_episodes_of_one_scene_stay_on_one_side() -> None:
    episodes = [LabelledCurve(f"e{i}", "t", str(i % 5), np.zeros(1), np.zeros(1)) for i in range(30)]
    fit, held = split(episodes, 0.5, 0)
    assert {e.pair for e in fit}.isdisjoint(e.pair for e in held)


def test_stages_of_the_run_are_the_truth_where_no_labels_are_given(tmp_path: Path) -> None:
    stages = Labels((Label("stage", "reach", 0.0, 2.0), Label("stage", "pull", 2.0, 4.9)))
    failed = stages.with_rows([Label("success", "holds", value=0.0)])
    episodes = many(20, labels=lambda i: failed if i < 5 else stages)
    run = judged(tmp_path / "run", episodes)
    made = calibrate(run)
    assert made.fitted.fit["truth"] == "stages"
    # A failure's last stage does not say how far it got; the stages before it were completed.
    assert made.left_out == 0
    scored = run.curves().to_pylist()
    known = [row for row in scored if int(row["episode_id"][1:]) >= 5 or row["time_s"] <= 2.0]
    assert made.fitted.fit["points"] + made.reliability.n.sum() == len(known) < len(scored)
    assert made.after.mae.value < 0.1


def test_moments_outside_the_labels_are_unknown(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    rows = [f"e{i:02d},progress,{at},{at / 4.9}" for i in range(24) for at in (2.0, 3.0)]
    path.write_text("\n".join(["episode_id,kind,start_s,value", *rows]))
    made = calibrate(run, labels=path)
    inside = [row for row in run.curves().to_pylist() if 2.0 <= row["time_s"] <= 3.0]
    assert made.reliability.n.sum() + made.fitted.fit["points"] == len(inside)


def test_a_channel_that_is_not_in_0_to_1_has_figures_after_the_map_alone(run: Run, tmp_path: Path) -> None:
    made = calibrate(run, labels=progress_file(tmp_path / "l.csv", many()), channel="margin")
    assert made.before is None
    assert made.fitted.channel == "margin"
    assert made.after.mae.value < 0.05


def test_a_written_map_is_applied_by_the_judge_it_was_fitted_for(run: Run, tmp_path: Path) -> None:
    made = calibrate(run, labels=progress_file(tmp_path / "l.csv", many()))
    write_calibration(made.fitted, tmp_path / "map.json")
    assert read_calibration(tmp_path / "map.json") == made.fitted
    calibrated = stepscore.score(
        many(),
        replace(judge(), calibration=tmp_path / "map.json"),
        out=tmp_path / "calibrated",
        call_options=FRESH,
    )
    assert set(calibrated.judgements().column("calibrated").to_pylist()) == {True}
    assert calibrated.protocol.hash != run.protocol.hash
    assert made.fitted.map is not None
    np.testing.assert_allclose(
        calibrated.curves().column("progress").to_numpy(),
        made.fitted.map.apply(run.curves().column("progress").to_numpy()),
    )
    with pytest.raises(OptionError, match="calibrated already"):
        calibrate(calibrated, labels=progress_file(tmp_path / "l.csv", many()))
    again = calibrate(calibrated, labels=progress_file(tmp_path / "l.csv", many()), channel="raw")
    assert again.after.mae.value == pytest.approx(made.after.mae.value)


def test_what_cannot_be_calibrated_is_refused_with_what_is_missing(run: Run, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no annotated stages"):
        calibrate(run)
    with pytest.raises(OptionError, match="needs at least 2"):
        calibrate(run, labels=progress_file(tmp_path / "one.csv", many(1)))
    two = progress_file(tmp_path / "two.csv", many(), ("a", "b"))
    with pytest.raises(OptionError, match="several potentials"):
        calibrate(run, labels=two)
    assert calibrate(run, labels=two, potential="a").n_fit == 12
    with pytest.raises(UnknownNameError, match="potential 'c'"):
        calibrate(run, labels=two, potential="c")
    with pytest.raises(UnknownNameError, match="channel 'x'"):
        calibrate(run, labels=two, potential="a", channel="x")
    with pytest.raises(OptionError, match="between 0 and 1"):
        calibrate(run, labels=two, potential="a", share=1.0)


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(command)
    return app


def test_the_command_writes_the_map_and_prints_what_it_is_worth(
    run: Run, app: typer.Typer, tmp_path: Path
) -> None:
    labels = progress_file(tmp_path / "l.csv", many())
    arguments = [str(run.path), "--labels", str(labels), "-o", str(tmp_path / "maps" / "map.json")]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "over 12 held-out episodes" in " ".join(shown.stdout.split())
    assert "concordance" in shown.stdout
    written = json.loads((tmp_path / "maps" / "map.json").read_text())
    assert written["judge"] == "topreward"
    assert written["protocol"] == run.protocol.hash
    assert len(written["fit"]["episodes"]) == written["figures"]["episodes"] == 12
    printed = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert printed["after"]["mae"]["value"] == written["figures"]["mae"]["value"]
    assert sum(row["n"] for row in printed["reliability"]) == 96

"""``stepscore sim`` writes a dataset that the spine's reader reads, with labels and subgoals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from stepscore.cli.data.sim import sim
from stepscore.episodes import open_episodes
from stepscore.errors import OptionError, UnknownNameError
from stepscore.sim import VIEWS, RenderOptions, plan_rollouts, simulate
from stepscore.sim.policies import POLICIES
from stepscore.training.embedded import tasks

app = typer.Typer()
app.command()(sim)
OPTIONS = [
    "--tasks",
    "button-press,reach",
    "--policies",
    "expert,freeze",
    "--episodes-per-task",
    "2",
    "--fps",
    "10",
]


@pytest.fixture(scope="module")
def made(simulator: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, object]]]:
    root = tmp_path_factory.mktemp("sim") / "dataset"
    given = [*OPTIONS, "--views", "corner,gripper", "--size", "64", "--json", "-o", str(root)]
    result = CliRunner().invoke(app, given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return root, json.loads(result.stdout)


def test_its_defaults_are_what_the_embedded_judge_was_trained_on() -> None:
    options = {option.name: option for option in typer.main.get_command(app).params}
    trained = {"views": tasks.VIEW, "size": tasks.SIZE, "fps": tasks.FPS}
    assert {name: options[name].default for name in trained} == trained
    assert RenderOptions() == RenderOptions((tasks.VIEW,), tasks.SIZE, tasks.FPS)
    assert "Labels depend on it" in str(getattr(options["fps"], "help", None))


def test_the_help_names_every_view_and_policy() -> None:
    # Written out in the command: reading them from the simulator would load numpy for `stepscore --help`.
    texts = {option.name: getattr(option, "help", None) for option in typer.main.get_command(app).params}
    policies = [f"{name}:{kind.unit}" if kind.unit else name for name, kind in POLICIES.items()]
    others = [view for view in VIEWS if view != "close"]
    assert texts["views"] == f"Cameras: close (the embedded judge's), {', '.join(others)}."
    assert texts["policies"] == f"{', '.join(policies)}."


def test_the_dataset_is_read_back_with_policy_pair_labels_and_subgoals(made: tuple[Path, object]) -> None:
    root, _ = made
    episodes = open_episodes(root, labels=root / "labels.parquet", subgoals=root / "subgoals.yaml")
    assert episodes.reader == "lerobot"
    assert not episodes.problems
    assert [episode.policy for episode in episodes] == ["expert", "freeze"] * 2
    assert [episode.pair for episode in episodes] == ["button-press/seed-0/scene-0000"] * 2 + [
        "reach/seed-0/scene-0000"
    ] * 2
    for episode in episodes:
        assert list(episode.views) == ["corner", "gripper"]
        assert episode.success_mode == "holds"
        assert len(episode.subgoals) == 3
        assert all(episode.labels.subgoal(subgoal.name) is not None for subgoal in episode.subgoals)
        times, progress = episode.labels.progress()
        assert episode.info is not None
        assert len(times) == episode.info.n_frames
        assert episode.labels.stages[-1].end_s == pytest.approx(episode.info.duration_s)
        assert (progress[-1] == 1.0) == episode.labels.success
    assert episodes[0].labels.success is True


def test_without_its_labels_file_success_counts_as_with_it(made: tuple[Path, object]) -> None:
    root, _ = made
    for bare, joined in zip(open_episodes(root), open_episodes(root, root / "labels.parquet"), strict=True):
        assert bare.labels.success_mode == joined.labels.success_mode == "holds"
        assert bare.labels.success == joined.labels.success


def test_every_step_has_the_positions_of_the_objects(made: tuple[Path, object]) -> None:
    root, _ = made
    data = pq.read_table(root / "data" / "chunk-000" / "file-000.parquet")
    places = np.stack(data["observation.environment_state"].to_numpy())
    assert places.dtype == np.float32
    assert places.shape[1] == 9
    (rollout,) = simulate(plan_rollouts(["button-press"], ["expert"], 1), RenderOptions((), fps=10))
    assert (places[: len(rollout.environment_states)] == rollout.environment_states.astype(np.float32)).all()


def test_its_videos_show_the_rollouts(made: tuple[Path, object]) -> None:
    root, _ = made
    plans = plan_rollouts(["button-press"], ["expert"], 1)
    (rollout,) = simulate(plans, RenderOptions(("corner",), 64, 10))
    clip = open_episodes(root)[0].clip("corner", indices=[0, len(rollout.potential) - 1])
    for decoded, rendered in zip(clip.frames, rollout.frames["corner"][[0, -1]], strict=True):
        assert np.abs(decoded.astype(int) - rendered.astype(int)).mean() < 8, "no more than the codec changes"


def test_the_command_says_how_each_policy_ended(made: tuple[Path, list[dict[str, object]]]) -> None:
    _, rows = made
    assert [(row["policy"], row["episodes"]) for row in rows] == [("expert", 2), ("freeze", 2)]
    assert rows[0]["success_end"] == 1.0


def test_wrong_names_are_answered_before_anything_is_played(tmp_path: Path) -> None:
    for given, message in (
        (["--tasks", "drawer"], "Unknown task 'drawer'"),
        (["--policies", "expert,nosiy"], "Did you mean 'noisy'"),
        (["--views", "top,corner2"], "Unknown simulator view 'corner2'"),
    ):
        with pytest.raises(UnknownNameError, match=message):
            CliRunner().invoke(app, [*given, "-o", str(tmp_path / "d")], catch_exceptions=False)
    with pytest.raises(OptionError, match="at least one"):
        CliRunner().invoke(app, ["--views", "", "-o", str(tmp_path / "d")], catch_exceptions=False)
    assert not (tmp_path / "d").exists()

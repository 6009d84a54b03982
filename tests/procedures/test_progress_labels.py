from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from stepscore.cli.data.progress_labels import progress_labels
from stepscore.episodes import Episode, Label, Labels, Stage, open_episodes
from stepscore.episodes.labels.labels import read_labels
from stepscore.episodes.labels.subgoals import Subgoal, TaskSubgoals
from stepscore.errors import StepScoreError, UnknownNameError
from stepscore.procedures.labels_table import merge_labels
from stepscore.procedures.progress_labels import (
    Outcome,
    ProgressLabelOptions,
    label_progress,
    labelled_outcome,
    why_not_in_shards,
)
from stepscore.procedures.stage_progress import sarm_progress
from tests.episodes.lerobot.datasets import dataset
from tests.fakes import episode

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(progress_labels)


def labelled(
    name: str, *stages: tuple[str, float, float], success: dict[str, float] | None = None
) -> Episode:
    rows = [Label("stage", *stage) for stage in stages]
    rows += [Label("success", mode, value=value) for mode, value in (success or {}).items()]
    return episode(name, labels=Labels(tuple(rows)))


DONE, FAILED = {"holds": 1.0}, {"holds": 0.0}
GOOD = labelled("a", ("reach", 0, 2), ("lift", 2, 5), success=DONE)
SHORT = labelled("b", ("reach", 0, 5), success=FAILED)


@pytest.mark.parametrize("method", ["procvlm", "sarm", "robust", "linear"])
def test_every_method_labels_every_frame_in_0_to_1(method: str) -> None:
    made = label_progress([GOOD, SHORT], ProgressLabelOptions(method))  # type: ignore[arg-type]
    assert made.errors == {}
    for one in made.progress.values():
        assert one.progress.shape == one.times.shape == (50,)
        assert np.all((one.progress >= 0) & (one.progress <= 1))
    # The clip ends one frame before the last stage does, but for robust a success ends at 1.
    assert made.progress["a"].progress[-1] == pytest.approx(1.0, abs=0.04)


def test_sarm_shares_are_those_of_the_successes_alone() -> None:
    made = label_progress([GOOD, SHORT], ProgressLabelOptions("sarm"))
    expected = sarm_progress(
        [Stage("reach", 0, 2), Stage("lift", 2, 5)], {"reach": 0.4, "lift": 0.6}, made.progress["a"].times
    )
    assert made.progress["a"].progress == pytest.approx(expected)


def test_shares_may_be_equal_or_sarms_for_either_method() -> None:
    equal = label_progress([GOOD], ProgressLabelOptions("sarm", "equal")).progress["a"].progress
    assert equal[20] == pytest.approx(0.5)
    by_time = label_progress([GOOD], ProgressLabelOptions("robust", "lerobot")).progress["a"].progress
    assert by_time[19] <= by_time[20] <= 0.4 + 0.6 / 10


def test_failures_scale_in_procvlm_and_stop_in_robust_labels() -> None:
    procvlm = label_progress([GOOD, SHORT], ProgressLabelOptions("procvlm")).progress["b"].progress
    assert procvlm[-1] == pytest.approx(0.75 * 48 / 49, abs=0.002)
    robust = label_progress([GOOD, SHORT], ProgressLabelOptions("robust")).progress["b"].progress
    assert robust.max() < 0.5


def test_an_episode_without_a_success_label_is_not_guessed() -> None:
    silent = labelled("c", ("reach", 0, 2), ("lift", 2, 5))
    made = label_progress([silent], ProgressLabelOptions("robust"))
    assert "--assume-success" in made.errors["c"]
    assumed = label_progress([silent], ProgressLabelOptions("robust", assume_success=True))
    assert assumed.progress["c"].progress[-1] == 1
    assert label_progress([silent], ProgressLabelOptions("sarm")).errors == {}


def test_success_at_some_time_is_success_at_the_end_only_if_the_last_stage_came_last() -> None:
    ever = {"ever": 1.0}
    ended = labelled("d", ("reach", 0, 2), ("lift", 2, 5), success=ever)
    undone = labelled("e", ("reach", 0, 1), ("lift", 1, 3), ("reach", 3, 5), success=ever)
    made = label_progress([ended, undone], ProgressLabelOptions("robust")).progress
    assert made["d"].progress[-1] == 1
    assert made["e"].progress[-1] <= 0.5


def test_success_labels_are_read_by_what_they_speak_of() -> None:
    def said(**values: float) -> Outcome:
        return labelled_outcome(
            Labels(tuple(Label("success", mode, value=value) for mode, value in values.items()))
        )

    assert said() == (None, None)
    assert said(ever=1.0, holds=0.0) == (False, True)
    assert said(holds=1.0) == (True, True)
    assert said(ever=0.0) == (False, False)
    assert said(ever=1.0) == (None, True)
    assert said(holds=0.0) == (False, None)
    assert said(ever=0.0, holds=1.0) == (True, True)


def test_the_time_in_which_the_last_subgoal_is_true_belongs_to_no_stage() -> None:
    rows = [
        Label("stage", "reach", 0, 1),
        Label("stage", "lift", 1, 5),
        Label("subgoal", "it is up", 2, 4, 1.0),
        Label("subgoal", "it is up", 4, 5, 0.0),
        Label("success", "ever", value=1.0),
        Label("success", "holds", value=0.0),
    ]
    goals = (Subgoal("it is held"), Subgoal("it is up"))
    known = episode("f", labels=Labels(tuple(rows)), subgoals=goals)
    made = label_progress([known], ProgressLabelOptions("sarm", "equal")).progress["f"].progress
    assert made[19] == pytest.approx(0.95)
    assert made[20:40].tolist() == pytest.approx([0.9995] * 20)
    robust = label_progress([known], ProgressLabelOptions("robust")).progress["f"].progress
    assert robust[20:40].tolist() == [1.0] * 20
    assert robust[-1] < 1


def test_one_bad_episode_does_not_cost_the_others() -> None:
    bad = labelled("bad", ("reach", 0, 3), ("lift", 2, 5), success=DONE)
    long = labelled("long", ("reach", 0, 9), success=DONE)
    made = label_progress([bad, episode("none", labels=Labels()), long, GOOD], ProgressLabelOptions("sarm"))
    assert list(made.progress) == ["a"]
    assert "overlap" in made.errors["bad"]
    assert "leaves the episode" in made.errors["long"]
    assert "no stage labels" in made.errors["none"]


def test_a_vocabulary_is_closed_and_gives_the_order() -> None:
    words = {"*": TaskSubgoals((Subgoal("lift"), Subgoal("reach")))}
    made = label_progress([GOOD], ProgressLabelOptions("sarm"), words)
    assert [note.kind for note in made.notes["a"]] == ["wrong order"]
    assert made.progress["a"].progress[10] > 0.5  # reaching comes second there
    other = {"*": TaskSubgoals((Subgoal("reach"), Subgoal("raise")))}
    assert "unknown name" in label_progress([GOOD], ProgressLabelOptions("sarm"), other).errors["a"]
    missing = {"close the door": TaskSubgoals((Subgoal("reach"),))}
    assert (
        "no task 'open the drawer'"
        in label_progress([GOOD], ProgressLabelOptions("sarm"), missing).errors["a"]
    )


def test_options_that_do_not_exist_are_named() -> None:
    with pytest.raises(UnknownNameError, match=r"method 'sram'\. Did you mean 'sarm'"):
        ProgressLabelOptions("sram")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="prior 'mine'"):
        ProgressLabelOptions("sarm", "mine")  # type: ignore[arg-type]
    assert "view 'side'" in label_progress([GOOD], ProgressLabelOptions("sarm", view="side")).errors["a"]


def test_labels_at_a_lower_rate_keep_the_last_frame() -> None:
    made = label_progress([GOOD], ProgressLabelOptions("robust")).progress["a"]
    rows = made.rows("robust", "me", fps=2)
    assert [row.start_s for row in rows] == pytest.approx([*np.arange(0, 5, 0.5), 4.9])
    assert rows[-1].value == 1
    assert len(made.rows("robust", "me")) == 50


def test_the_command_labels_the_real_episode(shared_data: Path, tmp_path: Path) -> None:
    file = tmp_path / "labels.parquet"
    arguments = [str(shared_data / "multiview"), "--method", "sarm", "--fps", "1", "-o", str(file)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    rows = read_labels(file)["episode_001"]
    assert {row.name for row in rows} == {"sarm"}
    assert rows[0].value == 0
    assert rows[-1].value > 0.999
    (joined,) = open_episodes(shared_data / "multiview", labels=file)
    assert len(joined.labels.progress()[0]) == len(rows)
    again = CliRunner().invoke(app, arguments)
    assert isinstance(again.exception, StepScoreError)
    assert "--force" in str(again.exception)


def test_the_command_names_stages_that_the_reader_could_not_use(tmp_path: Path) -> None:
    columns = {"names": ["reach", "lift"], "start_frames": [0, 2], "end_frames": [3, 6]}
    extras = {f"sparse_subtask_{name}": values for name, values in columns.items()}
    good = {**extras, "sparse_subtask_start_frames": [0, 3]}
    root = dataset(tmp_path / "d", lengths=(7, 7), extras=[extras, good])
    file = tmp_path / "labels.parquet"
    result = CliRunner().invoke(app, [str(root), "--method", "robust", "-o", str(file)])
    assert result.exit_code == 1
    assert "no sparse stages" in result.output
    assert "overlaps 'reach'" in result.output.replace("\n", " ")
    assert list(read_labels(file)) == ["episode_000001"]


def test_the_command_refuses_what_cannot_be_labelled(shared_data: Path, tmp_path: Path) -> None:
    file = tmp_path / "labels.parquet"
    source = str(shared_data / "multiview")
    result = CliRunner().invoke(app, [source, "--method", "robust", "-o", str(file)])
    assert "No episode" in str(result.exception)
    assert "--assume-success" in str(result.exception)
    assert not file.exists()
    result = CliRunner().invoke(app, [source, "--method", "sarm", "--fps", "0", "-o", str(file)])
    assert result.exit_code == 2
    assert "--fps" in result.output


def test_shards_are_labelled_as_all_episodes_together(tmp_path: Path) -> None:
    columns = {"names": ["reach", "lift"], "start_frames": [0, 3], "end_frames": [3, 6]}
    extras = {f"sparse_subtask_{name}": values for name, values in columns.items()}
    root = dataset(tmp_path / "d", lengths=(7, 7, 7), extras=[extras] * 3)
    words = tmp_path / "words.yaml"
    words.write_text("tasks: {'*': {subgoals: [reach, lift]}}\n")

    def label(name: str, *more: str) -> Path:
        command = [str(root), "--method", "procvlm", "--vocabulary", str(words), "--assume-success"]
        result = CliRunner().invoke(app, [*command, "-o", str(tmp_path / name), *more])
        assert result.exit_code == 0, result.output
        return tmp_path / name

    parts = [label(f"{index}.parquet", "--shard", f"{index}/4") for index in (1, 2, 3, 4)]
    assert [len(read_labels(part)) for part in parts] == [0, 1, 1, 1]
    merged = merge_labels(parts, tmp_path / "merged.parquet")
    assert (merged.files, merged.episodes, merged.rows, merged.repeated) == (4, 3, 21, 0)
    assert (tmp_path / "merged.parquet").read_bytes() == label("whole.parquet").read_bytes()


@pytest.mark.parametrize(
    ("method", "prior", "named", "why"),
    [
        ("linear", None, False, None),
        ("procvlm", None, True, None),
        ("procvlm", None, False, "--vocabulary"),
        ("sarm", None, True, "shares of progress"),
        ("sarm", "equal", True, None),
        ("sarm", "equal", False, "--vocabulary"),
        ("robust", None, True, "usual change"),
    ],
)
def test_what_needs_all_episodes_of_a_task_is_not_labelled_in_shards(
    method: str, prior: str | None, named: bool, why: str | None
) -> None:
    words = {"*": TaskSubgoals((Subgoal("reach"), Subgoal("lift")))} if named else None
    options = ProgressLabelOptions(method, prior, assume_success=True)  # type: ignore[arg-type]
    said = why_not_in_shards(options, words)
    assert said is None if why is None else why in str(said)
    if said is None:
        longer = labelled("c", ("reach", 0, 4), ("lift", 4, 5), success=DONE)
        together = label_progress([GOOD, SHORT, longer], options, words).progress
        for one in (GOOD, SHORT, longer):
            alone = label_progress([one], options, words).progress[one.id]
            assert alone.progress.tolist() == together[one.id].progress.tolist()


def test_the_command_refuses_a_shard_of_what_needs_all_episodes(tmp_path: Path) -> None:
    command = [str(tmp_path), "--method", "sarm", "--shard", "1/2", "-o", str(tmp_path / "l.parquet")]
    assert "--prior equal" in str(CliRunner().invoke(app, command).exception)

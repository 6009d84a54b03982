"""A run in a script and a notebook, and a run folder of another version."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import stepscore
from stepscore.episodes import Label, Labels
from stepscore.errors import MissingExtraError, RunError, UnknownNameError
from stepscore.runs import Run
from tests.fakes import episode


@pytest.fixture
def run(tmp_path: Path) -> Run:
    judge = stepscore.get_judge("linear-time", points=4)
    return stepscore.score([episode(f"e{i}") for i in range(3)], judge, out=tmp_path / "<run>")


def change_info(run: Run, **fields: object) -> None:
    file = run.path / "run.json"
    info = {**json.loads(file.read_text()), **fields}
    file.write_text(json.dumps({name: value for name, value in info.items() if value is not None}))


class TestFormat:
    def test_a_run_folder_states_its_format(self, run: Run) -> None:
        assert run.info["format"] == 1

    def test_a_folder_without_a_format_is_of_the_first(self, run: Run) -> None:
        change_info(run, format=None)
        assert stepscore.open_run(run.path).curves().num_rows == 12

    def test_a_newer_format_is_refused_with_the_version_that_reads_it(self, run: Run) -> None:
        change_info(run, format=7, versions={"stepscore": "9.1.0"})
        with pytest.raises(RunError) as caught:
            stepscore.open_run(run.path)
        message = str(caught.value)
        assert "has format 7" in message
        assert f"stepscore {stepscore.__version__} reads formats up to 1" in message
        assert "Install stepscore 9.1.0, which wrote it, or a newer one: pip install" in message

    def test_a_newer_format_is_not_resumed_either(self, run: Run) -> None:
        change_info(run, format=2, versions=None)
        with pytest.raises(RunError, match="Install the version that wrote it or a newer one"):
            stepscore.score([episode("e0")], stepscore.get_judge("linear-time", points=4), out=run.path)

    def test_a_format_that_is_not_a_number_is_named(self, run: Run) -> None:
        change_info(run, format="two")
        with pytest.raises(RunError, match="invalid format 'two'"):
            stepscore.open_run(run.path)


class TestNotebook:
    def test_its_repr_says_episodes_judge_model_and_protocol(self, run: Run) -> None:
        assert repr(run) == (
            f"Run({str(run.path)!r}, episodes=3, judge='linear-time', model=None, "
            f"protocol={run.protocol.hash!r})"
        )

    def test_its_html_says_the_same_and_the_tables(self, run: Run) -> None:
        text = run._repr_html_()
        for part in ("linear-time", run.protocol.hash, "curves (12 rows)", "&lt;run&gt;"):
            assert part in text
        assert "<run>" not in text

    def test_every_table_is_a_data_frame(self, run: Run) -> None:
        pandas = pytest.importorskip("pandas")
        curves = run.to_pandas("curves")
        pandas.testing.assert_frame_equal(curves, run.curves().to_pandas())
        assert list(curves.columns) == ["episode_id", "time_s", "progress"]
        assert len(run.to_pandas("calls")) == 0

    def test_a_wrong_table_lists_the_valid_ones(self, run: Run) -> None:
        with pytest.raises(UnknownNameError, match="Did you mean 'curves'"):
            run.to_pandas("curve")

    def test_without_pandas_the_extra_is_named(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'stepscore\[pandas\]'"):
            run.to_pandas("curves")


class TestLabelledProgress:
    def test_it_is_a_table_by_episode_name_and_time(self, tmp_path: Path) -> None:
        rows = (
            Label("progress", "robust", 1.0, value=0.25),
            Label("progress", "potential", 2.0, value=1.0),
            Label("progress", "potential", 0.0),
            Label("progress", "potential", 1.0, value=7.0),
        )
        run = stepscore.score(
            [episode("b", labels=Labels(rows)), episode("a")],
            stepscore.get_judge("linear-time"),
            out=tmp_path / "run",
        )
        found = run.labelled_progress().to_pydict()
        assert found == {
            "episode_id": ["b"] * 4,
            "name": ["potential", "potential", "potential", "robust"],
            "time_s": [0.0, 1.0, 2.0, 1.0],
            "progress": [None, None, 1.0, 0.25],  # what is not in 0..1 is unknown
        }

    def test_labels_that_change_are_taken_over_without_judging_again(self, tmp_path: Path) -> None:
        judge = stepscore.get_judge("linear-time")
        stepscore.score([episode("a")], judge, out=tmp_path / "run")
        labels = Labels((Label("progress", "potential", 0.0, value=0.5),))
        run = stepscore.score([episode("a", labels=labels)], judge, out=tmp_path / "run")
        assert run.info["last"]["reused"] == 1
        assert run.labelled_progress().column("progress").to_pylist() == [0.5]

    def test_a_folder_from_before_the_table_opens_and_has_none(self, tmp_path: Path) -> None:
        run = stepscore.score([episode("a")], stepscore.get_judge("linear-time"), out=tmp_path / "run")
        assert b"labelled_progress" not in (run.path / "journal.jsonl").read_bytes()
        (run.path / "labelled_progress.parquet").unlink()
        assert stepscore.open_run(run.path).labelled_progress().num_rows == 0

    @pytest.mark.parametrize(
        ("points", "message"),
        [
            ({"time_s": [0.0], "progress": [0.1, 0.2]}, "1 times, but 2 values"),
            ({"time_s": [1.0, 1.0], "progress": [0.1, 0.2]}, "Times should be increasing"),
            ({"time_s": [1.0], "progress": [1.5]}, "less than or equal to 1"),
        ],
    )
    def test_a_line_that_breaks_it_is_damaged(
        self, tmp_path: Path, points: dict[str, list[float]], message: str
    ) -> None:
        run = stepscore.score([episode("a")], stepscore.get_judge("linear-time"), out=tmp_path / "run")
        path = run.path / "journal.jsonl"
        record = json.loads(path.read_text())
        record["episode"]["labelled_progress"] = {"potential": points}
        path.write_text(json.dumps(record) + "\n")
        with pytest.raises(RunError, match=message):
            stepscore.open_run(run.path)

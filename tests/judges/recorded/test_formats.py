from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscore.episodes.readers.curve_rows import Rows, read_rows
from stepscore.errors import CurveError
from stepscore.judges.recorded.formats import RecordedCurve, parse_pred_vllm, parse_rows

FILE = Path("pred_vllm.json")


def table(tmp_path: Path, text: str, name: str = "x.curve.csv") -> Rows:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_rows(path)


def jsonl(tmp_path: Path, *rows: object) -> Rows:
    return table(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "x.curve.jsonl")


def lerobot(tmp_path: Path, metadata: dict[str, str] | None = None, **columns: list[float | None]) -> Rows:
    frames = list(range(len(next(iter(columns.values())))))
    whole = {"index": frames, "episode_index": [0] * len(frames), "frame_index": frames, **columns}
    stored = pa.table(whole).replace_schema_metadata(metadata or {})
    pq.write_table(stored, tmp_path / "sarm_progress.parquet")
    return read_rows(tmp_path / "sarm_progress.parquet")


def values(curve: RecordedCurve) -> list[float]:
    assert curve.values is not None
    return curve.values.tolist()


class TestStepMetrics:
    HEAD = "Step,StepProgress,EpisodeSuccess,M25,MP\n"

    def test_is_one_value_per_row_without_times_and_without_its_metrics(self, tmp_path: Path) -> None:
        curve = parse_rows(table(tmp_path, self.HEAD + "1,0.029,1,0.0,2.9\n2,0.5,1,100.0,50.0\n"))
        assert values(curve) == [0.029, 0.5]
        assert curve.times is None
        assert curve.frames is None
        assert curve.channels == {}
        assert math.isnan(curve.success_score)

    def test_another_column_may_be_progress_when_it_is_named(self, tmp_path: Path) -> None:
        assert values(parse_rows(table(tmp_path, self.HEAD + "1,0.1,1,0,2.9\n"), "MP")) == [2.9]

    @pytest.mark.parametrize("body", ["1,.1,1,0,1\n3,.2,1,0,1\n", "2,.1,1,0,1\n", "1,.1,1,0,1\n1,.2,1,0,1\n"])
    def test_a_missing_or_repeated_step_is_an_error(self, tmp_path: Path, body: str) -> None:
        with pytest.raises(CurveError, match=r"x\.curve\.csv, row \d: Step is"):
            parse_rows(table(tmp_path, self.HEAD + body))

    def test_a_header_alone_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(CurveError, match="has no rows"):
            parse_rows(table(tmp_path, self.HEAD))


class TestPlain:
    def test_time_s_and_progress(self, tmp_path: Path) -> None:
        curve = parse_rows(table(tmp_path, "time_s,progress\n0.5,0.1\n1.0,0.9\n"))
        assert values(curve) == [0.1, 0.9]
        assert curve.times is not None
        assert curve.times.tolist() == [0.5, 1.0]

    @pytest.mark.parametrize("name", ["frame", "frame_index"])
    def test_frame_and_progress(self, tmp_path: Path, name: str) -> None:
        curve = parse_rows(table(tmp_path, f"{name},progress\n3,0.1\n7,0.9\n"))
        assert curve.frames is not None
        assert curve.frames.tolist() == [3, 7]
        assert curve.times is None

    def test_with_both_the_seconds_count_and_the_frame_is_a_channel(self, tmp_path: Path) -> None:
        curve = parse_rows(table(tmp_path, "time_s,frame,progress\n0.5,3,0.1\n1.0,7,0.9\n"))
        assert curve.times is not None
        assert curve.frames is None
        assert curve.channels["frame"].tolist() == [3, 7]

    @pytest.mark.parametrize("empty", ["", "nan", "NaN", "null", "  "])
    def test_an_empty_cell_is_unknown_and_keeps_its_row(self, tmp_path: Path, empty: str) -> None:
        curve = parse_rows(table(tmp_path, f"time_s,progress\n0.5,0.1\n1.0,{empty}\n1.5,0.3\n"))
        np.testing.assert_array_equal(values(curve), [0.1, math.nan, 0.3])

    def test_an_empty_line_of_a_single_column_is_an_unknown_value(self, tmp_path: Path) -> None:
        np.testing.assert_array_equal(
            values(parse_rows(table(tmp_path, "progress\n.1\n\n.3\n"))), [0.1, math.nan, 0.3]
        )

    @pytest.mark.parametrize("cell", ["done", "0,5", "50%", "1_0", "True", "none", "--"])
    def test_text_where_a_number_should_be_is_an_error_that_names_the_cell(
        self, tmp_path: Path, cell: str
    ) -> None:
        with pytest.raises(CurveError, match=r"x\.curve\.csv, row 2, column progress: .* is not a number"):
            parse_rows(table(tmp_path, f'time_s,progress\n0.5,0.1\n1.0,"{cell}"\n'))

    @pytest.mark.parametrize("cell", [True, "abc", [0.5], {"p": 0.5}, 10**400])
    def test_json_that_is_no_number_is_an_error(self, tmp_path: Path, cell: object) -> None:
        with pytest.raises(CurveError, match="row 2, column progress"):
            parse_rows(jsonl(tmp_path, {"time_s": 0, "progress": 0.5}, {"time_s": 1, "progress": cell}))

    def test_infinite_progress_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(CurveError, match="row 1, column progress: infinite"):
            parse_rows(table(tmp_path, "time_s,progress\n0.5,inf\n"))

    @pytest.mark.parametrize("times", ["0.5,0.5", "0.5,0.4", "0.5,", "0.5,nan", "-1,0", "0,inf"])
    def test_times_must_be_there_and_increase(self, tmp_path: Path, times: str) -> None:
        first, second = times.split(",")
        with pytest.raises(CurveError, match=r"x\.curve\.csv, row [12]: time_s"):
            parse_rows(table(tmp_path, f"time_s,progress\n{first},0.1\n{second},0.2\n"))

    @pytest.mark.parametrize("frames", ["5,5", "5,4", "5,", "5,5.5", "-1,0"])
    def test_frames_must_be_whole_and_increase(self, tmp_path: Path, frames: str) -> None:
        first, second = frames.split(",")
        with pytest.raises(CurveError, match=r"row [12]: frame"):
            parse_rows(table(tmp_path, f"frame,progress\n{first},0.1\n{second},0.2\n"))

    def test_further_numeric_columns_are_channels_and_text_is_not(self, tmp_path: Path) -> None:
        curve = parse_rows(
            table(tmp_path, "time_s,progress,logp,note,policy,success\n0,.1,-3.5,ok,pi0,1\n1,.2,,bad,pi0,1\n")
        )
        assert set(curve.channels) == {"logp"}
        np.testing.assert_array_equal(curve.channels["logp"], [-3.5, math.nan])

    def test_a_column_that_mixes_numbers_and_text_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(CurveError, match="row 2, column logp: 'x' is not a number"):
            parse_rows(table(tmp_path, "time_s,progress,logp\n0,.1,-3.5\n1,.2,x\n"))

    @pytest.mark.parametrize("name", ["timestamp", "t", "Time", "frame_id"])
    def test_a_column_that_means_time_under_another_name_is_not_passed_over(
        self, tmp_path: Path, name: str
    ) -> None:
        with pytest.raises(CurveError, match=f"but {name!r}. Rename it"):
            parse_rows(table(tmp_path, f"{name},progress\n0,.1\n1,.2\n"))

    def test_the_progress_column_may_be_named(self, tmp_path: Path) -> None:
        curve = parse_rows(table(tmp_path, "time_s,progress,vlac\n0,.1,.7\n1,.2,.8\n"), "vlac")
        assert values(curve) == [0.7, 0.8]
        assert curve.channels == {}

    def test_a_wrong_column_lists_the_right_ones(self, tmp_path: Path) -> None:
        with pytest.raises(
            CurveError, match=r"no column 'progres'. Did you mean 'progress'\? It has: time_s, progress"
        ):
            parse_rows(table(tmp_path, "time_s,progress\n0,.1\n"), "progres")

    def test_a_table_of_something_else_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(CurveError, match="It has: reward, done"):
            parse_rows(table(tmp_path, "reward,done\n1,0\n"))

    @pytest.mark.parametrize(
        "text", ["", "\n", "time_s,progress\n", "time_s,progress\n0,.1,7\n", "time_s,progress\n0\n"]
    )
    def test_an_empty_or_ragged_file_is_an_error(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(CurveError, match=r"x\.curve\.csv"):
            parse_rows(table(tmp_path, text))

    def test_a_column_that_stands_twice_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(CurveError, match="'progress' appears twice"):
            table(tmp_path, "progress,progress\n.1,.2\n")

    def test_the_three_file_types_say_the_same(self, tmp_path: Path) -> None:
        columns = {"time_s": [0.0, 0.5, 1.0], "progress": [0.1, None, 0.3], "logp": [-1.0, -2.0, None]}
        pq.write_table(pa.table(columns), tmp_path / "x.curve.parquet")
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        text = io.StringIO()
        writer = csv.DictWriter(text, list(columns))
        writer.writeheader()
        writer.writerows(rows)
        curves = [
            parse_rows(read_rows(tmp_path / "x.curve.parquet")),
            parse_rows(jsonl(tmp_path, *rows)),
            parse_rows(table(tmp_path, text.getvalue())),
        ]
        for curve in curves:
            np.testing.assert_array_equal(values(curve), [0.1, math.nan, 0.3])
            assert curve.times is not None
            np.testing.assert_array_equal(curve.times, [0, 0.5, 1])
            np.testing.assert_array_equal(curve.channels["logp"], [-1, -2, math.nan])


class TestVerdicts:
    def test_curve_rows_and_verdict_rows_may_stand_in_one_file(self, tmp_path: Path) -> None:
        curve = parse_rows(
            jsonl(
                tmp_path,
                {"time_s": 0.5, "progress": 0.2},
                {"subgoal": "grasp", "answer": "yes", "score": 0.9, "when_s": 3.5, "why": "the cup is held"},
                {"subgoal": "place", "answer": "no"},
                {"time_s": 1.0, "progress": None},
                {"success_score": 0.25},
            )
        )
        np.testing.assert_array_equal(values(curve), [0.2, math.nan])
        assert curve.rows.tolist() == [1, 4]
        grasp, place = curve.verdicts
        assert (grasp.subgoal, grasp.answer, grasp.score, grasp.when_s) == ("grasp", "yes", 0.9, 3.5)
        assert grasp.why == "the cup is held"
        assert (place.answer, math.isnan(place.score), math.isnan(place.when_s)) == ("no", True, True)
        assert curve.success_score == 0.25
        assert curve.channels == {}

    def test_a_table_of_verdicts_has_no_curve(self, tmp_path: Path) -> None:
        curve = parse_rows(table(tmp_path, 'subgoal,answer,why\ngrasp,Yes,"held,\nthen dropped"\nplace,,\n'))
        assert curve.values is None
        assert [v.answer for v in curve.verdicts] == ["yes", "unknown"]
        assert curve.verdicts[0].why == "held,\nthen dropped"

    def test_without_a_subgoal_a_score_is_a_channel(self, tmp_path: Path) -> None:
        assert set(parse_rows(table(tmp_path, "time_s,progress,score\n0,.1,.5\n")).channels) == {"score"}

    @pytest.mark.parametrize(
        ("row", "wrong"),
        [
            ({"subgoal": "g", "answer": "maybe"}, "answer must be yes, no or unknown, got 'maybe'"),
            ({"subgoal": "g", "answer": True}, "unknown, got 'True'"),
            ({"subgoal": "g", "answer": "yes", "score": 1.2}, "score must be from 0 to 1 or empty, got 1.2"),
            ({"subgoal": "g", "answer": "yes", "score": "high"}, "column score: 'high' is not a number"),
            ({"subgoal": "g", "answer": "yes", "when_s": -1}, "or empty, got -1"),
            (
                {"subgoal": "g", "answer": "yes", "progress": 0.5},
                "a point of the curve or a verdict, not both",
            ),
            ({"subgoal": "grasp", "answer": "no"}, "a second verdict on subgoal 'grasp'"),
            ({"success_score": 2}, "success_score must be from 0 to 1, got 2"),
            ({"success_score": 0.5}, "success_score is 0.5, but 1 in row 1"),
            ({"progres": 0.5}, "has no 'progress', 'subgoal' or 'success_score'"),
        ],
    )
    def test_a_wrong_row_is_an_error_that_names_it(
        self, tmp_path: Path, row: dict[str, object], wrong: str
    ) -> None:
        first = {"subgoal": "grasp", "answer": "yes", "success_score": 1.0}
        with pytest.raises(CurveError) as caught:
            parse_rows(jsonl(tmp_path, first, row))
        assert wrong in str(caught.value)
        assert "x.curve.jsonl, row 2" in str(caught.value)

    def test_subgoals_without_answers_are_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(CurveError, match="no 'answer'"):
            parse_rows(table(tmp_path, "subgoal,score\ngrasp,0.5\n"))


class TestLeRobotProgress:
    def test_progress_is_the_sparse_head_and_dense_a_channel(self, tmp_path: Path) -> None:
        curve = parse_rows(
            lerobot(tmp_path, progress_sparse=[0.0, None, 1.0], progress_dense=[0.1, 0.2, 0.3])
        )
        np.testing.assert_array_equal(values(curve), [0, math.nan, 1])
        assert curve.frames is not None
        assert curve.frames.tolist() == [0, 1, 2]
        assert {name: series.tolist() for name, series in curve.channels.items()} == {
            "dense": [0.1, 0.2, 0.3]
        }

    def test_the_dense_head_may_be_chosen(self, tmp_path: Path) -> None:
        rows = lerobot(tmp_path, progress_sparse=[0.0, 1.0], progress_dense=[0.1, 0.2])
        curve = parse_rows(rows, "progress_dense")
        assert values(curve) == [0.1, 0.2]
        assert curve.channels["sparse"].tolist() == [0.0, 1.0]
        with pytest.raises(CurveError, match="-J column=progress_dense"):
            parse_rows(lerobot(tmp_path, progress_dense=[0.1, 0.2]))

    def test_topreward_is_scaled_per_episode_and_so_is_no_progress_unless_asked_for(
        self, tmp_path: Path
    ) -> None:
        rows = lerobot(tmp_path, {"vlm_name": "Qwen/Qwen3-VL-8B-Instruct"}, progress_sparse=[0.0, 0.5, 1.0])
        curve = parse_rows(rows)
        assert np.all(np.isnan(values(curve)))
        assert curve.channels["minmax"].tolist() == [0.0, 0.5, 1.0]
        assert values(parse_rows(rows, "progress_sparse")) == [0.0, 0.5, 1.0]

    def test_without_frame_index_rows_cannot_be_placed(self, tmp_path: Path) -> None:
        with pytest.raises(CurveError, match="no column 'frame_index'"):
            parse_rows(table(tmp_path, "index,episode_index,progress_sparse\n0,0,0.5\n"))


class TestPredVllm:
    @staticmethod
    def sample(frame: int, pred: str, hop: float, progress: object) -> dict[str, object]:
        shown = [f"cache/cam_high/frame_{n:06d}.png" for n in (0, 999, 0, 0, 0, frame, frame, frame)]
        return {
            "id": f"step-26-01-01_backward_mode_fold-0000-goal-af_{frame:06d}",
            "task": "fold",
            "image": shown,
            "pred": pred,
            "hop": hop,
            "progress": progress,
        }

    def test_each_sample_is_a_point_at_its_after_frame(self) -> None:
        items = [
            self.sample(10, "<score>-90%</score>", 0.1, 0.1),
            self.sample(20, "<score>-40.5%</score>", 0.495, 0.595),
        ]
        curve = parse_pred_vllm(items, FILE)
        assert values(curve) == [0.1, 0.595]
        assert curve.frames is not None
        assert curve.frames.tolist() == [10, 20]
        assert set(curve.channels) == {"hop"}

    @pytest.mark.parametrize(
        "answer", ["<score>-25.0.0.5.6.6</score>", "I cannot tell", "", "<score>nan</score>", None]
    )
    def test_a_broken_answer_is_unknown_though_the_file_says_finished(self, answer: str) -> None:
        items = [self.sample(10, "<score>-90%</score>", 0.1, 0.1), self.sample(20, answer, 0.9, 1.0)]
        curve = parse_pred_vllm(items, FILE)
        np.testing.assert_array_equal(values(curve), [0.1, math.nan])
        assert curve.channels["written"].tolist() == [0.1, 1.0]

    @pytest.mark.parametrize("unknown", [None, "Error", math.nan])
    def test_no_progress_is_unknown(self, unknown: object) -> None:
        curve = parse_pred_vllm([self.sample(10, "<score>+1%</score>", 0.0, unknown)], FILE)
        assert math.isnan(values(curve)[0])
        assert "written" not in curve.channels

    def test_the_frame_is_taken_from_the_image_where_the_id_has_none(self) -> None:
        item = {**self.sample(30, "<score>+1%</score>", 0.0, 0.01), "id": "7"}
        frames = parse_pred_vllm([item], FILE).frames
        assert frames is not None
        assert frames.tolist() == [30]

    def test_bare_numbers_are_a_curve_without_times(self) -> None:
        curve = parse_pred_vllm([0.1, 0.5, None], FILE)
        np.testing.assert_array_equal(values(curve), [0.1, 0.5, math.nan])
        assert curve.frames is None
        assert curve.channels == {}

    @pytest.mark.parametrize(
        "items",
        [[], {}, "x", None, [{}], ["x"], [[0.5]], [{"progress": "high"}], [{"progress": True}], [math.inf]],
    )
    def test_anything_else_is_an_error_that_names_the_file(self, items: object) -> None:
        with pytest.raises(CurveError, match=r"pred_vllm\.json"):
            parse_pred_vllm(items, FILE)

    def test_frames_in_some_samples_only_or_out_of_order_are_an_error(self) -> None:
        first, second = (self.sample(n, "<score>+1%</score>", 0.0, 0.01) for n in (10, 20))
        with pytest.raises(CurveError, match="row 2: frame"):
            parse_pred_vllm([first, {"progress": 0.5}], FILE)
        with pytest.raises(CurveError, match="row 2: frame 10 does not come after 20"):
            parse_pred_vllm([second, first], FILE)

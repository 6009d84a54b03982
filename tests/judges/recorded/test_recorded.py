from __future__ import annotations

import csv
import json
import math
import pickle
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.episodes import Episode, Subgoal, open_episodes
from stepscore.episodes.readers import curve_groups
from stepscore.errors import CurveError, OptionError
from stepscore.judges import get_judge
from stepscore.judges.recorded.judge import Recorded
from stepscore.types import Curve
from tests.judges.fake_view import judged, rollout
from tests.paths import DOCS

# Frames, rate and interval of the real rollouts; the interval is stored nowhere, and follows from the rule.
ROLLOUTS = {
    "Libero/Pick up the black bowl between the plate and the ramekin and place it on the plate": (79, 10, 10),
    "Libero/Pick up the book and place it in the back compartment of the caddy": (209, 10, 10),
    "RoboCasa/Close the cabinet doors": (47, 20, 1),
    "RoboCasa/Open the right drawer": (75, 20, 1),
    "RoboCasa/Turn off the sink faucet": (34, 20, 1),
    "RoboChallenge/Arrange flowers": (5615, 24, 73),
    "RoboChallenge/Fold dishcloth": (5759, 24, 72),
    "RoboChallenge/Move objects into the box": (3455, 24, 72),
    "RoboTwin/Handover block": (289, 10, 10),
    "RoboTwin/Rank RGB blocks": (489, 10, 10),
    "SimplerEnv/Close bottom drawer": (53, 5, 3),
    "SimplerEnv/Put carrot on plate": (122, 5, 3),
}


def beside(tmp_path: Path, text: str, name: str = "b.curve.csv", frames: int = 0, **fields: Any) -> Episode:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return rollout(frames, recorded=(path,), **fields)


def curve_of(judge: Recorded, episode: Episode) -> Curve:
    curve = judged(judge, episode).curve
    assert curve is not None
    return curve


class TestValues:
    def test_there_is_one_point_per_row_and_none_is_added(self, tmp_path: Path) -> None:
        curve = curve_of(Recorded(), beside(tmp_path, "time_s,progress\n0.5,0.25\n2.0,0.75\n"))
        assert curve.times.tolist() == [0.5, 2.0]
        assert curve.progress.tolist() == [0.25, 0.75]
        assert curve.time_source == "recorded"
        assert not curve.calibrated

    def test_unknown_values_count_against_coverage(self, tmp_path: Path) -> None:
        curve = curve_of(Recorded(), beside(tmp_path, "time_s,progress\n0,0.5\n1,\n2,nan\n3,0\n"))
        np.testing.assert_array_equal(curve.progress, [0.5, math.nan, math.nan, 0.0])
        assert curve.coverage == 0.5
        assert "raw" not in curve.channels

    def test_values_outside_0_to_1_are_unknown_and_kept_in_raw(self, tmp_path: Path) -> None:
        curve = curve_of(Recorded(), beside(tmp_path, "time_s,progress\n0,-0.25\n1,0.5\n2,1.5\n3,\n"))
        np.testing.assert_array_equal(curve.progress, [math.nan, 0.5, math.nan, math.nan])
        np.testing.assert_array_equal(curve.channels["raw"], [-0.25, 0.5, 1.5, math.nan])
        assert curve.coverage == 0.25

    def test_clipping_has_to_be_asked_for_and_keeps_raw(self, tmp_path: Path) -> None:
        curve = curve_of(
            Recorded(clip=True), beside(tmp_path, "time_s,progress\n0,-0.25\n1,0.5\n2,1.5\n3,\n")
        )
        np.testing.assert_array_equal(curve.progress, [0.0, 0.5, 1.0, math.nan])
        np.testing.assert_array_equal(curve.channels["raw"], [-0.25, 0.5, 1.5, math.nan])

    def test_percent_is_not_guessed_but_can_be_said(self, tmp_path: Path) -> None:
        episode = beside(tmp_path, "time_s,progress\n0,0\n1,50\n2,100\n")
        assert curve_of(Recorded(), episode).coverage == pytest.approx(1 / 3)
        assert curve_of(Recorded(scale=0.01), episode).progress.tolist() == [0.0, 0.5, 1.0]

    def test_a_column_called_raw_is_a_channel_unless_raw_is_needed(self, tmp_path: Path) -> None:
        fine = beside(tmp_path, "time_s,progress,raw\n0,0.5,7\n")
        assert curve_of(Recorded(), fine).channels["raw"].tolist() == [7.0]
        with pytest.raises(CurveError, match="row 1: progress lies outside"):
            judged(Recorded(), beside(tmp_path, "time_s,progress,raw\n0,1.5,7\n"))

    def test_a_file_of_verdicts_gives_no_curve(self, tmp_path: Path) -> None:
        judgement = judged(Recorded(), beside(tmp_path, "subgoal,answer,success_score\ngrasp,yes,0.5\n"))
        assert judgement.curve is None
        assert [verdict.subgoal for verdict in judgement.verdicts] == ["grasp"]
        assert judgement.success_score == 0.5
        assert judgement.error is None

    def test_a_verdict_on_an_unknown_subgoal_lists_the_known_ones(self, tmp_path: Path) -> None:
        subgoals = (Subgoal("pick"), Subgoal("place"))
        episode = beside(tmp_path, "subgoal,answer\ngrasp,yes\n", subgoals=subgoals)
        with pytest.raises(CurveError, match="unknown subgoal 'grasp'; the subgoals of episode a/b are"):
            judged(Recorded(), episode)

    def test_a_verdict_after_the_videos_end_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(CurveError, match="subgoal 'grasp': when_s is 60"):
            judged(Recorded(), beside(tmp_path, "subgoal,answer,when_s\ngrasp,yes,60\n", frames=20))

    def test_pred_vllm_json_is_placed_at_its_frames(self, tmp_path: Path) -> None:
        items = [
            {"id": f"s-af_{n:06d}", "pred": "<score>-50%</score>", "hop": 0.0, "progress": 0.5}
            for n in (5, 9)
        ]
        curve = curve_of(Recorded(), beside(tmp_path, json.dumps(items), "pred_vllm.json", frames=10))
        assert curve.times.tolist() == [0.5, 0.9]
        assert curve.time_source == "recorded"


class TestFindingTheFile:
    def test_none_says_where_it_looked_and_how_to_give_one(self) -> None:
        with pytest.raises(CurveError, match=r"Episode a/b .* <stem>\.curve\.csv.*-J path="):
            judged(Recorded(), rollout(10))

    def test_two_are_an_error_that_lists_both(self) -> None:
        episode = rollout(10, recorded=(Path("x/step_metrics.csv"), Path("x/b.curve.csv")))
        with pytest.raises(CurveError, match=r"2 recorded curves: x/step_metrics\.csv, x/b\.curve\.csv"):
            judged(Recorded(), episode)

    def test_a_file_that_is_gone_is_an_error_that_names_it(self, tmp_path: Path) -> None:
        with pytest.raises(CurveError, match=r"Cannot read .*gone\.curve\.csv: No such file"):
            judged(Recorded(), rollout(10, recorded=(tmp_path / "gone.curve.csv",)))

    def test_a_keyed_table_gives_each_episode_its_rows_in_their_order(self, tmp_path: Path) -> None:
        path = tmp_path / "all.csv"
        path.write_text("episode_id,time_s,progress\nx,0,0.1\na/b,0,0.5\nx,1,0.2\na/b,1,0.75\n")
        curve = curve_of(Recorded(path=str(path)), rollout(0))
        assert curve.progress.tolist() == [0.5, 0.75]

    @pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
    def test_a_keyed_table_may_be_of_any_type(self, tmp_path: Path, suffix: str) -> None:
        columns = {"episode_id": ["7", "a/b", "a/b"], "time_s": [0.0, 0.0, 1.0], "progress": [0.3, None, 0.5]}
        path = tmp_path / f"all.{suffix}"
        if suffix == "parquet":
            pq.write_table(pa.table(columns), path)
        else:
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            with path.open("w", newline="") as file:
                if suffix == "csv":
                    writer = csv.DictWriter(file, list(columns))
                    writer.writeheader()
                    writer.writerows(rows)
                else:
                    file.writelines(json.dumps(row) + "\n" for row in rows)
        judge = Recorded(path=str(path))
        np.testing.assert_array_equal(curve_of(judge, rollout(0)).progress, [math.nan, 0.5])
        assert curve_of(judge, rollout(0, id="7")).progress.tolist() == [0.3]
        with pytest.raises(
            CurveError, match=re.escape("no rows with episode_id 'a/c'; it has 2 episodes, such as 'a/b'")
        ):
            judged(judge, rollout(0, id="a/c"))

    def test_a_keyed_table_found_beside_the_episode_is_read_by_key_too(self, tmp_path: Path) -> None:
        episode = beside(tmp_path, "episode_id,time_s,progress\nx,0,0.1\na/b,0,0.5\n")
        assert curve_of(Recorded(), episode).progress.tolist() == [0.5]

    def test_one_bad_row_spoils_only_its_own_episode(self, tmp_path: Path) -> None:
        path = tmp_path / "all.csv"
        path.write_text("episode_id,time_s,progress\nx,0,oops\na/b,0,0.5\n")
        judge = Recorded(path=str(path))
        assert curve_of(judge, rollout(0)).progress.tolist() == [0.5]
        with pytest.raises(CurveError, match=r"all\.csv, row 1, column progress: 'oops'"):
            judged(judge, rollout(0, id="x"))

    def test_lerobots_progress_is_found_by_the_episodes_number(self, tmp_path: Path) -> None:
        path = tmp_path / "sarm_progress.parquet"
        columns = {
            "index": range(6),
            "episode_index": [0, 0, 0, 1, 1, 1],
            "frame_index": [0, 1, 2, 0, 1, 2],
            "progress_sparse": np.array([0, 0.5, 1, 0.25, math.nan, 0.75], dtype=np.float32),
        }
        pq.write_table(pa.table({name: pa.array(cells) for name, cells in columns.items()}), path)
        curve = curve_of(Recorded(path=str(path)), rollout(3, id="episode_000001", source_index=1))
        np.testing.assert_allclose(curve.times, [0, 0.1, 0.2])
        np.testing.assert_array_equal(curve.progress, [0.25, math.nan, 0.75])
        with pytest.raises(CurveError, match="no rows with episode_index '2'"):
            judged(Recorded(path=str(path)), rollout(3, source_index=2))
        with pytest.raises(CurveError, match="has no number in its source"):
            judged(Recorded(path=str(path)), rollout(3))

    def test_a_folder_holds_a_file_per_episode(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "b.curve.jsonl").write_text('{"time_s": 0, "progress": 0.5}\n')
        judge = Recorded(path=str(tmp_path))
        assert curve_of(judge, rollout(0)).progress.tolist() == [0.5]
        with pytest.raises(
            CurveError, match=r"c\.curve\.csv \(or \.jsonl, \.parquet, \.json\) for episode a/c"
        ):
            judged(judge, rollout(0, id="a/c"))
        (tmp_path / "a" / "b.curve.csv").write_text("time_s,progress\n0,0.5\n")
        with pytest.raises(CurveError, match="2 recorded curves"):
            judged(judge, rollout(0))

    @pytest.mark.parametrize(("name", "text"), [("x.csv", "time_s,progress\n0,.5\n"), ("x.json", "[0.5]")])
    def test_a_given_file_must_say_which_row_is_of_which_episode(
        self, tmp_path: Path, name: str, text: str
    ) -> None:
        (tmp_path / name).write_text(text)
        with pytest.raises(CurveError, match="must say in a column 'episode_id'"):
            judged(Recorded(path=str(tmp_path / name)), rollout(10))

    def test_rows_without_an_episode_are_an_error(self, tmp_path: Path) -> None:
        late = beside(tmp_path, '{"progress": 0.5}\n{"episode_id": "x", "progress": 0.5}\n', "b.curve.jsonl")
        with pytest.raises(CurveError, match="row 1: no episode_id"):
            judged(Recorded(), late)
        never = beside(tmp_path, '{"episode_id": "x", "progress": 0.5}\n{"progress": 0.5}\n', "b.curve.jsonl")
        with pytest.raises(CurveError, match="row 2: no episode_id"):
            judged(Recorded(), never)


class TestProtocol:
    def test_it_is_registered_picklable_and_hashable_by_its_options(self, tmp_path: Path) -> None:
        judge = get_judge("recorded", interval=3, column="p", scale=0.01, clip=True)
        assert judge.options() == {"path": None, "interval": 3, "column": "p", "scale": 0.01, "clip": True}
        assert pickle.loads(pickle.dumps(judge)) == judge
        json.dumps(judge.options())

    def test_the_content_of_a_given_file_is_part_of_the_protocol_and_its_place_is_not(
        self, tmp_path: Path
    ) -> None:
        one, other = tmp_path / "one.csv", tmp_path / "other.csv"
        one.write_text("episode_id,progress\nx,0.1\n")
        other.write_text("episode_id,progress\nx,0.1\n")
        judge = Recorded(path=str(one))
        before = judge.options()
        assert before == Recorded(path=str(other)).options()
        one.write_text("episode_id,progress\nx,0.2\n")
        assert judge.options() != before

    def test_the_content_of_a_given_folder_is_part_of_the_protocol(self, tmp_path: Path) -> None:
        judge = Recorded(path=str(tmp_path))
        digests = {str(judge.options()["path"])}
        for name, text in (("a.curve.csv", "1"), ("b.curve.csv", "1"), ("a.curve.csv", "2")):
            (tmp_path / name).write_text(text)
            digests.add(str(judge.options()["path"]))
        (tmp_path / "b.curve.csv").rename(tmp_path / "c.curve.csv")
        digests.add(str(judge.options()["path"]))
        (tmp_path / "notes.txt").write_text("not a curve")
        digests.add(str(judge.options()["path"]))
        assert len(digests) == 5

    @pytest.mark.parametrize(
        ("options", "wrong"),
        [
            ({"path": "no/such/file.csv"}, "no such file or folder"),
            ({"interval": 0}, "interval must be an integer from 1 to 100000, got 0"),
            ({"interval": 2.5}, "interval must be .*, got 2.5"),
            ({"interval": True}, "interval must be .*, got True"),
            ({"column": 3}, "column must be the name of a column, got 3"),
            ({"clip": "True"}, "clip must be true or false, got 'True'"),
            ({"scale": "0.01"}, "scale must be .*, got '0.01'"),
            ({"scale": 0}, "scale must be .*, got 0"),
            ({"scale": math.nan}, "scale must be .*, got nan"),
        ],
    )
    def test_a_wrong_option_is_refused_at_once(self, options: dict[str, object], wrong: str) -> None:
        with pytest.raises(OptionError, match=wrong):
            get_judge("recorded", **options)


class TestRealRollouts:
    @pytest.mark.parametrize("name", ROLLOUTS)
    def test_published_curves_are_read_whole_at_inferred_times(self, shared_data: Path, name: str) -> None:
        frames, fps, interval = ROLLOUTS[name]
        file = shared_data / "rollouts" / name / "step_metrics.csv"
        golden = json.loads((shared_data / "opd_golden.json").read_text())[name]
        curve = curve_of(Recorded(), rollout(frames, fps, recorded=(file,)))
        with file.open() as lines:
            written = [float(row["StepProgress"]) for row in csv.DictReader(lines)]
        assert curve.progress.tolist() == written == next(v for v in golden.values() if isinstance(v, list))
        assert curve.time_source == "inferred"
        expected = [min(i * interval, frames - 1) / fps for i in range(1, len(written) + 1)]
        np.testing.assert_allclose(curve.times, expected)

    def test_the_folder_of_rollouts_gives_the_same_times_from_its_videos(self, shared_data: Path) -> None:
        episodes = open_episodes(shared_data / "rollouts", reader="folder")
        assert len(episodes) == len(ROLLOUTS)
        for episode in episodes:
            frames, fps, interval = ROLLOUTS[str(Path(episode.id).parent)]
            curve = curve_of(Recorded(), episode)
            expected = np.minimum(np.arange(1, len(curve) + 1) * interval, frames - 1) / fps
            np.testing.assert_allclose(curve.times, expected, atol=1e-3)


class TestPage:
    """``docs/judges/recorded.md``: every example there is read as the page says."""

    @staticmethod
    def examples(kind: str) -> list[str]:
        page = DOCS / "judges/recorded.md"
        return re.findall(
            rf"^```{kind}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )

    @pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
    def test_every_example_is_read_without_error(self, tmp_path: Path, kind: str) -> None:
        assert self.examples(kind)
        for text in self.examples(kind):
            assert judged(Recorded(), beside(tmp_path, text, f"b.curve.{kind}", frames=80)).error is None

    def test_every_option_is_described(self) -> None:
        page = DOCS / "judges/recorded.md"
        for option in Recorded().options():
            assert f"`{option}`" in page.read_text(encoding="utf-8")


class TestCost:
    def test_a_keyed_file_is_read_once_and_again_when_it_changes(self, tmp_path: Path) -> None:
        path = tmp_path / "all.csv"
        path.write_text("episode_id,time_s,progress\n" + "".join(f"e{i},0,0.5\n" for i in range(100)))
        judge, misses = Recorded(path=str(path)), curve_groups._load.cache_info().misses
        threads = [threading.Thread(target=judged, args=(judge, rollout(0, id=f"e{i}"))) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert curve_groups._load.cache_info().misses == misses + 1
        path.write_text("episode_id,time_s,progress\ne1,0,0.25\n")
        assert curve_of(judge, rollout(0, id="e1")).progress.tolist() == [0.25]


UNKNOWN = ["", "nan", "NaN", "null", " "]
cell = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(0, 1).map(repr),
    st.sampled_from(
        [*UNKNOWN, "1", "-0.1", "1e3", " 0.25 ", "+.5", "inf", "yes", "0,5", '"', "1_0", "0.5.5"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=4),
)


def expected(cells: list[str]) -> list[float] | None:
    """What a file with these cells states, cell by cell; ``None`` where one of them is no finite number."""
    values = []
    for text in cells:
        number = math.nan if text.strip().lower() in UNKNOWN[:4] else as_number(text)
        if number is None or math.isinf(number) or "_" in text:
            return None
        values.append(number)
    return values


class TestAnyFile:
    """Whatever is in a file: what the file states, or a CurveError that names it."""

    @settings(max_examples=200, deadline=None)
    @given(cells=st.lists(cell, min_size=1, max_size=5), keyed=st.booleans())
    def test_a_csv_yields_each_cell_or_an_error(
        self, tmp_path_factory: pytest.TempPathFactory, cells: list[str], keyed: bool
    ) -> None:
        path = tmp_path_factory.mktemp("any") / "b.curve.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["time_s", "progress"] + ["episode_id"] * keyed)
            writer.writerows([number, text] + ["a/b"] * keyed for number, text in enumerate(cells))
        stated = expected(cells)
        if stated is None:
            with pytest.raises(CurveError, match=r"b\.curve\.csv, row \d, column progress"):
                judged(Recorded(), rollout(0, recorded=(path,)))
            return
        curve = curve_of(Recorded(), rollout(0, recorded=(path,)))
        outside = [value < 0 or value > 1 for value in stated]
        np.testing.assert_array_equal(curve.progress, np.where(outside, math.nan, stated))
        assert ("raw" in curve.channels) == any(outside)
        np.testing.assert_array_equal(curve.channels.get("raw", curve.progress), stated)

    @settings(max_examples=150, deadline=None)
    @given(
        header=st.lists(
            st.sampled_from(["time_s", "frame", "progress", "score", "subgoal", "answer"]), max_size=4
        ),
        rows=st.lists(st.lists(cell, max_size=4), max_size=4),
    )
    def test_a_csv_of_any_shape_never_yields_what_it_does_not_state(
        self, tmp_path_factory: pytest.TempPathFactory, header: list[str], rows: list[list[str]]
    ) -> None:
        path = tmp_path_factory.mktemp("any") / "b.curve.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])
        stated = {number for row in rows for text in row if (number := as_number(text)) is not None}
        self.assert_only_stated(path, stated, len(rows))

    @settings(max_examples=150, deadline=None)
    @given(
        rows=st.lists(
            st.dictionaries(
                st.sampled_from(
                    ["time_s", "progress", "subgoal", "answer", "score", "success_score", "logp"]
                ),
                st.none()
                | st.booleans()
                | st.floats()
                | st.integers()
                | st.text(max_size=3)
                | st.lists(st.integers()),
                max_size=4,
            ),
            max_size=4,
        )
    )
    def test_a_jsonl_never_yields_what_it_does_not_state(
        self, tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
    ) -> None:
        path = tmp_path_factory.mktemp("any") / "b.curve.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        stated = {
            number for row in rows for value in row.values() if (number := as_number(str(value))) is not None
        }
        self.assert_only_stated(path, stated, len(rows))

    @settings(max_examples=150, deadline=None)
    @given(content=st.binary(max_size=60), suffix=st.sampled_from(["csv", "jsonl", "parquet", "json"]))
    def test_bytes_that_are_no_curve_are_an_error(
        self, tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str
    ) -> None:
        path = tmp_path_factory.mktemp("any") / f"b.curve.{suffix}"
        path.write_bytes(content)
        with pytest.raises(CurveError, match=r"b\.curve"):
            judged(Recorded(), rollout(50, recorded=(path,)))

    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_a_damaged_parquet_is_an_error_or_what_it_states(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        path = tmp_path_factory.mktemp("any") / "b.curve.parquet"
        pq.write_table(pa.table({"time_s": [0.0, 1.0], "progress": [0.5, 0.75]}), path)
        content = bytearray(path.read_bytes())
        path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        with pytest.raises(CurveError, match="Cannot read"):
            judged(Recorded(), rollout(50, recorded=(path,)))

    @staticmethod
    def assert_only_stated(path: Path, stated: set[float], rows: int) -> None:
        try:
            judgement = judged(Recorded(), rollout(50, recorded=(path,)))
        except CurveError:
            return
        if judgement.curve is not None:
            assert len(judgement.curve) <= rows + 1
            known = judgement.curve.progress[~np.isnan(judgement.curve.progress)]
            assert set(known.tolist()) <= stated
        assert math.isnan(judgement.success_score) or judgement.success_score in stated


def as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

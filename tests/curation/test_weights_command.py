"""``stepscore weights`` from a run of simulated episodes to the files that training reads."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from stepscore.cli.app import app
from stepscore.curation import FrameWeights, run_frames
from stepscore.episodes import open_episodes
from stepscore.errors import OptionError, StepScoreError
from stepscore.judges import get_judge
from stepscore.runs import Run, open_run, score
from tests.curation.oracle import rabc_of_rows
from tests.paths import TINY_SIM


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The simulator's own progress, recorded, as a run; of the last episode half is missing."""
    folder = tmp_path_factory.mktemp("truth")
    rows = [r for r in pq.read_table(TINY_SIM / "labels.parquet").to_pylist() if r["kind"] == "progress"]
    rows = [r for r in rows if r["episode_id"] != "episode_000023" or r["start_s"] < 1.95]
    columns = {"episode_id": "episode_id", "time_s": "start_s", "progress": "value"}
    table = pa.table({k: [r[v] for r in rows] for k, v in columns.items()})
    table = table.append_column("nats", [[10 * r["value"] - 12 for r in rows]])
    pq.write_table(table, folder / "curves.parquet")
    episodes = open_episodes(TINY_SIM, labels=TINY_SIM / "labels.parquet")
    return score(episodes, get_judge("recorded", path=str(folder / "curves.parquet")), folder / "run").path


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    episodes = open_episodes(TINY_SIM, labels=TINY_SIM / "labels.parquet")
    return score(episodes, get_judge("linear-time"), tmp_path_factory.mktemp("clock") / "run").path


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 0 % coverage: the embedded judge on a camera that it was not trained on."""
    judge = get_judge("topreward", model="embedded", prefixes=2)
    with pytest.warns(UserWarning, match=r"--views close"):
        made = score(open_episodes(TINY_SIM, limit=2), judge, tmp_path_factory.mktemp("no") / "run")
    assert made.judgements().column("coverage").to_pylist() == [0.0, 0.0]
    return made.path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["weights", *map(str, arguments)], env={"COLUMNS": "100"})


def made(*arguments: object) -> dict[str, Any]:
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


class TestForLeRobot:
    def test_static_weights_name_frames_and_leave_unknown_ones_out(self, truth: Path, tmp_path: Path) -> None:
        out, static = tmp_path / "w.parquet", tmp_path / "static.parquet"
        result = call(truth, "--method", "awr", "-o", out, "--static", static)
        assert result.exit_code == 0, result.output
        assert "--sample_weighting.type=static" in result.stderr
        table = pq.read_table(static)
        assert table.schema.names == ["index", "weight"]
        assert [str(kind) for kind in table.schema.types] == ["int64", "float"]
        own = pq.read_table(out)
        known = [row for row in own.to_pylist() if row["weight"] is not None]
        assert len(known) < own.num_rows  # half of an episode is not known
        assert table.to_pylist() == [{name: row[name] for name in ("index", "weight")} for row in known]
        assert min(table.column("weight").to_pylist()) >= 0

    def test_the_file_has_the_columns_that_lerobot_reads(self, truth: Path, tmp_path: Path) -> None:
        made(truth, "--method", "rabc", "-W", "chunk-size=8", "-o", tmp_path / "p.parquet")
        table = pq.read_table(tmp_path / "p.parquet")
        types = dict(zip(table.schema.names, map(str, table.schema.types), strict=True))
        assert types == {
            "index": "int64",
            "episode_index": "int64",
            "frame_index": "int64",
            "progress_sparse": "float",
        }
        data = pq.read_table(TINY_SIM / "data", columns=["index", "episode_index", "frame_index"])
        for name in data.column_names:
            assert table.column(name).to_pylist() == data.column(name).to_pylist()

    def test_what_is_shown_is_what_lerobot_will_compute_from_the_file(
        self, truth: Path, tmp_path: Path
    ) -> None:
        shown = made(truth, "--method", "rabc", "-W", "chunk-size=8", "-o", tmp_path / "p.parquet")
        rows = pq.read_table(tmp_path / "p.parquet").to_pylist()
        naive = rabc_of_rows(
            [
                (
                    r["index"],
                    r["episode_index"],
                    np.nan if r["progress_sparse"] is None else r["progress_sparse"],
                )
                for r in rows
            ],
            8,
        )
        weights = np.array(list(naive.values()))
        known = weights[~np.isnan(weights)]
        assert shown["n"] == len(weights) == 524
        assert shown["unknown"] == pytest.approx(np.mean(np.isnan(weights)))
        assert shown["unknown"] > 0
        assert shown["at_zero"] == pytest.approx(np.mean(known == 0))
        assert shown["at_one"] == pytest.approx(np.mean(known == 1))
        assert shown["mean"] == pytest.approx(np.mean(known), abs=1e-6)

    def test_frames_after_the_curves_end_are_null(self, truth: Path, tmp_path: Path) -> None:
        made(truth, "--method", "rabc", "-W", "chunk-size=8", "-o", tmp_path / "p.parquet")
        last = [r for r in pq.read_table(tmp_path / "p.parquet").to_pylist() if r["episode_index"] == 23]
        assert [r["progress_sparse"] is None for r in last] == [False] * 20 + [True] * 18

    def test_the_command_names_the_dataset_the_file_and_the_chosen_episodes(
        self, truth: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "p.parquet"
        options = (
            "-W",
            "chunk-size=8",
            "-W",
            "fallback-weight=0",
            "--failures",
            "drop",
            "--policy-type",
            "pi0",
        )
        shown = made(truth, "--method", "rabc", *options, "-o", out)
        words = shlex.split(shown["command"])
        kept = json.loads((tmp_path / "p.episodes.json").read_text())
        assert words[0] == "lerobot-train"
        assert f"--dataset.root={TINY_SIM}" in words
        assert "--policy.type=pi0" in words
        assert "--policy.chunk_size=8" in words
        assert "--sample_weighting.type=rabc" in words
        assert f"--sample_weighting.progress_path={out}" in words
        assert '--sample_weighting.extra_params={"fallback_weight": 0.0}' in words
        assert f"--dataset.episodes={json.dumps(kept)}" in words
        assert len(kept) == shown["kept"] == 24 - len(shown["dropped"])
        assert set(pq.read_table(out).column("episode_index").to_pylist()) == set(kept)

    def test_a_second_head_is_written_where_it_is_named(self, truth: Path, tmp_path: Path) -> None:
        options = ("-W", "chunk-size=8", "-W", "dense-channel=progress")
        made(truth, "--method", "rabc", *options, "-o", tmp_path / "p.parquet")
        table = pq.read_table(tmp_path / "p.parquet")
        assert table.column("progress_dense").to_pylist() == table.column("progress_sparse").to_pylist()

    def test_the_recorded_judge_reads_the_file_back(self, truth: Path, tmp_path: Path) -> None:
        made(truth, "--method", "rabc", "-W", "chunk-size=8", "-o", tmp_path / "p.parquet")
        again = score(
            open_episodes(TINY_SIM),
            get_judge("recorded", path=str(tmp_path / "p.parquet")),
            tmp_path / "again",
        )
        before, after = run_frames(open_run(truth)), run_frames(again)
        np.testing.assert_allclose(after.progress, before.progress, atol=1e-6)


class TestForTheSampler:
    @pytest.mark.parametrize(
        "options",
        [
            ("--method", "awr"),
            ("--method", "awr", "-W", "advantage=change", "-W", "chunk-size=8", "-W", "tau-role=prefactor"),
            ("--method", "awr", "-W", "drop-stalls=1"),
            ("--method", "filter", "--top", 0.5, "--by", "PPL"),
        ],
    )
    def test_weights_are_read_back_by_index(
        self, truth: Path, tmp_path: Path, options: tuple[object, ...]
    ) -> None:
        shown = made(truth, *options, "-o", tmp_path / "w.parquet")
        table = pq.read_table(tmp_path / "w.parquet")
        assert table.num_rows == shown["n"]
        weights = FrameWeights.read(tmp_path / "w.parquet", unknown=0.0)
        assert weights.weight.mean() == pytest.approx(1.0)
        assert set(weights.sampler(range(524))) <= set(table.column("index").to_pylist())
        about = json.loads(table.schema.metadata[b"stepscore"])
        assert about["method"] == options[1]
        assert about["judge"] == "recorded"

    def test_another_channel_is_used_when_it_is_named_and_metrics_are_still_of_progress(
        self, truth: Path, tmp_path: Path
    ) -> None:
        options = (
            "--method",
            "awr",
            "--top",
            0.5,
            "--by",
            "PPL",
            "-o",
            tmp_path / "w.parquet",
        )
        by_progress = made(truth, *options)
        by_nats = made(truth, *options, "--channel", "nats")
        assert by_nats["dropped"] == by_progress["dropped"]
        assert by_nats["facts"]["mean change"] == pytest.approx(10 * by_progress["facts"]["mean change"])

    def test_failures_are_kept_and_marked(self, truth: Path, tmp_path: Path) -> None:
        made(truth, "--method", "filter", "-o", tmp_path / "w.parquet")
        rows = pq.read_table(tmp_path / "w.parquet").to_pylist()
        marks = {r["episode_index"]: r["success"] for r in rows}
        labels = {row["source_index"]: row["success"] for row in open_run(truth).episodes().to_pylist()}
        assert marks == labels
        assert {True, False} <= set(marks.values())

    def test_a_filter_of_whole_episodes_is_a_command_too(self, truth: Path, tmp_path: Path) -> None:
        out = tmp_path / "w.parquet"
        shown = made(truth, "--method", "filter", "--failures", "drop", "-o", out)
        assert "--dataset.episodes=" in shown["command"]
        assert "sample_weighting" not in shown["command"]
        stalls = made(truth, "--method", "filter", "-W", "drop-stalls=0.5", "-o", out)
        assert stalls["command"] is None
        assert 0 < stalls["facts"]["stalled"] == pytest.approx(stalls["at_zero"])


class TestWhatIsShown:
    def test_histogram_shares_and_episodes_at_both_ends(self, truth: Path, tmp_path: Path) -> None:
        result = call(truth, "--method", "rabc", "-W", "chunk-size=8", "-o", tmp_path / "p.parquet")
        assert result.exit_code == 0, result.output
        for words in ("█", "at 0", "at 1", "Most up-weighted", "Most down-weighted"):
            assert words in result.stdout
        assert "lerobot-train" in result.stderr

    def test_a_filter_shows_what_it_drops_and_why_and_no_ends_of_equal_weights(
        self, truth: Path, tmp_path: Path
    ) -> None:
        top = ("--top", 0.05, "--by", "PPL", "-W", "drop-stalls=9")
        result = call(truth, "--method", "filter", *top, "-o", tmp_path / "w.parquet")
        assert result.exit_code == 0, result.output
        assert "not in the best 0.05" in result.stdout
        assert "and 2 more; --json lists all of them" in result.stdout
        assert "weighted" not in result.stdout
        assert "{" not in result.stdout

    def test_the_share_at_the_cap_is_printed(self, truth: Path, tmp_path: Path) -> None:
        dense = ("-W", "advantage=plain-change", "-W", "tau-role=prefactor")
        result = call(truth, "--method", "awr", *dense, "-o", tmp_path / "w.parquet")
        assert "at the cap: 0.7" in result.stdout
        assert "FrameWeights" in result.stderr

    def test_the_clock_at_the_published_defaults_does_nothing_and_says_so(
        self, clock: Path, tmp_path: Path
    ) -> None:
        result = call(clock, "--method", "rabc", "-W", "chunk-size=8", "-o", tmp_path / "p.parquet")
        assert "plain behaviour cloning" in result.stderr

    @pytest.mark.parametrize("name", ["w.svg", "w.png"])
    def test_the_plot_is_drawn_and_is_the_same_again(self, truth: Path, tmp_path: Path, name: str) -> None:
        pytest.importorskip("matplotlib")
        call_it = (truth, "--method", "awr", "-o", tmp_path / "w.parquet", "--plot", tmp_path / name)
        assert str(tmp_path / name) in made(*call_it)["files"]
        first = (tmp_path / name).read_bytes()
        made(*call_it)
        assert (tmp_path / name).read_bytes() == first


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (("--method", "rabc"), "-W chunk-size=N"),
            (
                ("--method", "rabc", "-W", "chunk-size=8", "-W", "tau=1"),
                "-W tau does nothing with --method rabc",
            ),
            (("--method", "rabc", "-W", "chunk-size=8", "-W", "drop-stalls=1"), "--method filter"),
            (("--method", "filter", "-W", "still=0.1"), "-W drop-stalls"),
            (("--method", "awr", "-W", "done=0.9"), "-W drop-stalls"),
            (("--method", "awr", "-W", "advantage=changes"), "Valid: change, plain-change, progress"),
            (("--method", "awr", "-W", "tau-role=factor"), "Valid: inverse-temperature, prefactor"),
            (("--method", "awr", "-W", "advantage=progress", "-W", "chunk-size=8"), "-W advantage=change"),
            (("--method", "awr", "--channel", "minmx"), "Valid: nats, progress"),
            (("--method", "awr", "-W", "dense-channel=progress"), "--method rabc"),
            (("--method", "filter", "--top", 0.5, "--by", "PLP"), "PPL"),
            (("--method", "awr", "--plot", "w.gif"), ".svg"),
        ],
    )
    def test_a_wrong_option_says_what_is_right(
        self, truth: Path, tmp_path: Path, options: tuple[object, ...], says: str
    ) -> None:
        result = call(truth, *options, "-o", tmp_path / "p.parquet")
        assert isinstance(result.exception, StepScoreError)
        assert says in str(result.exception)

    def test_the_file_is_parquet(self, truth: Path, tmp_path: Path) -> None:
        result = call(truth, "--method", "awr", "-o", tmp_path / "w.csv")
        assert isinstance(result.exception, OptionError)


def test_a_source_without_numbers_is_counted_and_says_so(tmp_path: Path) -> None:
    from stepscore.testing import write_toy_rollouts

    write_toy_rollouts(tmp_path / "toys", scenes=1)
    run: Run = score(open_episodes(tmp_path / "toys"), get_judge("recorded"), tmp_path / "run")
    result = call(run.path, "--method", "rabc", "-W", "chunk-size=8", "-o", tmp_path / "p.parquet")
    assert "not a LeRobot dataset" in result.stderr
    assert not (tmp_path / "p.episodes.json").exists()
    index = pq.read_table(tmp_path / "p.parquet").column("index").to_pylist()
    assert index == list(range(len(index)))


def test_a_filter_that_keeps_everything_says_so(truth: Path, tmp_path: Path) -> None:
    for more, warned in (((), True), (("--failures", "drop"), False), (("-W", "drop-stalls=0.5"), False)):
        shown = call(truth, "--method", "filter", "-o", tmp_path / "w.parquet", *more)
        assert ("nothing is filtered" in shown.stderr) is warned, more


class TestARunThatKnowsNothing:
    @pytest.mark.parametrize(
        "method",
        [["rabc", "-W", "chunk-size=8"], ["awr"], ["filter"], ["filter", "-W", "drop-stalls=1"]],
        ids=lambda method: " ".join(map(str, method)),
    )
    def test_it_is_refused_with_the_reason_and_nothing_is_written(
        self, unknown: Path, tmp_path: Path, method: list[object]
    ) -> None:
        result = call(unknown, "--method", *method, "-o", tmp_path / "w.parquet")
        assert isinstance(result.exception, OptionError)
        assert "unknown at every frame of its 2 episodes (coverage 0 %)" in str(result.exception)
        assert "--views close" in str(result.exception)
        assert not list(tmp_path.iterdir())

    def test_failures_that_nobody_knows_cannot_be_dropped(self, unknown: Path, tmp_path: Path) -> None:
        options = ["--method", "filter", "--failures", "drop", "--success-by", "judge"]
        result = call(unknown, *options, "-o", tmp_path / "w.parquet")
        assert isinstance(result.exception, OptionError)
        assert "No episode's success is known by the judge" in str(result.exception)

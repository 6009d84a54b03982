"""A recording for Rerun holds what the page shows, at the same times; Rerun's own reader opens it."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from stepscore.cli.main import run as command
from stepscore.episodes import Episode, open_episodes
from stepscore.judges import Ask, get_judge
from stepscore.report import export, page_data
from stepscore.report.page.packing import unpack
from stepscore.report.page.video_hosting import LinkedVideos
from stepscore.report.run_sources import RunSources
from stepscore.runs import Run, score
from stepscore.types import Curve, Judgement, Verdict
from tests.paths import TINY_SIM
from tests.report.made_runs import write_run

rr = pytest.importorskip("rerun")


@dataclass(frozen=True)
class Planted:
    """A curve with an unknown point and a channel, and a verdict of every kind."""

    name = "planted"
    version = 1
    models = ()

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        times = next(iter(episode.views.values())).timestamps()
        times = times[:: max(1, len(times) // 9)]
        progress = np.linspace(0, 1, len(times))
        progress[2] = np.nan
        kinds = (
            ("yes", 0.9, float(times[3]), "seen"),
            ("no", 0.2, math.nan, ""),
            ("unknown", math.nan, math.nan, ""),
        )
        verdicts = tuple(
            Verdict(goal.name, *kinds[number % 3])  # type: ignore[arg-type]
            for number, goal in enumerate(episode.subgoals)
        )
        return Judgement(Curve(times, progress, {"margin": progress * 3 - 2}), verdicts)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Simulated episodes with labelled progress, stages and subgoals, many in one file, under two judges."""
    folder = tmp_path_factory.mktemp("runs")
    episodes = open_episodes(
        TINY_SIM, labels=TINY_SIM / "labels.parquet", subgoals=TINY_SIM / "subgoals.yaml"
    )
    episodes = episodes.select(episodes.ids()[:6])
    judges = (Planted(), get_judge("random-monotone", points=12))
    return [score(episodes, judge, folder / judge.name) for judge in judges]


@pytest.fixture(scope="module")
def page(runs: list[Run]) -> Any:
    return page_data(runs, LinkedVideos(runs[0].path))


class Recording:
    """A recording as Rerun's reader finds it: the columns of every entity."""

    def __init__(self, path: Path) -> None:
        from rerun.chunk import RrdReader

        reader = RrdReader(path)
        (entry,) = reader.recordings()
        assert entry.application_id == "stepscore"
        self.blueprints = len(reader.blueprints())
        self.columns: dict[str, dict[str, list[Any]]] = {}
        for chunk in reader.stream():
            batch = chunk.to_record_batch()
            for name in batch.schema.names:
                if name.endswith("RowId"):
                    continue
                column = batch.column(name)
                values = column.cast("int64").to_pylist() if name == "time" else column.to_pylist()
                kind = name if name != "time" else f"time of {batch.schema.names[-1]}"
                self.columns.setdefault(str(chunk.entity_path), {}).setdefault(kind, []).extend(values)

    def series(self, path: str) -> tuple[np.ndarray, np.ndarray]:
        """Times in seconds and values of a curve."""
        columns = self.columns[path]
        values = [value for (value,) in columns["Scalars:scalars"]]
        return np.array(columns["time of Scalars:scalars"]) / 1e9, np.array(values)

    def states(self, path: str) -> list[tuple[float, str]]:
        columns = self.columns[path]
        times = np.array(columns["time of StateChange:state"]) / 1e9
        return [
            (float(time), state) for time, (state,) in zip(times, columns["StateChange:state"], strict=True)
        ]


@pytest.fixture(scope="module")
def recording(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Recording:
    result = export(runs, tmp_path_factory.mktemp("rrd") / "runs.rrd")
    assert result.notes == ()
    found = Recording(result.path)
    assert result.points == sum(len(columns.get("Scalars:scalars", ())) for columns in found.columns.values())
    references = [columns.get("VideoFrameReference:timestamp", ()) for columns in found.columns.values()]
    assert result.frames == sum(map(len, references)) > 0
    return found


def page_curves(page: dict[str, Any], run: int) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Episode id to channel to times and values, as the page unpacks them."""
    table = page["judgements"][run]
    curves = table["curves"]
    lengths = np.array(curves["length"])
    times = unpack(curves["times"])
    if curves["rate"] is not None:
        times = times / np.repeat(unpack(curves["rate"]), lengths)
    ends = np.cumsum(lengths)
    packed = {"progress": curves["progress"], **curves["channels"]}
    return {
        page["episodes"]["id"][place]: {
            name: (times[end - n : end], unpack(values)[end - n : end]) for name, values in packed.items()
        }
        for place, n, end in zip(table["episode"], lengths, ends, strict=True)
    }


def test_every_curve_and_channel_is_at_the_times_of_the_page(
    runs: list[Run], page: dict[str, Any], recording: Recording
) -> None:
    compared = 0
    for number, run in enumerate(runs):
        for episode, channels in page_curves(page, number).items():
            for name, (times, values) in channels.items():
                where = f"progress/{run.judge}" if name == "progress" else f"channels/{run.judge}/{name}"
                found = recording.series(f"/{episode}/{where}")
                np.testing.assert_allclose(found[0], times, atol=2e-9)
                np.testing.assert_allclose(found[1], values, atol=1e-4)
                compared += 1
    episodes = runs[0].episodes().num_rows
    assert compared == episodes * (2 + 1)
    assert np.isnan(recording.series(f"/{episode}/progress/planted")[1]).sum() == 1


def test_frames_are_those_of_the_page_at_its_times(
    runs: list[Run], page: dict[str, Any], recording: Recording
) -> None:
    videos, names = page["videos"], page["videos"]["view"]
    rows = {row["episode_id"]: row for row in runs[0].episodes().to_pylist()}
    sources = RunSources(runs)
    for number, place in enumerate(videos["episode"]):
        episode, view = page["episodes"]["id"][place], names["values"][names["codes"][number]]
        columns = recording.columns[f"/{episode}/video/{view}"]
        times = np.array(columns["time of VideoFrameReference:timestamp"]) / 1e9
        np.testing.assert_allclose(
            times, np.arange(videos["n_frames"][number]) / videos["fps"][number], atol=2e-9
        )
        if number > 2:
            continue
        # The frames that the references point at are those that were judged, pixel by pixel.
        (blob,) = columns["AssetVideo:blob"]
        with av.open(io.BytesIO(bytes(blob[0])), "r") as container:
            decoded = {round(float(frame.time) * 1e9): frame for frame in container.decode(video=0)}
        shown = [
            decoded[int(ns)].to_ndarray(format="rgb24") for (ns,) in columns["VideoFrameReference:timestamp"]
        ]
        judged = sources.episode(rows[episode]).views[view].read(range(len(shown)))
        np.testing.assert_array_equal(np.stack(shown), judged)


def test_verdicts_are_those_of_the_page_and_begin_when_the_judge_says(
    page: dict[str, Any], recording: Recording
) -> None:
    table, durations = page["judgements"][0], unpack(page["episodes"]["duration_s"])
    verdicts, answers = table["verdicts"], {"y": "yes", "n": "no", "?": "unknown"}
    scores, whens = unpack(verdicts["score"]), unpack(verdicts["when_s"])
    kinds = set()
    assert len(verdicts["row"]) > 10
    for number, row in enumerate(verdicts["row"]):
        place = table["episode"][row]
        episode = page["episodes"]["id"][place]
        subgoal = verdicts["subgoal"]["values"][verdicts["subgoal"]["codes"][number]]
        goals = page["episodes"]["subgoal_lists"][page["episodes"]["subgoals"][place]]
        order = [goal["name"] for goal in goals].index(subgoal)
        start = f"/{episode}/subgoals/planted/{order + 1:02d}_"
        (path,) = [path for path in recording.columns if path.startswith(start)]
        columns = {name: values[0][0] for name, values in recording.columns[path].items() if ":" not in name}
        answer = answers[verdicts["answer"][number]]
        label = {"1": "yes", "0": "no", "?": None}[page["episodes"]["subgoal_labels"][place][order]]
        known = {
            "subgoal": subgoal,
            "answer": answer,
            "label": label,
            "score": scores[number],
            "when_s": whens[number],
        }
        known = {name: value for name, value in known.items() if value is not None and value == value}
        columns.pop("why", None)
        assert columns == known
        states = recording.states(path)
        assert states[-1] == (pytest.approx(durations[place], abs=2e-9), "")
        if np.isfinite(whens[number]):
            assert states[:-1] == [(0.0, "not yet"), (pytest.approx(whens[number], abs=2e-9), "yes")]
        else:
            assert states[:-1] == [(0.0, answer)]
        kinds.add(answer)
    assert kinds == {"yes", "no", "unknown"}


def test_labelled_progress_and_stages_are_there(page: dict[str, Any], recording: Recording) -> None:
    table, episodes = page["truth"], page["episodes"]
    ends = np.cumsum(table["length"])
    times, values = unpack(table["times"]), unpack(table["progress"])
    for place, n, end in zip(table["episode"], table["length"], ends, strict=True):
        found = recording.series(f"/{episodes['id'][place]}/progress/truth")
        # The page keeps the few points between which it is straight.
        drawn = np.interp(times[end - n : end], *found)
        np.testing.assert_allclose(drawn, values[end - n : end], atol=6e-3)
    assert len(table["episode"]) == episodes["n"]
    stages: dict[int, list[tuple[Any, str]]] = {}
    for place, name, start, _ in episodes["stages"]:
        stages.setdefault(place, []).append((pytest.approx(start, abs=2e-9), episodes["stage_names"][name]))
    assert stages
    for place, expected in stages.items():
        assert recording.states(f"/{episodes['id'][place]}/stages")[:-1] == expected


def test_an_episode_says_what_was_asked_and_what_came_of_it(runs: list[Run], recording: Recording) -> None:
    row = runs[0].episodes().to_pylist()[0]
    ((text,),) = recording.columns[f"/{row['episode_id']}/instruction"]["TextDocument:text"]
    assert text.startswith(f"# {row['instruction']}\n")
    assert "by label" in text
    assert text.count("\n| ") == 2 + len(row["subgoals"])
    assert recording.blueprints == 1


def test_chosen_episodes_alone_are_written_and_videos_as_images_if_asked(
    runs: list[Run], tmp_path: Path
) -> None:
    first, second, *_ = runs[0].episodes()["episode_id"].to_pylist()
    result = export(runs[0], tmp_path / "new" / "two.rrd", episodes=[second, first], videos="images")
    found = Recording(result.path)
    assert {path.split("/")[1] for path in found.columns} == {first, second, "__properties"}
    assert result.episodes == 2
    video = next(path for path in found.columns if path.startswith(f"/{first}/video/"))
    images = found.columns[video]["EncodedImage:blob"]
    assert bytes(images[0][0])[:3] == b"\xff\xd8\xff"
    both = [columns.get("EncodedImage:blob", ()) for columns in found.columns.values()]
    assert result.frames == sum(map(len, both))
    none = export(runs[0], tmp_path / "none.rrd", episodes=[first], videos="none")
    assert none.frames == 0
    assert not any("/video/" in path for path in Recording(none.path).columns)


def test_a_video_that_is_not_there_is_said_and_the_rest_written(tmp_path: Path) -> None:
    def with_view(number: int, record: dict[str, Any]) -> None:
        record["id"] = f"a b/{number}"
        record["episode"]["views"] = [{"name": "top", "location": "x.mp4"}]

    run = write_run(tmp_path / "run", 2, steps=5, change=with_view, source=str(tmp_path / "gone"))
    result = export(run, tmp_path / "a.rrd")
    assert result.frames == 0
    (note,) = result.notes
    assert note.startswith("2 times no video: ")
    assert "is not on this machine" in note
    # A slash of an id does not make another entity.
    assert any(path.startswith("/a\\ b\\/1/progress/") for path in Recording(result.path).columns)


def without_anything(record: dict[str, Any]) -> None:
    """Take curve and duration from an episode's record, as where neither could be read."""
    del record["judgement"]["curve"]
    record["episode"] |= {"duration_s": None, "fps": None, "n_frames": None, "first_frame": None}


def test_an_episode_with_nothing_to_draw_is_one_line_and_the_others_are_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def change(number: int, record: dict[str, Any]) -> None:
        record["id"] = f"e{number}"
        if number == 2:
            without_anything(record)

    run = write_run(tmp_path / "run", 5, steps=5, change=change)
    out = tmp_path / "a.rrd"
    assert command(["export", str(run.path), "--to", "rerun", "-o", str(out)]) == 1
    said = capfd.readouterr()
    assert said.err.count("failed ") == 1
    assert "failed e2: Episode e2 has neither a video nor a curve" in said.err
    assert "4 episodes, " in said.err
    assert said.out.strip() == str(out)
    found = {path.split("/")[1] for path in Recording(out).columns}
    assert {name for name in found if name.startswith("e")} == {"e0", "e1", "e3", "e4"}


def test_where_no_episode_can_be_drawn_nothing_is_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", 2, steps=5, change=lambda number, record: without_anything(record))
    out = tmp_path / "out" / "a.rrd"
    assert command(["export", str(run.path), "--to", "rerun", "-o", str(out)]) == 2
    assert "Error: None of 2 episodes can be exported." in capfd.readouterr().err
    assert not list(out.parent.iterdir())


def test_rerun_switched_off_is_an_error_and_no_file(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepscore.errors import OptionError

    monkeypatch.setenv("RERUN", "off")
    with pytest.raises(OptionError, match="RERUN"):
        export(runs[0], tmp_path / "a.rrd", videos="none")
    assert not list(tmp_path.iterdir())

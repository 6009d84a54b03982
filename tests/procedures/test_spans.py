from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from stepscore.episodes import Label, Labels, Stage, open_episodes
from stepscore.errors import EpisodeError, ManifestError, UnknownNameError
from stepscore.procedures.spans import check_spans, span_problems, stage_spans
from tests.episodes.lerobot.datasets import add_column, change_info, dataset
from tests.fakes import episode
from tests.media import write_video

NAMES = ["reach", "grasp", "lift"]
SPARSE = {
    "sparse_subtask_names": ["reach", "lift"],
    "sparse_subtask_start_frames": [0, 3],
    "sparse_subtask_end_frames": [3, 6],
}
DENSE = {
    "dense_subtask_names": NAMES,
    "dense_subtask_start_frames": [0, 2, 4],
    "dense_subtask_end_frames": [2, 4, 6],
}


def kinds(*spans: tuple[str, float, float], **options: object) -> list[str]:
    return [p.kind for p in span_problems([Stage(*span) for span in spans], **options)]  # type: ignore[arg-type]


def test_good_spans_have_no_problem() -> None:
    assert kinds(("reach", 0, 1), ("grasp", 1, 2), ("lift", 2, 3), vocabulary=NAMES, duration_s=3.0) == []


@pytest.mark.parametrize(
    ("spans", "kind", "said"),
    [
        ([("reach", 0, 2), ("grasp", 1, 3)], "overlap", "'grasp' (1..3 s) overlaps stage 'reach' (0..2 s)"),
        ([("reach", 0, 1), ("grasp", 2, 3)], "gap", "no stage from 1 s to 2 s, before stage 'grasp'"),
        ([("grasp", 0, 1), ("reach", 1, 2)], "wrong order", "'reach' (1..2 s) comes after stage 'grasp'"),
        (
            [("reach", 0, 1), ("graps", 1, 2)],
            "unknown name",
            "Did you mean 'grasp'? Allowed: reach, grasp, lift",
        ),
        ([("reach", 0, 1), ("grasp", 2, 1)], "end before start", "'grasp' (2..1 s) must end after it starts"),
        ([("reach", 0, 1), ("grasp", 1, float("nan"))], "end before start", "'grasp' (1..nan s)"),
        ([("reach", 2, 3), ("grasp", 0, 1)], "wrong time order", "is listed after stage 'reach' (2..3 s)"),
        ([("reach", -1, 1)], "outside", "'reach' (-1..1 s) leaves the episode"),
    ],
)
def test_each_bad_span_is_named(spans: list[tuple[str, float, float]], kind: str, said: str) -> None:
    stages = [Stage(*span) for span in spans]
    (problem,) = span_problems(stages, NAMES)
    assert problem.kind == kind
    assert said in problem.text
    with pytest.raises(EpisodeError) as error:
        check_spans(stages, "Episode e", NAMES)
    assert kind in str(error.value)
    assert said in str(error.value)


def test_all_problems_stand_in_one_error_unless_they_are_allowed() -> None:
    spans = [Stage("lift", 0, 1), Stage("grasp", 3, 5), Stage("hop", 4, 4.5)]
    with pytest.raises(EpisodeError, match=r"4 problems.*gap.*wrong order.*unknown name.*overlap"):
        check_spans(spans, "Episode e", NAMES)
    assert check_spans(spans[:2], "Episode e", NAMES, allow=("gap", "wrong order")) == tuple(spans[:2])


def test_time_without_a_stage_at_either_end_is_a_gap_where_the_length_is_known() -> None:
    assert kinds(("reach", 1, 2)) == []
    assert kinds(("reach", 1, 2), duration_s=3.0) == ["gap", "gap"]
    assert kinds(("reach", 1, 2), duration_s=3.0, gap_s=1.0) == []
    assert kinds(("reach", 1, 4), duration_s=3.0) == ["outside", "gap"]


def test_a_repeated_stage_is_in_order_and_one_done_after_a_later_one_is_not() -> None:
    assert kinds(("reach", 0, 1), ("reach", 1, 2), vocabulary=NAMES) == []
    spans = [("reach", 0, 1), ("grasp", 1, 2), ("reach", 2, 3)]
    assert kinds(*spans, vocabulary=NAMES) == ["wrong order"]
    assert kinds(*spans) == []


def test_spans_come_from_a_manifest(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", 30)
    stages = [
        {"name": "reach", "start_second": 0, "end_second": 0.5},
        {"name": "lift", "start_second": 0.5, "end_second": 1},
    ]
    entry = {"video": "a.mp4", "instruction": "pick", "stages": stages}
    (tmp_path / "manifest.jsonl").write_text(json.dumps(entry))
    assert stage_spans(open_episodes(tmp_path)[0]) == (Stage("reach", 0, 0.5), Stage("lift", 0.5, 1))
    stages[1]["start_second"] = 0.25
    (tmp_path / "manifest.jsonl").write_text(json.dumps(entry))
    with pytest.raises(ManifestError, match=r"'lift' .* overlaps 'reach'"):
        open_episodes(tmp_path)


def test_spans_come_from_both_kinds_of_lerobot_subtask_columns(tmp_path: Path) -> None:
    found = open_episodes(dataset(tmp_path / "d", lengths=(7,), extras=[{**SPARSE, **DENSE}]))[0]
    sparse = (Stage("reach", 0, 0.3), Stage("lift", 0.3, 0.6))
    dense = (Stage("reach", 0, 0.2), Stage("grasp", 0.2, 0.4), Stage("lift", 0.4, 0.6))
    assert stage_spans(found) == stage_spans(found, "sparse") == sparse
    assert stage_spans(found, "dense") == dense
    only = open_episodes(dataset(tmp_path / "e", lengths=(7,), extras=[DENSE]))[0]
    assert stage_spans(only) == stage_spans(only, "dense") == dense
    with pytest.raises(UnknownNameError, match="scheme 'sparse' in episode episode_000000"):
        stage_spans(only, "sparse")
    older = {column.removeprefix("sparse_"): values for column, values in SPARSE.items()}
    plain = open_episodes(dataset(tmp_path / "f", lengths=(7,), extras=[older]))[0]
    assert stage_spans(plain) == stage_spans(plain, "subtask") == sparse


@pytest.mark.parametrize("scheme", ["sparse", "dense"])
@pytest.mark.parametrize(
    ("starts", "ends", "said"),
    [
        ([0, 2], [3, 6], "'lift' (0.2..0.6 s) overlaps 'reach' (0..0.3 s)"),
        ([3, 0], [6, 3], "'lift' (0..0.3 s) is out of order with 'reach' (0.3..0.6 s)"),
        ([0, 6], [3, 3], "'lift' runs from 0.6 s to 0.3 s; it must end after it starts"),
        ([0, 3], [3], "no %s stages"),
    ],
)
def test_bad_lerobot_subtask_columns_are_each_named(
    tmp_path: Path, scheme: str, starts: list[int], ends: list[int], said: str
) -> None:
    columns = {"names": ["reach", "lift"], "start_frames": starts, "end_frames": ends}
    extras = [{f"{scheme}_subtask_{name}": values for name, values in columns.items()}]
    episodes = open_episodes(dataset(tmp_path / "d", lengths=(7,), extras=extras))
    (problem,) = episodes.problems
    assert problem.where == "episode_000000"
    assert said.replace("%s", scheme) in problem.why
    assert episodes[0].labels.stages == ()


@pytest.mark.parametrize(
    ("keyframes", "said"),
    [
        ([0, 10, 8, 20], "overlaps"),
        ([10, 20, 0, 5], "is out of order with"),
        ([0, 10, 20, 12], "it must end after it starts"),
    ],
)
def test_bad_keyframes_and_manifest_stages_are_each_named(
    tmp_path: Path, keyframes: list[int], said: str
) -> None:
    write_video(tmp_path / "a" / "a.mp4", 30)
    spans = {"reach": keyframes[:2], "lift": keyframes[2:]}
    entries = [{"anotation": n, "start_frame_id": a, "end_frame_id": b} for n, (a, b) in spans.items()]
    (tmp_path / "a" / "annotated_keyframes.json").write_text(json.dumps(entries))
    found = open_episodes(tmp_path / "a")
    (problem,) = found.problems
    assert re.search(rf"annotated_keyframes.json: stage 'lift' .*{said}", problem.why)
    assert found[0].labels.stages == ()
    stages = [{"name": n, "start_second": a / 30, "end_second": b / 30} for n, (a, b) in spans.items()]
    entry = {"video": "a/a.mp4", "instruction": "pick", "stages": stages}
    (tmp_path / "manifest.jsonl").write_text(json.dumps(entry))
    with pytest.raises(ManifestError, match=rf"'lift' .*{said}"):
        open_episodes(tmp_path)


def test_spans_come_from_spoken_lerobot_subtasks(tmp_path: Path) -> None:
    root = dataset(tmp_path / "d", lengths=(6, 6))
    good, bad = (
        [
            {"content": name, "style": "subtask", "timestamp": at}
            for name, at in (("reach", 0.0), ("lift", last))
        ]
        for last in (0.4, 0.0)
    )
    column = pa.array([good] * 6 + [bad] * 6)
    add_column(root / "data/chunk-000/file-000.parquet", "language_persistent", column)
    change_info(root, features={"language_persistent": {"dtype": "language", "shape": [1], "names": None}})
    first, second = open_episodes(root)
    assert stage_spans(first) == (Stage("reach", 0, 0.4), Stage("lift", 0.4, 0.6))
    with pytest.raises(EpisodeError, match=r"no stage labels \(.*'lift' and 'reach' both begin at 0 s"):
        stage_spans(second)


def test_spans_come_from_a_labels_file_and_replace_the_sources_own(tmp_path: Path) -> None:
    root = dataset(tmp_path / "d", lengths=(7,), extras=[SPARSE])
    path = tmp_path / "labels.csv"
    path.write_text("episode_id,kind,name,start_s,end_s\nepisode_000000,stage,pull,0.1,0.5\n")
    found = open_episodes(root, labels=path)[0]
    assert stage_spans(found) == (Stage("pull", 0.1, 0.5),)
    with pytest.raises(UnknownNameError, match="subtask scheme"):
        stage_spans(found, "sparse")


def test_spans_come_from_robo_dopamine_keyframes(shared_data: Path) -> None:
    (real,) = open_episodes(shared_data / "multiview")
    spans = stage_spans(real)
    assert len(spans) == 16
    assert [span.name for span in spans] == [f"subtask{n}" for n in range(1, 17)]
    assert (spans[0].start_s, spans[0].end_s, spans[-1].end_s) == pytest.approx((8 / 30, 147 / 30, 1263 / 30))
    assert span_problems(spans) == ()
    assert real.info is not None
    ends = span_problems(spans, duration_s=real.info.duration_s)
    assert [p.kind for p in ends] == ["gap", "gap"]


def test_an_episode_without_stages_says_how_to_make_them() -> None:
    with pytest.raises(EpisodeError, match="stepscore annotate"):
        stage_spans(episode())
    labelled = episode(labels=Labels((Label("stage", "reach", 0, 1),)))
    assert stage_spans(labelled) == (Stage("reach", 0, 1),)

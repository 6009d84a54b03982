"""What has no label is never trained on as false, and what is left out is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscore.errors import OptionError, SourceError
from stepscore.models.qwen3vl.inputs import Geometry
from stepscore.training.labelled_source import LabelledSource
from stepscore.training.vlm import setup as vlm_setup
from stepscore.training.vlm.config import VlmTrainConfig
from stepscore.training.vlm.data.clips import CERTAIN_LOG_ODDS, DONE_LOG_ODDS, sample_clip, sample_statements
from stepscore.training.vlm.data.dataset import LabelledVideo, read_videos
from stepscore.training.vlm.data.prompt_tree import Statement
from stepscore.training.vlm.data.stage_questions import StageQuestions
from stepscore.training.vlm.evaluation import evaluate
from stepscore.training.vlm.job import VlmJob
from stepscore.training.vlm.small_vlm import SmallVlmConfig
from stepscore.training.vlm.trainer import VlmTrainer
from tests.paths import TINY_SIM

SIZE = 32
NETWORK = SmallVlmConfig(
    48, 2, 2, 64, vision_hidden_size=32, vision_depth=2, vision_intermediate_size=48, image_size=SIZE
)
Row = dict[str, Any]
DRAWER, FAILED, PUCK = "episode_000000", "episode_000007", "episode_000008"


def dataset(
    folder: Path, keep: Callable[[Row], bool], change: Callable[[Row], Row] = lambda row: row
) -> Path:
    """Return the simulated dataset with the labels kept, each changed."""
    folder.mkdir()
    for name in ("data", "meta", "videos", "subgoals.yaml"):
        (folder / name).symlink_to(TINY_SIM / name)
    table = pq.read_table(TINY_SIM / "labels.parquet")
    rows = [change(row) for row in table.to_pylist() if keep(row)]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), folder / "labels.parquet")
    return folder


def only(*ids: str) -> Callable[[Row], bool]:
    return lambda row: row["episode_id"] in ids


def read(path: Path, tmp_path: Path, log: list[str] | None = None) -> list[LabelledVideo]:
    return read_videos(path, SIZE, tmp_path / "frames", log=(log if log is not None else []).append)


def statements(video: LabelledVideo, blocks: int = 4) -> list[tuple[Statement, int]]:
    """Many statements about a video, each with the last frame it is about."""
    texts, rng = vlm_setup.texts_of([video], {}), np.random.default_rng(0)
    found = []
    for _ in range(60):
        clip = sample_clip(video, blocks, rng)
        made = sample_statements(clip, texts, rng, max_prefixes=8, subgoal_fraction=1.0)
        found += [(one, clip.last_frame(one.blocks)) for one in made]
    return found


def about(
    video: LabelledVideo, name: str, made: Sequence[tuple[Statement, int]]
) -> list[tuple[Statement, int]]:
    text = vlm_setup.texts_of([video], {}).fill(name)
    return [(one, frame) for one, frame in made if one.text == text]


def test_episodes_without_labels_are_left_out_and_missing_ones_are_counted(tmp_path: Path) -> None:
    ids = [f"episode_{number:06d}" for number in range(4)]

    def blank(row: Row) -> Row:
        missing = {ids[1]: "success", ids[2]: "progress"}.get(row["episode_id"])
        return row | {"value": None} if row["kind"] == missing else row

    log: list[str] = []
    videos = read(dataset(tmp_path / "data", only(*ids), blank), tmp_path, log)
    assert [video.episode.id for video in videos] == ids
    assert [text.partition(": ")[2] for text in log] == [
        "used labels.parquet and subgoals.yaml, found next to the data.",
        "20 of 24 episodes left out (20 without progress or subgoal labels).",
        "1 of 4 episodes have no success label: nothing is trained about when their task is completed.",
        "1 of 4 episodes have no progress labels: nothing is trained about when their task is completed.",
    ]
    for video in videos[1:3]:
        assert not about(video, video.instruction, statements(video))
        assert any(about(video, subgoal.name, statements(video)) for subgoal in video.subgoals)
    assert np.isnan(videos[1].success[-1])
    assert np.isnan(videos[2].potential).all()


def test_stages_without_success_rows_are_no_failures(tmp_path: Path) -> None:
    def robust(row: Row) -> Row:
        return row | {"name": "robust"} if row["kind"] == "progress" else row

    path = dataset(tmp_path / "data", lambda row: row["kind"] in ("stage", "progress"), robust)
    (path / "data").unlink()
    for file in TINY_SIM.glob("data/**/*.parquet"):
        copy = path / file.relative_to(TINY_SIM)
        copy.parent.mkdir(parents=True)
        pq.write_table(pq.read_table(file).drop(["next.success"]), copy)
    videos = read(path, tmp_path)
    assert any(video.episode.labels.stages for video in videos)
    assert all(np.isnan(video.success).all() for video in videos)
    assert all(video.episode.labels.success is None for video in videos)
    log: list[str] = []
    with pytest.raises(SourceError, match="success label and progress labels"):
        VlmJob((path,), tmp_path / "out", image_size=SIZE, frames_dir=tmp_path / "frames").prepare(log.append)
    assert f"{len(videos)} of {len(videos)} episodes have no success label" in " ".join(log)
    derived = read_videos(
        LabelledSource(path, success_from_stages=True), SIZE, tmp_path / "frames", log=log.append
    )
    assert {video.success[-1] for video in derived} == {0.0, 1.0}
    assert all(np.isnan(video.success[:-1]).all() for video in derived)
    assert f"{len(videos)} of 24 success labels made from stages." in " ".join(log)


def test_subgoals_without_rows_are_no_targets(tmp_path: Path) -> None:
    path = dataset(tmp_path / "data", lambda row: row["kind"] != "subgoal")
    log: list[str] = []
    videos = read(path, tmp_path, log)
    count = sum(len(video.subgoals) for video in videos)
    assert count
    assert all(np.isnan(video.subgoals_true).all() for video in videos)
    assert not any(about(videos[0], each.name, statements(videos[0])) for each in videos[0].subgoals)
    assert f"{count} of {count} subgoals have no label; nothing is trained about them." in log[-1]


def test_labels_from_elsewhere_replace_those_beside_the_data(tmp_path: Path) -> None:
    path = dataset(tmp_path / "data", only(DRAWER))
    elsewhere = dataset(tmp_path / "other", only(DRAWER, FAILED)) / "labels.parquet"
    log: list[str] = []
    source = LabelledSource(path, labels=elsewhere)
    videos = read_videos(source, SIZE, tmp_path / "frames", log=log.append)
    assert [video.episode.id for video in videos] == [DRAWER, FAILED]
    assert "used subgoals.yaml, found next to the data." in log[0]
    with pytest.raises(OptionError, match="--subgoals belongs to one dataset"):
        VlmJob((path, path), tmp_path / "out", subgoals=path / "subgoals.yaml")


def test_a_dataset_without_a_usable_episode_is_refused(tmp_path: Path) -> None:
    unlabelled = dataset(tmp_path / "data", lambda row: row["kind"] != "progress")
    log: list[str] = []
    with pytest.raises(SourceError, match="success label and progress labels"):
        VlmJob((unlabelled,), tmp_path / "out", image_size=SIZE).prepare(log.append)
    assert "24 of 24 episodes have no progress labels" in log[1]


def test_success_known_of_the_end_alone_is_no_target_before_it(tmp_path: Path) -> None:
    # Progress by another name than the simulator's says nothing of success.
    path = dataset(
        tmp_path / "data",
        only(DRAWER),
        lambda row: row | {"name": "robust"} if row["kind"] == "progress" else row,
    )
    (video,) = read(path, tmp_path)
    assert np.isnan(video.success[:-1]).all()
    assert video.success[-1] == 1.0
    made = about(video, video.instruction, statements(video))
    assert made
    assert {(frame, one.log_odds) for one, frame in made} == {(len(video) - 1, DONE_LOG_ODDS)}


def test_success_at_some_time_is_stated_of_the_whole_video_alone(tmp_path: Path) -> None:
    def keep(row: Row) -> bool:
        return row["episode_id"] == DRAWER and (row["kind"], row["name"]) != ("success", "holds")

    path = dataset(
        tmp_path / "data", keep, lambda row: row | {"name": "robust"} if row["kind"] == "progress" else row
    )
    (video,) = read(path, tmp_path)
    assert np.isnan(video.success).all()
    made = about(video, video.instruction, statements(video))
    assert {(frame, one.log_odds, one.static) for one, frame in made} == {
        (len(video) - 1, DONE_LOG_ODDS, False)
    }
    assert not about(video, video.instruction, statements(video, blocks=1))


def test_an_unlabelled_subgoal_is_no_target(tmp_path: Path) -> None:
    missing, ever = "the drawer is fully open", "the drawer stands ajar"

    def keep(row: Row) -> bool:
        return row["episode_id"] == DRAWER and row["name"] != missing

    def whole(row: Row) -> Row:
        return row | {"start_s": None, "end_s": None} if row["name"] == ever else row

    log: list[str] = []
    (video,) = read(dataset(tmp_path / "data", keep, whole), tmp_path, log)
    assert "1 of 3 subgoals have no label" in log[-1]
    assert np.isnan(video.subgoals_true[:, 1:]).all()
    made = statements(video)
    assert not about(video, missing, made)
    stated = about(video, ever, made)
    # Of the clips that show the whole video alone.
    assert {(frame, one.log_odds) for one, frame in stated} == {(len(video) - 1, CERTAIN_LOG_ODDS)}
    assert about(video, "the fingers are at the drawer handle", made)


def test_progress_is_unknown_outside_of_its_labels_and_next_to_one_without_a_value(tmp_path: Path) -> None:
    def keep(row: Row) -> bool:
        return row["episode_id"] == DRAWER and not (row["kind"] == "progress" and row["start_s"] > 1.15)

    def blank(row: Row) -> Row:
        unknown = row["kind"] == "progress" and abs(row["start_s"] - 0.5) < 0.01
        return row | {"value": None} if unknown else row

    (video,) = read(dataset(tmp_path / "data", keep, blank), tmp_path)
    unknown = video.times[np.isnan(video.potential)]
    np.testing.assert_allclose(unknown[0], 0.5, atol=0.01)
    assert (unknown[1:] > 1.15).all()
    assert np.isfinite(video.potential[:5]).all()


def test_a_network_is_trained_and_evaluated_beside_episodes_with_gaps(tmp_path: Path) -> None:
    """Auxiliary heads, image questions and metrics leave out what has no label; losses and weights stay finite."""

    def keep(row: Row) -> bool:
        gap = row["episode_id"] == PUCK and (row["kind"] == "subgoal" or (row["start_s"] or 0.0) > 1.0)
        return row["episode_id"] in (DRAWER, FAILED, PUCK) and not gap

    videos = read(dataset(tmp_path / "data", keep), tmp_path)
    texts = vlm_setup.texts_of(videos, {})
    network, tokenizer = vlm_setup.new_network(texts, NETWORK, 0)
    config = VlmTrainConfig(steps=3, vision_pretrain_steps=1, align_steps=1, image_question_fraction=0.5)
    run: VlmTrainer = vlm_setup.build_trainer(
        network,
        vlm_setup.encode_with(tokenizer),
        videos,
        texts,
        config,
        tmp_path,
        geometry=Geometry(),
        image_size=SIZE,
    )
    assert run.image_batches is not None
    losses: list[float] = []
    run.run(on_step=lambda step, loss: losses.append(loss))
    assert np.isfinite(losses).all()
    run.image_batches.draw(np.random.default_rng(0), run.scaling)
    of_stages = [source for source in run.image_batches.sources if isinstance(source, StageQuestions)]
    asked = replace(run.image_batches, sources=of_stages)
    batches = [asked.draw(np.random.default_rng(seed), run.scaling)[0] for seed in range(3)]
    assert all(len(batch.target_ids) > 20 and not len(batch.choice_ids) for batch in batches)
    assert np.isfinite(evaluate(run, videos)["subgoals"])


def test_image_questions_that_no_label_answers_end_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscore.training.vlm.data.image_batches.MAX_UNANSWERED", 5)
    path = dataset(tmp_path / "data", lambda row: row["episode_id"] == DRAWER and row["kind"] != "subgoal")
    videos = read(path, tmp_path)
    texts = vlm_setup.texts_of(videos, {})
    network, tokenizer = vlm_setup.new_network(texts, NETWORK, 0)
    run = vlm_setup.build_trainer(
        network, vlm_setup.encode_with(tokenizer), videos, texts, VlmTrainConfig(), tmp_path, geometry=Geometry(),
        image_size=SIZE,
    )  # fmt: skip
    assert run.image_batches is not None
    with pytest.raises(
        SourceError, match=r"'the drawer is fully open'.*-T image-question-fraction=0"
    ) as caught:
        # gvl and the procvlm prompt without subgoals need none.
        replace(run.image_batches, sources=vlm_setup.image_judges()[:2]).draw(np.random.default_rng(0), None)
    assert "--labels" not in str(caught.value)

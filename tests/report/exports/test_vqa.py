"""Exported questions have the right answers, the images they name, and the layout that trainers read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from stepscore.cli.main import run
from stepscore.episodes import Episode, Label, Labels, Subgoal
from stepscore.errors import EpisodeError
from stepscore.judges.common.parsing import parse_remaining_actions, parse_tagged_percent
from stepscore.report.exports.vqa import KINDS, VqaExport, export_vqa, questions_of, writer
from stepscore.training import LabelledSource
from tests import fakes
from tests.paths import TINY_SIM


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    return LabelledSource(TINY_SIM).episodes()


@pytest.fixture(scope="module")
def exported(episodes: list[Episode], tmp_path_factory: pytest.TempPathFactory) -> VqaExport:
    folder = tmp_path_factory.mktemp("vqa") / "out"
    return export_vqa(episodes, folder, times=4, size=32, val_fraction=0.3, rows_per_shard=50)


def rows_of(folder: Path, split: str) -> list[dict[str, Any]]:
    return [
        json.loads(line) for shard in sorted((folder / split).glob("*.jsonl")) for line in shard.open("rb")
    ]


def pulled(success: float | None = 1.0) -> Episode:
    """Five seconds: it is grasped from 2 s on, and open from 4 s on."""
    rows = [
        Label("subgoal", "grasp it", 2.0, 5.0, 1.0),
        Label("subgoal", "open it", 4.0, 5.0, 1.0),
        Label("stage", "reach", 0.0, 2.0),
        Label("stage", "pull", 2.0, 5.0),
        *(Label("progress", "potential", at / 10, value=min(1.0, at / 40)) for at in range(50)),
    ]
    rows += [] if success is None else [Label("success", "holds", value=success)]
    subgoals = (Subgoal("grasp it"), Subgoal("open it"))
    return fakes.episode(labels=Labels(tuple(rows)), subgoals=subgoals)


def test_every_row_is_a_conversation_with_an_image_for_every_place(exported: VqaExport) -> None:
    for split in ("train", "validation"):
        for row in rows_of(exported.folder, split):
            assert set(row) == {"messages", "images", "kind", "episode"}
            roles = [message["role"] for message in row["messages"]]
            assert roles[-2:] == ["user", "assistant"]
            assert all(set(message) == {"role", "content"} for message in row["messages"])
            assert all(isinstance(message["content"], str) for message in row["messages"])
            text = "".join(message["content"] for message in row["messages"])
            assert text.count("<image>") == len(row["images"]) > 0
            assert "<image>" not in row["messages"][-1]["content"]
            assert all((exported.folder / path).is_file() for path in row["images"])


def test_images_are_written_once_at_the_size_asked_for(exported: VqaExport) -> None:
    files = list((exported.folder / "images").rglob("*.jpg"))
    assert len(files) == exported.images
    with Image.open(files[0]) as image:
        assert max(image.size) == 32


def test_the_description_names_what_llama_factory_reads(exported: VqaExport) -> None:
    info = json.loads((exported.folder / "dataset_info.json").read_text())
    assert set(info) == {"stepscore_train", "stepscore_validation"}
    for entry in info.values():
        assert entry["formatting"] == "sharegpt"
        assert entry["columns"] == {"messages": "messages", "images": "images"}
        assert {"role_tag", "content_tag", "user_tag", "assistant_tag"} <= set(entry["tags"])
        shards = list((exported.folder / entry["file_name"]).iterdir())
        assert shards
        assert {shard.suffix for shard in shards} == {".jsonl"}


def test_counts_are_those_of_the_rows_and_scenes_are_whole(
    exported: VqaExport, episodes: list[Episode]
) -> None:
    scene = {episode.id: (episode.task, episode.pair or episode.id) for episode in episodes}
    card, seen = (exported.folder / "README.md").read_text(), {}
    for split in ("train", "validation"):
        rows = rows_of(exported.folder, split)
        assert Counter(row["kind"] for row in rows) == exported.questions[split]
        assert set(exported.questions[split]) == set(KINDS)
        seen[split] = {scene[row["episode"]] for row in rows}
        assert len(list((exported.folder / split).iterdir())) == -(-len(rows) // 50)
    assert not seen["train"] & seen["validation"]
    for kind in KINDS:
        counts = " | ".join(str(exported.questions[split][kind]) for split in ("train", "validation"))
        assert f"| {kind} | {counts} |" in card


def test_answers_follow_the_labels() -> None:
    asked = list(questions_of(pulled(), times=6))  # at 0, 1, 2, 2.9, 3.9 and 4.9 s
    by_kind = {kind: [one for one in asked if one.kind == kind] for kind in KINDS}
    last = {one.frames[-1][1]: one.answer for one in by_kind["remaining"]}
    assert last[0] == "1. grasp it\n2. open it"
    assert last[29] == "1. open it"
    assert last[49] == "No action required: the task is completed."
    following = {one.frames[-1][1]: one.answer for one in by_kind["next"]}
    assert (following[0], following[29]) == ("grasp it", "open it")
    done = {one.frames[-1][1]: one.answer for one in by_kind["success"]}
    assert (done[0], done[49]) == ("No.", "Yes.")
    for one in by_kind["progress"]:
        at = one.frames[-1][1]
        assert parse_tagged_percent(one.answer, "progress") == pytest.approx(min(1, at / 40), abs=1e-4)
        left = parse_remaining_actions(one.answer)
        assert left == tuple(["grasp it"] * (at < 20) + ["open it"] * (at < 40))
    (segments,) = by_kind["segmentation"]
    assert [each["action"] for each in json.loads(segments.answer)] == ["reach", "pull"]
    assert json.loads(segments.answer)[1]["last_frame"] == len(segments.frames)
    assert by_kind["pairs"]


def test_what_is_not_labelled_is_not_asked() -> None:
    silent = replace(pulled(), labels=Labels((Label("success", "holds", value=0.0),)))
    asked = list(questions_of(silent, times=6))
    assert [(one.kind, one.frames[-1][1], one.answer) for one in asked] == [("success", 49, "No.")]
    without = replace(pulled(None), labels=Labels((Label("stage", "reach", 0.0, 2.0),)))
    assert {one.kind for one in questions_of(without)} == {"segmentation"}
    assert not list(questions_of(fakes.episode()))


def test_no_question_is_asked_twice() -> None:
    asked = list(questions_of(pulled(), times=50))
    assert len(asked) == len(set(asked))


def test_trl_reads_what_the_card_says(exported: VqaExport, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    trl = pytest.importorskip("trl.data_utils")
    monkeypatch.chdir(exported.folder)
    names: dict[str, Any] = {}
    exec((exported.folder / "README.md").read_text().split("```python\n")[1].split("```")[0], names)
    assert len(names["train"]) == sum(exported.questions["train"].values())
    for row in names["train"]:
        read = trl.prepare_multimodal_messages(row["messages"], images=row["images"])
        parts = [part["type"] for message in read for part in message["content"]]
        assert parts.count("image") == len(row["images"])


def test_questions_are_the_same_each_time_and_no_instruction_adds_an_image() -> None:
    assert list(questions_of(pulled())) == list(questions_of(pulled()))
    odd = replace(pulled(), instruction="open the <image> drawer")
    for one in questions_of(odd):
        text = "".join(content for _, content in one.turns)
        assert text.count("<image>") == len(one.frames), one.kind


def test_memory_holds_one_episode_of_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = most = 0

    def counted(episode: Episode, times: int) -> Iterator[object]:
        nonlocal held, most
        for question in questions_of(episode, times):
            held += 1
            most = max(most, held)
            yield question

    def written(self: Any, row: dict[str, object]) -> None:
        nonlocal held
        held -= 1
        write(self, row)

    write = writer._Shards.write
    monkeypatch.setattr(writer, "questions_of", counted)
    monkeypatch.setattr(writer._Shards, "write", written)
    several = [replace(pulled(), id=f"e{number}") for number in range(12)]
    result = export_vqa(several, tmp_path / "out", times=3, rows_per_shard=7)
    made = Counter(row["episode"] for split in writer.SPLITS for row in rows_of(result.folder, split))
    assert held == 0
    assert most == max(made.values()) < sum(made.values()) / 10


def test_an_episode_without_an_answer_is_named_and_none_at_all_is_an_error(tmp_path: Path) -> None:
    result = export_vqa([pulled(), replace(fakes.episode(), id="bare")], tmp_path / "out", times=2)
    assert list(result.failed) == ["bare"]
    assert "--labels FILE" in result.failed["bare"]
    with pytest.raises(EpisodeError, match="no question"):
        export_vqa([fakes.episode()], tmp_path / "none")


def test_the_command_writes_again_over_its_own_and_refuses_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["export", str(TINY_SIM), "--to", "vqa", "--episodes", "0,1,8,9", "-o", str(tmp_path / "out")]
    words += ["--labels", str(TINY_SIM / "labels.parquet")]
    assert run(words) == 0
    said = capfd.readouterr()
    assert said.out.strip() == str(tmp_path / "out")
    assert "of 4 episodes" in said.err
    assert run(words) == 0
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    assert run([*words[:-4], "-o", str(foreign)]) == 2
    assert run([*words, "--videos", "none"]) == 2
    assert run(["export", str(tmp_path), "--to", "rerun", "-o", "x.rrd", "--labels", "l.csv"]) == 2

"""Manifests, labels, subgoals, curves and the like that are no text, or no ordinary one: one line names the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import stepscore
from stepscore.episodes import open_episodes
from stepscore.episodes.labels.labels import read_labels
from stepscore.episodes.labels.subgoals import read_subgoals
from stepscore.errors import EpisodeError, StepScoreError
from tests.media import write_video

READERS: dict[str, Callable[[Path], object]] = {
    "labels.csv": read_labels,
    "labels.jsonl": read_labels,
    "labels.parquet": read_labels,
    "subgoals.yaml": read_subgoals,
    "list.yaml": lambda path: open_episodes(path, reader="folder"),
    "list.jsonl": lambda path: open_episodes(path, reader="folder"),
    "list.csv": lambda path: open_episodes(path, reader="folder"),
    "curves.csv": lambda path: open_episodes(path, reader="curves"),
    "curves.jsonl": lambda path: open_episodes(path, reader="curves"),
    "curves.parquet": lambda path: open_episodes(path, reader="curves"),
    "eval_info.json": lambda path: open_episodes(path.parent, reader="lerobot-eval"),
    "tasks.json": lambda path: open_episodes(path.parent, reader="prm"),
}
TEXTS = {
    "not UTF-8": b"\xff\xfe\x00x: [1]\n",
    "deep brackets": b"[" * 100_000,
    "deep braces": b'{"a":' * 5_000,
    "5,000 digits": b'{"episode_id": ' + b"9" * 5_000 + b"}\n",
    "5,000 digits in YAML": b"- {video: x.mp4, instruction: x, fps: " + b"9" * 5_000 + b"}\n",
    "a 13th month": b"- {video: x.mp4, instruction: x, metadata: {day: 2024-13-45}}\n",
    "a year 0": b"tasks: {x: {subgoals: [0000-00-00]}}\n",
    "NUL": b"\0" * 50,
    "an alias of itself": b"- &a {video: x.mp4, instruction: x, metadata: {b: *a}}\n",
    "a tag that runs code": b"!!python/object/apply:os.system ['exit 9']\n",
    "one long line": b"x" * 3_000_000,
}


@pytest.mark.parametrize("content", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("name", READERS)
def test_an_odd_text_is_refused_in_one_line(name: str, content: bytes, tmp_path: Path) -> None:
    write_video(tmp_path / "x.mp4", 2)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(StepScoreError) as refused:
        READERS[name](tmp_path / name)
    assert len(str(refused.value)) < 1500
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_or_a_device_is_not_opened(name: str, tmp_path: Path) -> None:
    for make in (
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to(path.name),
    ):
        make(tmp_path / name)
        with pytest.raises(StepScoreError):
            READERS[name](tmp_path / name)
        (tmp_path / name).unlink()


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_claims_terabytes_is_refused_without_being_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(StepScoreError) as refused:
        READERS[name](path)
    assert "\n" not in str(refused.value)


def test_a_curve_file_of_terabytes_is_never_hashed(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", 6)
    with (tmp_path / "a.curve.csv").open("wb") as file:
        file.truncate(1 << 42)
    episodes = open_episodes(tmp_path)
    with pytest.raises(EpisodeError, match=r"4398\.0 GB; at most 8\.6 GB can be read"):
        episodes[0].fingerprint  # noqa: B018
    run = stepscore.score(episodes, stepscore.get_judge("recorded"), out=tmp_path / "run")
    assert "Cannot read" in run.judgements()["error"][0].as_py()

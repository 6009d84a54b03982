"""``export --to vqa``: questions in shards of JSON lines, their images, and a card, written as they are made.

Each line is ``{"messages": [{"role", "content"}, ...], "images": [PATH, ...], "kind", "episode"}``, with ``<image>``
in the contents once for every path: LLaMA-Factory's ShareGPT layout, which comes with its ``dataset_info.json``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from PIL import Image

from stepscore._files import write_json, write_text
from stepscore._progress import track
from stepscore.episodes import Episode
from stepscore.errors import EpisodeError, StepScoreError
from stepscore.report.exports.vqa.card import card_text, dataset_info
from stepscore.report.exports.vqa.questions import Question, questions_of
from stepscore.training import scene_of, validation_scenes

SPLITS = ("train", "validation")
ROWS_PER_SHARD = 10_000
FRAMES_AT_A_TIME = 32
JPEG_QUALITY = 90
FACTS_FILE = "vqa.json"


@dataclass(frozen=True)
class VqaExport:
    """What :func:`export_vqa` wrote.

    Attributes:
        folder: Where.
        questions: Number of questions by split and kind.
        episodes: Number of episodes with a question, by split.
        images: Number of image files.
        failed: Why an episode has no question, by its id.
    """

    folder: Path
    questions: Mapping[str, Mapping[str, int]]
    episodes: Mapping[str, int]
    images: int
    failed: Mapping[str, str]


def export_vqa(
    episodes: Sequence[Episode],
    folder: Path,
    *,
    times: int = 16,
    size: int = 512,
    val_fraction: float = 0.1,
    rows_per_shard: int = ROWS_PER_SHARD,
) -> VqaExport:
    """Write the questions that the labels of episodes answer, with the images they show.

    Memory holds the questions of one episode at a time, however many there are. Scenes (``pair``) are whole in one
    split.

    Args:
        episodes: Labelled episodes.
        folder: Where to; shards of an earlier export are replaced.
        times: How many times of an episode are asked about.
        size: Longer side of an image in pixels, at most.
        val_fraction: Share of the scenes of every task in the split ``validation``.
        rows_per_shard: Questions in a file.

    Raises:
        EpisodeError: The labels answer no question about any episode.
    """
    held = validation_scenes(episodes, val_fraction)
    for split in SPLITS:
        for shard in (folder / split).glob("*.jsonl"):
            shard.unlink()
    write_json(folder / FACTS_FILE, {"format": 1, "questions": {}, "finished": False}, make_folder=True)
    counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
    having: Counter[str] = Counter()
    failed: dict[str, str] = {}
    n_images = 0
    with ExitStack() as stack:
        shards = {split: stack.enter_context(_Shards(folder / split, rows_per_shard)) for split in SPLITS}
        for episode in track(episodes, "Writing questions", len(episodes)):
            split = SPLITS[scene_of(episode) in held]
            try:
                # All of one episode, so that each of its frames is decoded once.
                questions = _checked(episode, list(questions_of(episode, times)))
                n_images += _write_images(episode, questions, folder, size)
            except (StepScoreError, OSError) as error:
                failed[episode.id] = str(error)
                continue
            having[split] += 1
            for question in questions:
                shards[split].write(row_of(question, episode))
                counts[split][question.kind] += 1
    if not having:
        raise EpisodeError(f"The labels answer no question. The first: {next(iter(failed.values()), 'none')}")
    result = VqaExport(folder, counts, dict(having), n_images, failed)
    names = [split for split in SPLITS if counts[split]]
    write_json(folder / "dataset_info.json", dataset_info(names))
    write_text(folder / "README.md", card_text(counts, having, n_images, len(failed)))
    write_json(
        folder / FACTS_FILE,
        {"format": 1, "questions": counts, "episodes": having, "images": n_images, "finished": True},
    )
    return result


def row_of(question: Question, episode: Episode) -> dict[str, object]:
    """Return a question as a line of a shard."""
    messages = [{"role": role, "content": text} for role, text in question.turns]
    messages.append({"role": "assistant", "content": question.answer})
    images = [image_path(episode.id, view, index) for view, index in question.frames]
    return {"messages": messages, "images": images, "kind": question.kind, "episode": episode.id}


def image_path(episode_id: str, view: str, index: int) -> str:
    """Return the path of a frame's image in the folder."""
    return f"images/{episode_id}/{view.replace('/', '_')}_{index:06d}.jpg"


def _checked(episode: Episode, questions: list[Question]) -> list[Question]:
    if not questions:
        raise EpisodeError(
            f"Episode {episode.id}: its labels answer no question. Success, progress, subgoals and stages do: "
            "--labels FILE"
        )
    return questions


def _write_images(episode: Episode, questions: Iterable[Question], folder: Path, size: int) -> int:
    """Write every frame that the questions show, once; return their number."""
    shown: dict[str, set[int]] = {}
    for view, index in (frame for question in questions for frame in question.frames):
        shown.setdefault(view, set()).add(index)
    for view, found in shown.items():
        info, indices = episode.view(view).info(), sorted(found)
        side = min(size, max(info.width, info.height))
        for start in range(0, len(indices), FRAMES_AT_A_TIME):
            batch = indices[start : start + FRAMES_AT_A_TIME]
            for index, frame in zip(batch, episode.clip(view, indices=batch, size=side).frames, strict=True):
                path = folder / image_path(episode.id, view, index)
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(frame).save(path, "JPEG", quality=JPEG_QUALITY)
    return sum(map(len, shown.values()))


@dataclass
class _Shards:
    """Writes rows to numbered files of a folder, one open at a time."""

    folder: Path
    rows_per_shard: int
    written: int = 0
    _file: IO[str] | None = field(default=None, repr=False)

    def __enter__(self) -> _Shards:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, row: Mapping[str, object]) -> None:
        """Write a row, to the next file where the last is full."""
        if self.written % self.rows_per_shard == 0:
            self.__exit__()
            self.folder.mkdir(parents=True, exist_ok=True)
            name = f"{self.written // self.rows_per_shard:05d}.jsonl"
            self._file = (self.folder / name).open("w", encoding="utf-8", newline="\n")
        assert self._file is not None
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self.written += 1

"""Recordings of vla-eval: ``recording-<eval_id>.sqlite`` with the videos of ``record_video``.

::

    recording-<eval_id>.sqlite                                 eval_metadata, episode_results
    episodes/<benchmark>/task0000_ep0000_<status>.mp4          one for each episode, where videos were recorded

An episode's row names its step file, ``jsonl_path``, relative to the folder of the recording; its video has the same
name. The source is the file, or a folder that holds one or several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from stepscore._untrusted import parse_json, shown
from stepscore._untrusted.sqlite_tables import Cell, is_sqlite, read_tables
from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.naming import MAIN, in_words, policy_from, policy_rule, safe_name, safe_text
from stepscore.episodes.readers.scan import first_file, scan
from stepscore.episodes.source import Listing, Problem, ReadOptions
from stepscore.episodes.video.video_view import VideoView
from stepscore.errors import SourceError

TABLES = {
    "eval_metadata": ("eval_id", "safe_name", "metadata"),
    "episode_results": (
        *("sid", "eid", "eval_id", "task_name", "episode_id", "status", "metrics", "steps", "elapsed_sec"),
        *("context", "jsonl_path", "failure_reason", "failure_detail"),
    ),
}
INSTRUCTIONS = ("task_description", "instruction", "language_instruction", "language")
"""Fields of an episode's context that hold its instruction, in the order in which they are looked for."""
_RULES = (
    "Id: the path of the episode's files below the source, as jsonl_path has it, without suffix.",
    "Task: task_name. Instruction: the context's task_description, instruction or language, else the task's name.",
    "Success: status success or fail; unknown for error, which is not the policy's. Dataset: the benchmark.",
    "Pair: the context's episode_idx, by which a benchmark chooses the initial state.",
)


class VlaEvalReader:
    """Recordings of vla-eval."""

    def matches(self, path: Path) -> bool:
        """Return whether it is such a file, or a folder with one in it or one folder down."""
        if path.is_dir():
            found = first_file(path, _is_recording, depth=1)
            return found is not None and is_sqlite(found)
        return _is_recording(path.name) and is_sqlite(path)

    def read(self, path: Path, options: ReadOptions) -> Listing:
        """List the episodes; those without a video are problems."""
        problems: list[Problem] = []
        files = [path]
        if path.is_dir():
            folders, problems = scan(path, (".sqlite",))
            files = [folder.path / name for folder in folders for name in folder.files if _is_recording(name)]
        root = path if path.is_dir() else path.parent
        episodes: dict[str, Episode] = {}
        for file in files:
            try:
                found = list(_episodes(file, root, problems))
            except SourceError as error:
                if len(files) == 1:
                    raise
                problems.append(Problem(shown(file.relative_to(root)), str(error)))
                continue
            for episode in found:
                if episode.id in episodes:
                    problems.append(Problem(episode.id, "recorded twice; the first is read"))
                else:
                    policy = policy_from(episode.id.split("/")[:-1], options.policy_from, episode.id)
                    episodes[episode.id] = replace(episode, policy=policy)
        ordered = [episodes[name] for name in sorted(episodes)]
        return Listing(ordered, tuple(problems), (*_RULES, policy_rule(options.policy_from)))


def _is_recording(name: str) -> bool:
    return name.startswith("recording-") and name.endswith(".sqlite")


def _episodes(file: Path, root: Path, problems: list[Problem]) -> Iterator[Episode]:
    tables = read_tables(file, TABLES)
    benchmarks = {str(row["eval_id"]): _benchmark(row) for row in tables["eval_metadata"]}
    missing = 0
    for row in tables["episode_results"]:
        video = _video(row["jsonl_path"], file.parent)
        if video is None:
            missing += 1
            continue
        context = _object(row["context"])
        name = safe_text(_text(row["task_name"]) or "unknown")
        stated = next((text for key in INSTRUCTIONS if (text := _text(context.get(key)))), None)
        scene = context.get("episode_idx")
        yield Episode(
            id=safe_name(video.relative_to(root).with_suffix("").as_posix()),
            instruction=safe_text(stated) if stated else in_words(name),
            task=name,
            dataset=benchmarks.get(str(row["eval_id"])),
            views={MAIN: VideoView(video)},
            pair=str(scene) if isinstance(scene, int) and not isinstance(scene, bool) else None,
            labels=_labels(row["status"]),
            metadata=_metadata(row),
        )
    if missing:
        n = len(tables["episode_results"])
        why = f"{missing} of {n} episodes have no video; record them: vla-eval with record_video: true"
        problems.append(Problem(shown(file.relative_to(root)), why))


def _benchmark(row: Mapping[str, Cell]) -> str | None:
    stated = _text(_object(row["metadata"]).get("benchmark")) or _text(row["safe_name"])
    return safe_text(stated.rpartition(":")[2][:200]) if stated else None


def _video(stated: Cell, folder: Path) -> Path | None:
    """Return the video of a step file. Only videos in the recording's folder are read, whatever the row states.

    A run in a container states the container's path: look for the end of that path in the folder.
    """
    text = _text(stated)
    if not text or "\0" in text or len(text) > 4096:
        return None
    pure = PureWindowsPath(text) if "\\" in text else PurePosixPath(text)
    parts = [part for part in pure.parts if part not in (pure.anchor, "/")]
    if not parts or ".." in parts:
        return None
    for first in range(len(parts)) if pure.is_absolute() else (0,):
        try:
            video = folder.joinpath(*parts[first:]).with_suffix(".mp4")
            if video.is_file():
                return video
        except (OSError, ValueError):
            return None
    return None


def _labels(status: Cell) -> Labels:
    if status not in ("success", "fail"):
        return Labels()
    return Labels((Label("success", "ever", value=float(status == "success"), author="vla-eval"),))


def _metadata(row: Mapping[str, Cell]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name in ("status", "steps", "elapsed_sec", "failure_reason", "failure_detail"):
        value = row[name]
        if isinstance(value, str):
            kept[name] = safe_text(value[:2000])
        elif isinstance(value, int | float):
            kept[name] = value
    metrics = _object(row["metrics"])
    numbers = {str(key)[:100]: value for key, value in metrics.items() if isinstance(value, int | float)}
    return {**kept, **({"metrics": numbers} if numbers else {})}


def _object(text: Cell) -> dict[str, Any]:
    """Return the JSON object of a cell; empty if there is none."""
    if not isinstance(text, str) or not text:
        return {}
    try:
        found = parse_json(text, "", SourceError)
    except SourceError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None

"""Folders of PRM-as-a-Judge (code v1.0: eval/README.md and eval/run_judge.py).

::

    videos/<benchmark>/<task>/<model>/<episode>_<high|left|right>[_...].mp4
    tasks/<benchmark>.json                                                {"<task>": "<instruction>"}
    goals/<benchmark>/<task>/<one image>                                  optional
    results/<run>/<benchmark>/<model>/<task>/<episode>/pred_vllm.json     optional

The source is the folder that holds ``videos`` and ``tasks``, or ``videos`` itself with ``tasks`` beside it,
or a folder of benchmarks with ``tasks`` or one ``tasks.json`` inside. In this layout the model's folder
is the policy, so it is known without --policy-from.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from stepscore._untrusted import read_json
from stepscore.episodes.episode import Episode
from stepscore.episodes.naming import in_words, policy_from
from stepscore.episodes.readers.scan import Folder, scan
from stepscore.episodes.source import Listing, Problem, ReadOptions
from stepscore.episodes.video.video_view import VideoView
from stepscore.errors import ManifestError

VIEWS = ("high", "left", "right")
_VIDEO = re.compile(rf"(?P<episode>.+?)_(?P<view>{'|'.join(VIEWS)})(?:_.+)?\.mp4")
_IMAGES = (".png", ".jpg", ".jpeg", ".webp")
_RULES = (
    "Id: benchmark/task/model/episode, of <benchmark>/<task>/<model>/<episode>_<high|left|right>[_...].mp4.",
    "Dataset is the benchmark, task the task's folder, policy the model's folder, as this layout has them.",
    "Instruction: tasks/<benchmark>.json; where it lacks a task, the name of the task's folder in words.",
    "Goal image, of the view high: the one image in goals/<benchmark>/<task>.",
    "Recorded curves: pred_vllm.json in results/<run>/<benchmark>/<model>/<task>/<episode>, one per run.",
)


@dataclass(frozen=True)
class _PrmFolders:
    """Folders of a source; ``prompts`` are the files with instructions."""

    videos: Path
    home: Path
    prompts: tuple[Path, ...]


class PrmReader:
    """Rollouts laid out for PRM-as-a-Judge v1.0."""

    def matches(self, path: Path) -> bool:
        """Return whether there are instructions in JSON and, three folders down, a video named after a view."""
        try:
            layout = _find_folders(path) if path.is_dir() else None
            if layout is None:
                return False
            some = islice(layout.videos.glob("*/*/*/*.mp4"), 64)
            return any(_VIDEO.fullmatch(video.name) for video in some)
        except OSError:
            return False

    def read(self, path: Path, options: ReadOptions) -> Listing:
        """List the episodes: each (benchmark, task, model, episode) that has at least one view."""
        layout = _find_folders(path)
        if layout is None:
            raise ManifestError(
                f"{path}: no instructions there; expected tasks/<benchmark>.json or tasks.json."
            )
        prompts = _prompts(layout.prompts)
        folders, problems = scan(layout.videos, (".mp4",))
        episodes: list[Episode] = []
        for folder in folders:
            videos = [name for name in folder.files if name.lower().endswith(".mp4")]
            if not videos or folder.parts[:1] in (("goals",), ("results",)):
                continue
            if len(folder.parts) == 3:
                episodes += _of_model(folder, _views(folder, videos, problems), layout, prompts, problems)
            else:
                why = f"{len(videos)} videos, not in a folder <benchmark>/<task>/<model>"
                problems.append(Problem("/".join(folder.parts) or str(path), why))
        placed = [replace(episode, source=str(path)) for episode in episodes]
        if options.policy_from is not None:
            depth = options.policy_from
            placed = [replace(e, policy=policy_from(e.id.split("/")[:-1], depth, e.id)) for e in placed]
        return Listing(sorted(placed, key=lambda episode: episode.id), tuple(problems), _RULES)


def _find_folders(path: Path) -> _PrmFolders | None:
    inside = path / "videos" if (path / "videos").is_dir() else path
    for home in (path, path.resolve().parent):
        prompts = [*sorted((home / "tasks").glob("*.json"))]
        if home == path:
            prompts += [file for file in (path / "tasks.json",) if file.is_file()]
        if prompts:
            return _PrmFolders(inside, home, tuple(prompts))
    return None


def _prompts(files: Sequence[Path]) -> Mapping[tuple[str, str], str]:
    """Read instructions by (benchmark, task); the benchmark is the file's name, or ``""`` for one tasks.json."""
    instructions: dict[tuple[str, str], str] = {}
    for file in files:
        content = read_json(file, ManifestError)
        if not isinstance(content, dict):
            raise ManifestError(f"{file}: expected an object of instructions by task.")
        benchmark = "" if file.name == "tasks.json" else file.stem
        for task, text in content.items():
            nested = text if isinstance(text, dict) else {task: text}
            home = task if isinstance(text, dict) else benchmark
            for name, instruction in nested.items():
                if not isinstance(instruction, str) or not instruction.strip():
                    raise ManifestError(f"{file}: the instruction of task {name!r} is not a text.")
                instructions[home, name] = instruction.strip()
    return instructions


def _views(folder: Folder, videos: Sequence[str], problems: list[Problem]) -> Mapping[str, dict[str, str]]:
    """Return video by view for each episode of a model's folder."""
    episodes: dict[str, dict[str, str]] = defaultdict(dict)
    for name in videos:
        match = _VIDEO.fullmatch(name)
        if match is None:
            problems.append(Problem(folder.id_of(name), f"its name has none of _{', _'.join(VIEWS)}"))
        elif match["view"] in episodes[match["episode"]]:
            first = episodes[match["episode"]][match["view"]]
            problems.append(
                Problem(folder.id_of(name), f"{first} is that view already; this one is left out")
            )
        else:
            episodes[match["episode"]][match["view"]] = name
    for name, views in episodes.items():
        missing = [view for view in VIEWS if view not in views]
        if missing:
            problems.append(Problem(folder.id_of(name), f"has no view {' and no view '.join(missing)}"))
    return episodes


def _of_model(
    folder: Folder,
    episodes: Mapping[str, Mapping[str, str]],
    layout: _PrmFolders,
    prompts: Mapping[tuple[str, str], str],
    problems: list[Problem],
) -> Iterator[Episode]:
    """Yield the episodes of one <benchmark>/<task>/<model> folder, given the video of each of their views."""
    benchmark, task, model = folder.parts
    instruction = prompts.get((benchmark, task)) or prompts.get(("", task))
    if instruction is None:
        instruction = in_words(task)
        why = f"no instruction for task {task!r}; the name of its folder is used"
        problems.append(Problem("/".join(folder.parts), why))
    goals = _goals(layout.home / "goals" / benchmark / task, problems)
    for name, videos in episodes.items():
        yield Episode(
            id=folder.id_of(name),
            instruction=instruction,
            task=task,
            policy=model,
            dataset=benchmark,
            views={view: VideoView(folder.path / videos[view]) for view in VIEWS if view in videos},
            goals=goals,
            recorded=_recorded(layout.home / "results", benchmark, model, task, name),
        )


def _goals(folder: Path, problems: list[Problem]) -> dict[str, Path]:
    images = sorted(file for file in folder.glob("*") if file.suffix.lower() in _IMAGES)
    if len(images) > 1:
        problems.append(
            Problem(str(folder), f"{len(images)} goal images, where one is expected; none is used")
        )
    return {"high": images[0]} if len(images) == 1 else {}


def _recorded(results: Path, *names: str) -> tuple[Path, ...]:
    # run_judge.py writes every name with other characters than these replaced.
    safe = [re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("_") or "sample" for name in names]
    try:
        runs = sorted(results.iterdir())
    except OSError:
        return ()
    files = [run.joinpath(*safe, "pred_vllm.json") for run in runs]
    return tuple(file for file in files if os.path.isfile(file))

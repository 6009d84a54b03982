"""Output folders of ``lerobot-eval``: eval_info.json with videos, or with recordings.

::

    eval_info.json                              {"per_task": [{"task_group", "task_id", "metrics", "n_success"}], ...}
    videos/<group>_<id>/eval_episode_<i>.mp4    the first 10 episodes of a task
    recordings/<group>_<id>/[env_<k>/]          LeRobot datasets, with --eval.recording=true

The source is such a folder, or one that holds several (``outputs/eval/<date>``). Older versions wrote
``per_episode`` and videos/eval_episode_<i>.mp4; those are read, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stepscore._untrusted import read_json, shown
from stepscore.episodes.cameras import MAIN
from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.naming import in_words, policy_from, policy_rule
from stepscore.episodes.readers.scan import first_file, scan
from stepscore.episodes.source import Listing, Problem, ReadOptions
from stepscore.episodes.video.video_view import VideoView
from stepscore.errors import SourceError

INFO = "eval_info.json"
_VIDEO = re.compile(r"eval_episode_(?P<index>\d+)\.mp4")
_RULES = (
    "Id: the video's path below the source without suffix; a recording's path, then its episode.",
    "Task: <group>_<id>, as eval_info.json has them. It holds no instruction: videos get the group's name; "
    "recordings have their own.",
    "Success: metrics.successes in eval_info.json, true when the simulator reported success at some time.",
)


@dataclass(frozen=True)
class _Task:
    """The episodes of one task: ``folder`` is the name of its folder under videos and recordings."""

    folder: str
    group: str
    metrics: Mapping[str, list[Any]]
    n_success: int | None = None
    """Successes that the file counts itself, from LeRobot of September 2026 on."""

    def value(self, name: str, index: int) -> Any:
        """Return the metric of one episode; ``None`` where it is missing."""
        values = self.metrics.get(name, [])
        return values[index] if index < len(values) else None


class LeRobotEvalReader:
    """Output folders of ``lerobot-eval``."""

    def matches(self, path: Path) -> bool:
        """Return whether eval_info.json is in the folder or up to two folders below."""
        return path.is_dir() and first_file(path, lambda name: name == INFO, depth=2) is not None

    def read(self, path: Path, options: ReadOptions) -> Listing:
        """List the episodes that have a video or a recording; the number of those with neither is a problem."""
        folders, problems = scan(path, (INFO,))
        episodes: list[Episode] = []
        for folder in folders:
            if INFO in folder.files:
                try:
                    tasks = _tasks(folder.path / INFO)
                except SourceError as error:
                    if not folder.parts:
                        raise
                    problems.append(Problem("/".join(folder.parts), str(error)))
                    continue
                prefix = "".join(f"{part}/" for part in folder.parts)
                for task in tasks:
                    episodes += _videos(task, folder.path, prefix, problems)
                    episodes += _recordings(task, folder.path, prefix, problems)
        placed = [
            replace(
                episode,
                source=str(path),
                policy=policy_from(episode.id.split("/")[:-1], options.policy_from, episode.id),
            )
            for episode in episodes
        ]
        rules = (*_RULES, policy_rule(options.policy_from))
        return Listing(sorted(placed, key=lambda episode: episode.id), tuple(problems), rules)


def _tasks(path: Path) -> list[_Task]:
    try:
        # An empty group is written as bare NaN, which Python's parser accepts.
        content = read_json(path, SourceError)
        if "per_task" in content:
            return [
                _Task(
                    f"{task['task_group']}_{task['task_id']}",
                    str(task["task_group"]),
                    _lists(task["metrics"]),
                    n_success=_count(task.get("n_success")),
                )
                for task in content["per_task"]
            ]
        rows = content["per_episode"]
        kept = (("successes", "success"), ("sum_rewards", "sum_reward"), ("max_rewards", "max_reward"))
        lists = {name: [row.get(key) for row in rows] for name, key in (*kept, ("seeds", "seed"))}
        return [_Task("", "", _lists({**lists, "video_paths": content.get("video_paths", [])}))]
    except (SourceError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(
            f"{path} is not what lerobot-eval writes ({type(error).__name__}: {str(error)[:200]}). "
            "Expected per_task with task_group, task_id and metrics."
        ) from error


def _lists(metrics: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the metrics, which are lists with one value for each episode."""
    wrong = next((name for name, values in metrics.items() if not isinstance(values, list)), None)
    if wrong is not None:
        raise ValueError(f"{wrong} is not a list")
    return dict(metrics)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _miscounted(task: _Task) -> str | None:
    """Return in which way the file's own count of successes is not that of its list; ``None`` where it is."""
    successes = task.metrics.get("successes")
    if task.n_success is None or successes is None:
        return None
    listed = sum(bool(success) for success in successes)
    if listed == task.n_success:
        return None
    return f"n_success is {task.n_success}, and metrics.successes has {listed}; labels are of the list"


def _videos(task: _Task, run: Path, prefix: str, problems: list[Problem]) -> Iterator[Episode]:
    """Yield the episodes of a task that have a video, each with its index in the task's lists."""
    folder = run / "videos" / task.folder
    where = "/".join(part for part in ("videos", task.folder) if part)
    try:
        names = sorted(os.listdir(folder))
    except (OSError, ValueError):  # ValueError: a NUL in the name of a task
        names = []
    videos = {int(match["index"]): folder / name for name in names if (match := _VIDEO.fullmatch(name))}
    for index, text in enumerate(task.metrics.get("video_paths", ())):
        # The path is that of the evaluating machine; it is used only where the file still exists.
        if index not in videos and os.path.isfile(str(text)):
            videos[index] = Path(str(text))
        elif index not in videos:
            problems.append(
                Problem(
                    f"{prefix}{where}/eval_episode_{index}", f"its video {shown(str(text))} does not exist"
                )
            )
    if (wrong := _miscounted(task)) is not None:
        problems.append(Problem(f"{prefix}{INFO}, {task.folder}", wrong))
    n = len(task.metrics.get("successes", ()))
    if len(videos) < n and not os.path.isdir(run / "recordings" / task.folder):
        why = f"{n - len(videos)} of {n} episodes have no video; lerobot-eval keeps at most 10 of a task"
        problems.append(Problem(f"{prefix}{where}", why))
    for index, file in sorted(videos.items()):
        success, seed = task.value("successes", index), task.value("seeds", index)
        label = Label("success", "ever", value=float(bool(success)), author=INFO)
        yield Episode(
            id=f"{prefix}{where}/eval_episode_{index}",
            instruction=in_words(task.group or run.resolve().name),
            task=task.folder or None,
            views={MAIN: VideoView(file)},
            pair=None if seed is None else str(seed),
            labels=Labels((label,) if success is not None else ()),
            metadata={
                name: value
                for name in ("sum_rewards", "max_rewards")
                if (value := task.value(name, index)) is not None
            },
        )


def _recordings(task: _Task, run: Path, prefix: str, problems: list[Problem]) -> Iterator[Episode]:
    """Yield the episodes of a task that were recorded, in one LeRobot dataset or one for each environment."""
    folder = run / "recordings" / task.folder
    if not task.folder or not os.path.isdir(folder):
        return
    for dataset in (folder, *sorted(folder.glob("env_*"))):
        if os.path.isfile(dataset / "meta" / "info.json"):
            from stepscore.episodes.lerobot.reader import LeRobotReader

            where = f"{prefix}{dataset.relative_to(run).as_posix()}"
            try:
                listing = LeRobotReader().read(dataset, ReadOptions())
            except SourceError as error:
                problems.append(Problem(where, str(error)))
                continue
            problems += [Problem(f"{where}/{problem.where}", problem.why) for problem in listing.problems]
            for episode in listing.episodes:
                # A dataset is named after its folder, which here is only a number.
                yield replace(episode, id=f"{where}/{episode.id}", task=task.folder, dataset=None)

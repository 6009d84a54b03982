"""Logs of inspect-robots: an EvalLog, version 1, with the frames that were stored beside it.

::

    <log>.json                                       version, status, eval, results, stats, samples
    frames/<stamp>/<scene>-e<k>_<camera>_<t>.npy     frame t of a camera in trial k of a scene

The source is a log, or a folder of logs. An episode is one trial. Frames are looked for in the folder of the log
alone, in ``frames/`` and the last part of ``stats.frames_dir``, whatever else that path says.
"""

from __future__ import annotations

import math
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stepscore._untrusted import read_json, shown
from stepscore._untrusted.limits import MAX_FPS, MIN_FPS
from stepscore.episodes.cameras import MAIN
from stepscore.episodes.episode import Episode
from stepscore.episodes.eval_logs.npy_frames import NpyFramesView
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.naming import safe_name, safe_text
from stepscore.episodes.source import Listing, Problem, ReadOptions
from stepscore.episodes.view import View
from stepscore.errors import OptionError, SourceError

VERSION = 1
DEFAULT_FPS = 10.0
"""Steps per second where the log states no ``control_hz``; what inspect-robots plays frames at."""
EMPTY_BYTES = 128
"""Size of a frame file without pixels: simulators write such before their first image."""
ARRAY_MAGIC = b"\x93NUMPY"
SUCCESS_WORDS = frozenset({"success", "pass", "yes", "y", "1", "true"})
FAILURE_WORDS = frozenset({"failure", "fail", "failed", "no", "n", "0", "false"})
SUCCESS_SCORERS = {"success_at_end": "holds", "reached_goal_state": "ever"}
"""Scorers of inspect-robots that state success, and when it counts."""
MARKS = (b'"version"', b'"eval"', b'"inspect_robots_version"')
MAX_LOGS = 10_000
_FRAME = re.compile(r"(?P<stream>.+)_(?P<step>\d{6,12})\.npy")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_RULES = (
    "Id: scene and trial, <scene>-e<k>; in a folder of logs after the log's name.",
    "Policy, robot, dataset: the log's policy, embodiment and task. Instruction and task: the scene's instruction. "
    "Pair: the scene.",
    "Success: the operator's judgement, else success_at_end or reached_goal_state; unknown where neither is there.",
    "Time: steps over the embodiment's control_hz, else 10 a second.",
)


class InspectRobotsReader:
    """Logs of inspect-robots."""

    def matches(self, path: Path) -> bool:
        """Return whether it is a log, or a folder whose own files include one."""
        return bool(_logs(path, most=1))

    def read(self, path: Path, options: ReadOptions) -> Listing:
        """List the trials that have frames; the number of those without is a problem."""
        if options.policy_from is not None:
            raise OptionError("--policy-from is for folders; a log of inspect-robots states its policy.")
        problems: list[Problem] = []
        episodes: dict[str, Episode] = {}
        logs = _logs(path, most=MAX_LOGS) or [path]
        for log in logs:
            prefix = f"{log.stem}/" if path.is_dir() else ""
            try:
                found = list(_episodes(log, prefix, problems))
            except SourceError as error:
                if len(logs) == 1:
                    raise
                problems.append(Problem(shown(log.name), str(error)))
                continue
            for episode in found:
                if episode.id in episodes:
                    problems.append(Problem(episode.id, "stands in the log twice; the first is read"))
                episodes.setdefault(episode.id, episode)
        return Listing([episodes[name] for name in sorted(episodes)], tuple(problems), _RULES)


def _logs(path: Path, most: int) -> list[Path]:
    """Return the logs of a folder, or the file itself; never raises."""
    try:
        names = sorted(os.listdir(path)) if path.is_dir() else [path.name]
    except OSError:
        return []
    folder = path if path.is_dir() else path.parent
    found = []
    for name in names:
        if name.endswith(".json") and not name.startswith(".") and _begins_as_log(folder / name):
            found.append(folder / name)
            if len(found) >= most:
                break
    return found


def _begins_as_log(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            beginning = file.read(1 << 14)
    except (OSError, ValueError):
        return False
    return all(mark in beginning for mark in MARKS)


def _episodes(log: Path, prefix: str, problems: list[Problem]) -> Iterator[Episode]:
    content = read_json(log, SourceError)
    if not isinstance(content, dict) or content.get("version") != VERSION:
        version = content.get("version") if isinstance(content, dict) else None
        raise SourceError(
            f"{shown(log)} is an EvalLog of version {version!r:.40}; version {VERSION} is read."
        )
    spec, samples = _mapping(content, "eval", log), content.get("samples")
    if not isinstance(samples, list):
        raise SourceError(f"{shown(log)}: samples is not a list.")
    trials = list(_trials(samples))
    streams = _streams(content.get("stats"), log)
    views = _views(streams, [_safe(f"{scene}-e{number}") for scene, number, _ in trials], _fps(spec))
    missing = 0
    for scene, number, sample in trials:
        trial = f"{scene}-e{number}"
        if not views[_safe(trial)]:
            missing += 1
            continue
        stated = _text(sample.get("instruction"))
        instruction = stated or _text(spec.get("task")) or "unknown"
        yield Episode(
            id=safe_name(f"{prefix}{trial}"),
            instruction=instruction,
            inferred_instruction=not stated,
            task=instruction,
            policy=_text(spec.get("policy")),
            robot=_text(spec.get("embodiment")),
            dataset=_text(spec.get("task")),
            views=views[_safe(trial)],
            pair=safe_text(scene),
            labels=_labels(sample, number),
            metadata=_metadata(sample, number),
        )
    if missing:
        why = f"{missing} of {len(trials)} trials have no frames in {shown(log.parent / 'frames')}"
        problems.append(Problem(shown(log.name), why))


def _trials(samples: Sequence[Any]) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Yield scene, number and sample of every recorded trial."""
    for sample in samples:
        if isinstance(sample, dict) and isinstance(sample.get("scene_id"), str):
            epochs = sample.get("epochs")
            for number in range(len(epochs) if isinstance(epochs, list) else 0):
                yield sample["scene_id"], number, sample


def _streams(stats: object, log: Path) -> dict[str, dict[int, Path]]:
    """Return the frame files by stream (trial and camera) and step."""
    stated = stats.get("frames_dir") if isinstance(stats, dict) else None
    stamp = re.split(r"[\\/]", stated.rstrip("\\/"))[-1] if isinstance(stated, str) else ""
    if not stamp or stamp in (".", "..") or "\0" in stamp:
        return {}
    found: dict[str, dict[int, Path]] = {}
    try:
        entries = sorted(os.scandir(log.parent / "frames" / stamp), key=lambda entry: entry.name)
    except OSError:
        return found
    for entry in entries:
        match = _FRAME.fullmatch(entry.name)
        if match and not _is_empty(entry):
            found.setdefault(match["stream"], {})[int(match["step"])] = Path(entry.path)
    return found


def _is_empty(entry: os.DirEntry[str]) -> bool:
    """Return whether a frame is an array without pixels; what is no array is read, and is its trial's error."""
    try:
        if not entry.is_file() or entry.stat().st_size > EMPTY_BYTES:
            return False
        return Path(entry.path).read_bytes().startswith(ARRAY_MAGIC)
    except OSError:
        return False


def _views(
    streams: Mapping[str, Mapping[int, Path]], trials: Sequence[str], fps: float
) -> dict[str, dict[str, View]]:
    """Return the cameras of each trial; as names may hold underscores, a stream is of the longest trial it fits."""
    by_length = sorted(set(trials), key=len, reverse=True)
    views: dict[str, dict[str, View]] = {trial: {} for trial in trials}
    for stream, files in sorted(streams.items()):
        owner = next((trial for trial in by_length if stream.startswith(f"{trial}_")), None)
        if owner is not None:
            steps = sorted(files)
            camera = stream[len(owner) + 1 :] or MAIN
            views[owner][camera] = NpyFramesView(tuple(files[step] for step in steps), tuple(steps), fps)
    return views


def _fps(spec: Mapping[str, Any]) -> float:
    info = spec.get("embodiment_info")
    rate = info.get("control_hz") if isinstance(info, dict) else None
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not math.isfinite(rate):
        return DEFAULT_FPS
    return float(rate) if MIN_FPS <= rate <= MAX_FPS else DEFAULT_FPS


def _labels(sample: Mapping[str, Any], number: int) -> Labels:
    said = _text(_item(sample, "operator_judgements", number))
    if said is not None:
        word = said.casefold()
        if word not in SUCCESS_WORDS | FAILURE_WORDS:
            return Labels()
        return Labels((Label("success", "holds", value=float(word in SUCCESS_WORDS), author="operator"),))
    scores = _item(sample, "epochs", number)
    for scorer, mode in SUCCESS_SCORERS.items():
        value = scores.get(scorer) if isinstance(scores, dict) else None
        if value in (0, 1):
            return Labels((Label("success", mode, value=float(value), author=scorer),))
    return Labels()


def _metadata(sample: Mapping[str, Any], number: int) -> dict[str, Any]:
    texts = {
        "termination": _text(_item(sample, "termination_reasons", number)),
        "operator_note": _text(_item(sample, "operator_notes", number)),
        "status": _text(sample.get("status")),
    }
    scores = _item(sample, "epochs", number)
    numbers = {
        safe_text(str(name)[:100]): value
        for name, value in (scores.items() if isinstance(scores, dict) else ())
        if isinstance(value, int | float)
    }
    known = {name: text for name, text in texts.items() if text is not None}
    return {**known, **({"scores": numbers} if numbers else {})}


def _item(sample: Mapping[str, Any], name: str, number: int) -> Any:
    values = sample.get(name)
    return values[number] if isinstance(values, list) and number < len(values) else None


def _mapping(content: Mapping[str, Any], name: str, log: Path) -> Mapping[str, Any]:
    found = content.get(name)
    if not isinstance(found, dict):
        raise SourceError(f"{shown(log)}: {name} is not an object.")
    return found


def _text(value: object) -> str | None:
    return safe_text(value.strip()[:10_000]) or None if isinstance(value, str) else None


def _safe(name: str) -> str:
    """Return a name as inspect-robots writes it in the names of frame files."""
    safe = _UNSAFE.sub("-", name)
    if safe == name:
        return safe
    return f"{safe}-{zlib.crc32(name.encode('utf-8', 'replace')) & 0xFFFFFFFF:08x}"

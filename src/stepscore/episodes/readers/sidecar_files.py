"""Sidecar files of an episode's video: curves, goal images, labels, instructions."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from stepscore._untrusted import read_json, read_text
from stepscore.episodes.labels.labels import Label, Stage, check_stages
from stepscore.episodes.view import View
from stepscore.errors import ManifestError

CURVE_SUFFIXES = (".curve.csv", ".curve.jsonl", ".curve.parquet")
_CURVES = re.compile(
    r"step_metrics\.csv|pred_vllm\.json|(?:curve|progress)\.(?:csv|jsonl|parquet)"
    r"|.+\.curve\.(?:csv|jsonl|parquet)|.+_progress\.parquet",
    re.IGNORECASE,
)
_GOAL = re.compile(r"(?:(?P<stem>.+)\.)?goal\.(?:png|jpe?g)", re.IGNORECASE)

_BOOLEANS = {"0": 0.0, "0.0": 0.0, "false": 0.0, "1": 1.0, "1.0": 1.0, "true": 1.0}

STEP_METRICS = "step_metrics.csv"
KEYFRAMES = "annotated_keyframes.json"
INSTRUCTIONS = "task_instruction.json"


def curve_stem(name: str) -> str | None:
    """Return ``x`` of ``x.curve.csv`` (or ``.jsonl``, ``.parquet``); ``None`` for any other name."""
    lower = name.lower()
    return next((name[: -len(end)] for end in CURVE_SUFFIXES if lower.endswith(end)), None) or None


def looks_like_curve(name: str) -> bool:
    """Return whether tools write an episode's progress under this file name."""
    return _CURVES.fullmatch(name) is not None


def goals_by_name(folder: Path, files: Iterable[str]) -> dict[str, Path]:
    """Return goal images of a folder by the text before ``.goal.png``; ``""`` for ``goal.png`` itself."""
    return {match["stem"] or "": folder / name for name in files if (match := _GOAL.fullmatch(name))}


def goal_images(goals: Mapping[str, Path], stem: str, views: Sequence[str]) -> dict[str, Path]:
    """Return the goal image by view: ``<stem>_<view>.goal.png``, else ``<view>.goal.png``.

    For the main view also ``<stem>.goal.png``, else ``goal.png``, which all episodes of a folder share.
    """
    found: dict[str, Path] = {}
    for number, view in enumerate(views if goals else ()):
        names = (f"{stem}_{view}", view, *((stem, "") if number == 0 else ()))
        path = next((goals[name] for name in names if name in goals), None)
        if path is not None:
            found[view] = path
    return found


def is_goal(name: str) -> bool:
    """Return whether a file is a goal image rather than a frame."""
    return _GOAL.fullmatch(name) is not None


def read_success(path: Path) -> tuple[Label, ...]:
    """Read the success label in a step_metrics.csv's column ``EpisodeSuccess``; none where there is no such column.

    PRM-as-a-Judge repeats the human label of the episode in every row. ManifestError where it is neither 0
    nor 1 throughout.
    """
    try:
        rows = csv.reader(io.StringIO(read_text(path, ManifestError), newline=""))
        head = next(rows, [])
        column = head.index("EpisodeSuccess") if "EpisodeSuccess" in head else None
        values = {row[column] for row in rows if row} if column is not None else set()
    except (ManifestError, IndexError, csv.Error) as error:
        raise ManifestError(f"{path}: no success label: {error}.") from error
    if not values:
        return ()
    parsed = {_BOOLEANS.get(value.strip().lower()) for value in values}
    if len(parsed) != 1 or None in parsed:
        given = ", ".join(repr(value[:40]) for value in sorted(values)[:3])
        raise ManifestError(f"{path}: no success label: EpisodeSuccess is {given}, not 0 or 1 throughout.")
    return (Label("success", "holds", value=float(parsed.pop() or 0.0), author=path.name),)


def read_instructions(path: Path) -> tuple[str, ...]:
    """Read paraphrases of an instruction, in order, from a JSON list of texts or a single text."""
    content = read_json(path, ManifestError)
    texts = [content] if isinstance(content, str) else content
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) and t.strip() for t in texts):
        raise ManifestError(f"{path}: expected a list of paraphrases of one instruction.")
    return tuple(text.strip() for text in texts)


def read_keyframes(path: Path, view: View) -> tuple[Label, ...]:
    """Read stage labels from Robo-Dopamine's annotated_keyframes.json, frame numbers divided by the view's fps.

    Each entry has ``start_frame_id``, ``end_frame_id`` and its name in ``anotation`` (sic).
    Opens the video for its rate, but decodes nothing.
    """
    content = read_json(path, ManifestError)
    try:
        fps = view.info().fps
        stages = [_stage(entry, fps) for entry in content]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ManifestError(
            f"{path}: not a list of stages with frame numbers ({str(error)[:200]})."
        ) from error
    return tuple(
        Label("stage", stage.name, stage.start_s, stage.end_s, author=path.name)
        for stage in check_stages(stages, str(path))
    )


def _stage(entry: Mapping[str, object], fps: float) -> Stage:
    name = entry.get("anotation") or entry.get("annotation") or entry.get("name")
    start, end = entry["start_frame_id"], entry["end_frame_id"]
    if not isinstance(name, str) or not isinstance(start, int) or not isinstance(end, int):
        raise ValueError(f"wrong entry {dict(entry)}")
    return Stage(name, start / fps, end / fps)

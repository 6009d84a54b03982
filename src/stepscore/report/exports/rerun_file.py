"""Episodes as a recording of Rerun (``.rrd``), which its viewer and its readers open.

One recording, one timeline ``time`` in seconds from each episode's first frame, so that episodes can be laid side by
side. Below ``/EPISODE``::

    instruction             the instruction and the outcome, as text
    video/VIEW              the camera's frames
    progress/JUDGE          the judged curve; NaN if unknown
    progress/truth          labelled progress if there is any
    channels/JUDGE/NAME     every further channel of the curve
    stages                  labelled stages, as states over time
    subgoals/JUDGE/N_NAME   the verdict: a state over time, and subgoal, answer, score, when_s, why, label as values
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stepscore.errors import OptionError
from stepscore.report.episode_data import EpisodeData, EpisodeJudgement
from stepscore.report.exports.content import EpisodeContent, Series
from stepscore.report.exports.pump import pumped
from stepscore.report.exports.rerun_layout import (
    blueprint,
    description,
    entity_path,
    verdict_states,
    verdict_values,
)
from stepscore.report.exports.rerun_video import log_video
from stepscore.report.plots.style import BLUE, GREEN, ORANGE, PURPLE, RED, SKY
from stepscore.types import Verdict

if TYPE_CHECKING:
    import rerun as rr

APPLICATION = "stepscore"
TIMELINE = "time"
_COLOURS = (SKY, ORANGE, GREEN, PURPLE, RED, BLUE)
"""Of the judges; visible on the viewer's dark ground."""
_TRUTH_COLOUR = "#B0B0B0"
_STATE_COLOURS = {"yes": GREEN, "no": RED, "unknown": "#777777", "not yet": "#444444"}


def write_rerun(
    contents: Iterable[EpisodeContent],
    path: Path,
    videos: Literal["encoded", "images", "none"],
    first: str | None,
) -> tuple[int, int, list[str]]:
    """Write the recording, opened on ``first``; return the numbers of frames and points, and notes on videos."""
    import rerun as rr

    shown, frames, points, notes = list[EpisodeContent](), 0, 0, Counter[str]()
    with _strict(rr), pumped(path) as (target, check), _recording(rr, target) as recording:
        for content in contents:
            check()
            shown.append(content)
            points += _log_episode(recording, content)
            for name, view in content.views.items() if videos != "none" else ():
                place = entity_path(content.data.id, "video", name)
                logged = log_video(recording, place, view, TIMELINE, encoded=videos == "encoded")
                frames += logged.frames
                notes.update([logged.note] if logged.note else [])
        recording.send_recording_name(
            ", ".join(dict.fromkeys(j.judge for c in shown for j in c.data.judgements))
        )
        recording.send_blueprint(blueprint(shown, first, TIMELINE, with_videos=videos != "none"))
    return frames, points, [f"{count} times {note}" if count > 1 else note for note, count in notes.items()]


@contextmanager
def _recording(rr: Any, target: Path) -> Iterator[rr.RecordingStream]:
    """Yield a recording that is written to a file, and end it, so that the file is closed."""
    recording = rr.RecordingStream(APPLICATION, send_properties=False)
    if not rr.is_enabled(recording):
        raise OptionError("Rerun is switched off by the environment variable RERUN. Unset it.")
    # The time of writing, which would be a confusing second clock.
    recording.set_log_time_enabled(False)
    recording.set_log_tick_enabled(False)
    recording.save(target)
    try:
        yield recording
        recording.flush()
    finally:
        recording.disconnect()


@contextmanager
def _strict(rr: Any) -> Iterator[None]:
    """Let Rerun raise errors instead of printing them."""
    before = rr.strict_mode()
    rr.set_strict_mode(True)
    try:
        yield
    finally:
        rr.set_strict_mode(before)


def _log_episode(recording: rr.RecordingStream, content: EpisodeContent) -> int:
    """Write everything but the videos; return the number of points."""
    import rerun as rr

    data, root = content.data, content.data.id
    text = rr.TextDocument(description(content), media_type=rr.MediaType.MARKDOWN)
    recording.log(entity_path(root, "instruction"), text, static=True)
    points = 0
    for number, judged in enumerate(data.judgements):
        colour = _COLOURS[number % len(_COLOURS)]
        curve = Series(judged.judge, judged.times, judged.progress)
        points += _log_series(recording, entity_path(root, "progress", judged.judge), curve, colour)
        for channel in content.channels[judged.judge]:
            points += _log_series(
                recording, entity_path(root, "channels", judged.judge, channel.name), channel, None
            )
        for order, (name, verdict) in enumerate(_in_order(data, judged), 1):
            place = entity_path(root, "subgoals", judged.judge, f"{order:02d}_{_slug(name)}")
            values = verdict_values(verdict, label=dict(data.subgoals).get(name))
            _log_states(recording, place, verdict_states(verdict, data.duration_s), _STATE_COLOURS)
            recording.log(
                place,
                rr.AnyValues(drop_untyped_nones=True, **values),
                static=True,
            )
    if content.truth is not None:
        points += _log_series(recording, entity_path(root, "progress", "truth"), content.truth, _TRUTH_COLOUR)
    stages = [(float(stage["start_s"]), str(stage["name"])) for stage in data.row["stages"]]
    if stages:
        _log_states(
            recording,
            entity_path(root, "stages"),
            [*stages, (float(data.row["stages"][-1]["end_s"]), "")],
            {},
        )
    return points


def _log_series(recording: rr.RecordingStream, place: str, series: Series, colour: str | None) -> int:
    """Write a series, if it has points."""
    import rerun as rr

    if not len(series.times):
        return 0
    colours = None if colour is None else [colour_code(colour)]
    recording.log(place, rr.SeriesLines(names=[series.name], widths=[2.0], colors=colours), static=True)
    recording.send_columns(
        place,
        indexes=[rr.TimeColumn(TIMELINE, duration=series.times)],
        columns=rr.Scalars.columns(scalars=np.asarray(series.values, dtype=np.float64)),
    )
    return len(series.times)


def _log_states(
    recording: rr.RecordingStream, place: str, states: list[tuple[float, str]], colours: dict[str, str]
) -> None:
    """Write states, each from its time on; an empty one ends the state before it."""
    import rerun as rr

    named = [name for name in colours if name in {state for _, state in states}]
    if named:
        style = rr.StateConfiguration(values=named, colors=[colour_code(colours[name]) for name in named])
        recording.log(place, style, static=True)
    recording.send_columns(
        place,
        indexes=[rr.TimeColumn(TIMELINE, duration=[time for time, _ in states])],
        columns=rr.StateChange.columns(state=[state for _, state in states]),
    )


def colour_code(colour: str) -> int:
    """Return ``#RRGGBB`` as Rerun's number, opaque."""
    return int(f"{colour.removeprefix('#')}FF", 16)


def _in_order(data: EpisodeData, judged: EpisodeJudgement) -> list[tuple[str, Verdict]]:
    """Return a judge's verdicts in the order of the task's subgoals."""
    order = [name for name, _ in data.subgoals]
    return sorted(
        judged.verdicts.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)
    )


def _slug(name: str) -> str:
    """Return a name that the viewer shows as it is: in a path it puts a backslash before every space."""
    return re.sub(r"[^\w.-]+", "_", name).strip("_")

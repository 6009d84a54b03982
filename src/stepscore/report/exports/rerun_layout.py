"""What Rerun's viewer shows: a tab for each episode with video, text and curves; verdicts as states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepscore._tables import escape_markdown
from stepscore.report.episode_data import EpisodeData
from stepscore.report.exports.content import EpisodeContent
from stepscore.report.plots.episode_lanes import outcome
from stepscore.types import Verdict

if TYPE_CHECKING:
    import rerun.blueprint as rrb


MAX_TABS = 200
"""Tabs, beyond which the viewer grows slow; further episodes are in its list of entities."""


def entity_path(*parts: str) -> str:
    """Return the path of an entity; a slash in a part does not divide it."""
    import rerun as rr

    return "/" + "/".join(rr.escape_entity_path_part(part) for part in parts)


def blueprint(
    contents: Sequence[EpisodeContent], first: str | None, timeline: str, *, with_videos: bool
) -> rrb.Blueprint:
    """Return the layout: a tab per episode, in order, with ``first`` open."""
    import rerun.blueprint as rrb

    order = sorted(contents, key=lambda content: content.data.id != first)  # stable: the others stay in order
    tabs = [_tab(content, with_videos=with_videos) for content in order[:MAX_TABS]]
    return rrb.Blueprint(
        rrb.Tabs(*tabs, active_tab=0) if len(tabs) > 1 else tabs[0],
        rrb.TimePanel(timeline=timeline, state="collapsed"),
        rrb.SelectionPanel(state="collapsed"),
        rrb.BlueprintPanel(state="collapsed"),
        auto_views=False,
        auto_layout=False,
    )


def _tab(content: EpisodeContent, *, with_videos: bool) -> Any:
    import rerun.blueprint as rrb

    data = content.data

    def path(*parts: str) -> str:
        return entity_path(data.id, *parts)

    views = [name for name, view in content.views.items() if with_videos and not isinstance(view, str)]
    cameras = [rrb.Spatial2DView(origin=path("video", name), name=name) for name in views]
    text = rrb.TextDocumentView(origin=path("instruction"), name="instruction")
    left: list[Any] = [*([rrb.Grid(*cameras)] if len(cameras) > 1 else cameras), text]
    unit = rrb.ScalarAxis(range=(0.0, 1.0), zoom_lock=True)
    right: list[Any] = [rrb.TimeSeriesView(origin=path("progress"), name="progress", axis_y=unit)]
    shares = [3.0]
    if any(judged.verdicts for judged in data.judgements):
        right.append(rrb.StateTimelineView(origin=path("subgoals"), name="subgoals"))
        shares.append(2.5)
    if data.row["stages"]:
        right.append(rrb.StateTimelineView(origin=path("stages"), name="labelled stages"))
        shares.append(1.0)
    charts = [
        rrb.TimeSeriesView(origin=path("channels", judge), name=f"channels of {judge}")
        for judge, channels in content.channels.items()
        if channels
    ]
    if charts:
        right.append(rrb.Tabs(*charts) if len(charts) > 1 else charts[0])
        shares.append(2.0)
    return rrb.Horizontal(
        rrb.Vertical(*left, row_shares=[3, 2] if len(left) > 1 else None),
        rrb.Vertical(*right, row_shares=shares),
        column_shares=[2, 3],
        name=f"{data.id}" + (f" ({data.row['policy']})" if data.row["policy"] else ""),
    )


def description(content: EpisodeContent) -> str:
    """Return an episode in Markdown: instruction, policy, outcome, what went wrong, and a table of verdicts."""
    data = content.data
    facts = {name: data.row[name] for name in ("policy", "task", "robot", "dataset") if data.row[name]}
    lines = [f"# {escape_markdown(data.row['instruction'])}", ""]
    lines.append(f"{escape_markdown(data.id)}, {data.duration_s:.1f} s. {escape_markdown(outcome(data))}.")
    if content.worst is not None:
        lines += ["", f"**{escape_markdown(content.worst.text)}**"]
    lines += [f"- {name}: {escape_markdown(str(value))}" for name, value in facts.items()]
    return "\n".join([*lines, "", *_verdict_table(data)]) + "\n"


def _verdict_table(data: EpisodeData) -> list[str]:
    if not data.has_verdicts:
        return []
    judged = [judgement for judgement in data.judgements if judgement.verdicts]
    heads = ["subgoal", "label", *(escape_markdown(judgement.judge) for judgement in judged)]
    rows = [
        [
            escape_markdown(name),
            "?" if label is None else "yes" if label else "no",
            *(_words(judgement.verdicts.get(name)) for judgement in judged),
        ]
        for name, label in data.subgoals
    ]
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _words(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    return verdict.answer + (f", at {verdict.when_s:.1f} s" if math.isfinite(verdict.when_s) else "")


def verdict_states(verdict: Verdict, duration_s: float) -> list[tuple[float, str]]:
    """Return a verdict as states, each from a time on; the last, empty one ends them.

    A yes begins at the time that the judge stated; other verdicts are about the whole episode.
    """
    whole = [(0.0, verdict.answer), (duration_s, "")]
    if verdict.answer != "yes" or not math.isfinite(verdict.when_s):
        return whole
    return [(0.0, "not yet"), (verdict.when_s, "yes"), (duration_s, "")] if verdict.when_s > 0 else whole


def verdict_values(verdict: Verdict, *, label: bool | None) -> dict[str, Any]:
    """Return a verdict as named values, without those that are unknown."""
    values: dict[str, Any] = {"subgoal": verdict.subgoal, "answer": verdict.answer}
    values |= {name: value for name in ("score", "when_s") if math.isfinite(value := getattr(verdict, name))}
    values |= {"why": verdict.why} if verdict.why else {}
    return values | ({} if label is None else {"label": "yes" if label else "no"})

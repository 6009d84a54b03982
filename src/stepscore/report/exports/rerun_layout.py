"""How Rerun's viewer lays a recording out: a tab an episode, video and text left, curves and verdicts right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepscore.report.exports.content import EpisodeContent

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

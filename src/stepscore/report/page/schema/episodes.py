"""The episodes, their true progress, and their recorded signals."""

from __future__ import annotations

from typing import NamedTuple

from typing_extensions import TypedDict

from stepscore.report.page.schema.values import Dict, Packed


class StageSpan(NamedTuple):
    """An annotated stage of an episode, or of a row of a part."""

    episode: int
    name: int
    """Index into stage_names."""
    start_s: float | None
    end_s: float | None


class SubgoalInfo(TypedDict):
    """A subgoal of an episode."""

    name: str
    criterion: str | None
    mode: str | None
    view: str | None
    reviewed: bool


class EpisodeTable(TypedDict):
    """Every episode that some run judged, once; columns of equal length n, sorted by source and id."""

    n: int
    id: list[str]
    """Unique together with source."""
    key: list[str] | None
    """For URLs, where ids alone are not unique (several sources); null: use id."""
    source: Dict
    task: Dict
    """-1 where the source names no task; Group.task and SubgoalTable.task are then null."""
    policy: Dict
    robot: Dict
    dataset: Dict
    instruction: Dict
    pair: Dict
    """Scene shared between policies."""
    success_mode: Dict
    """One of "ever", "holds"."""
    success: list[int]
    """Label: 1, 0, -1 unknown."""
    duration_s: Packed
    stages: list[StageSpan]
    """Sorted by episode."""
    stage_names: list[str]
    subgoal_lists: list[list[SubgoalInfo]]
    """Lists of subgoals, each once."""
    subgoals: list[int]
    """Index into subgoal_lists; -1: none."""
    subgoal_labels: list[str]
    """Labels of the episode's subgoals, one character each in their order: "1", "0" or "?"; "" without subgoals."""


class TruthTable(TypedDict):
    """True progress of episodes as labels state it, for drawing; a row per episode that has any.

    The points of all rows are concatenated; progress is linear between them, and differs by at most .005 from what
    is labelled.
    """

    episode: list[int]
    """Indices into episodes, ascending."""
    length: list[int]
    """Points of each row."""
    source: Dict
    """What it is, for a person: "labelled progress", "progress by labelled stages"."""
    times: Packed
    """Seconds, over their own range."""
    progress: Packed
    """0..1, NaN unknown."""
    left_out: int
    """Episodes whose truth is not on the page because of its size."""


class SignalLayout(TypedDict):
    """A signal and its dimensions."""

    signal: str
    dimensions: list[str]
    left_out: int
    """Dimensions that are not on the page."""


class TraceTable(TypedDict):
    """State, action and other numbers that were recorded beside the videos, for drawing.

    A row per episode that has any. Columns of equal length but for the concatenated ones.
    """

    layouts: list[list[SignalLayout]]
    """Signals of an episode with their dimensions, each distinct list once."""
    episode: list[int]
    """Indices into episodes, ascending."""
    layout: list[int]
    """Index into layouts."""
    length: list[int]
    """Points of each row, which all its dimensions share; lines between them are straight."""
    steps: list[int]
    """How many were recorded."""
    times: Packed
    """Of all rows, concatenated; seconds, over their own range."""
    low: Packed
    """Of every dimension of every row: its least value, NaN if none is known."""
    high: Packed
    """Its greatest value."""
    values: Packed
    """Of every row every dimension's points, one dimension after the other: low + q / 65534 * (high - low)."""
    left_out: list[int]
    """Episodes that have some, which are not on the page because of its size."""
    unavailable: dict[str, str]
    """Episode -> why there are none."""
    served: list[int] | None
    """On a page that is served: the number under which an episode's table is at traces/N, -1 for none; null
    elsewhere."""

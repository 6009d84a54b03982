"""The judgements of each run: curves, verdicts and calls, on the page or in parts of it."""

from __future__ import annotations

from typing_extensions import TypedDict

from stepscore.report.page.schema.episodes import StageSpan
from stepscore.report.page.schema.values import Dict, Packed


class CurvePoints(TypedDict):
    """The points of all curves, concatenated."""

    length: list[int]
    """Points of each row's curve, 0 for none."""
    times: Packed
    """Seconds from the episode's first frame. Where `rate` is present: time = value / rate[row] (frame numbers over
    the frame rate); otherwise the value is in seconds."""
    rate: Packed | None
    progress: Packed
    """Absolute, 0..1."""
    channels: dict[str, Packed]
    """E.g. "raw", "minmax", log-probabilities."""


class CurveRules(TypedDict):
    """What holds for every curve, wherever its points are."""

    done_channel: str | None
    """When `robust` counts a curve as done: by this channel, for measuring, where a row has a known value in it
    (null: never), else by progress from `done_at` on."""
    done_at: float
    time_source: Dict
    """One of "frames", "recorded", "inferred"; inferred times are marked."""
    calibrated: list[int] | None
    """1/0 per row where rows differ; null: as in RunInfo."""


class Curves(CurvePoints, CurveRules):
    """The curves of a run."""


class VerdictTable(TypedDict):
    """Verdicts on subgoals."""

    row: list[int]
    """Row of the judgements, ascending."""
    subgoal: Dict
    answer: str
    """One character each: "y", "n", "?"."""
    score: Packed
    when_s: Packed
    why: Dict


class CallTable(TypedDict):
    """The calls to a model."""

    row: list[int]
    """Ascending, in the order of the requests."""
    kind: Dict
    prompt: list[int]
    """Index into prompts."""
    frames: Dict
    """JSON text: the frames of the request."""
    answer: Dict
    left_out: int
    """Rows whose calls are not on the page because of its size: see calls.parquet."""


class RowSample(TypedDict):
    """Rows spread over the run."""

    rows: list[int]
    """Ascending."""
    part: str
    """Their PagePart."""


class PagedRows(TypedDict):
    """The parts of a run's judgements."""

    firsts: list[int]
    """The first row of each page, ascending."""
    pages: list[str]
    """The part of each page, a PagePart."""
    columns: dict[str, str]
    """Metric -> the part with it of every row, a ColumnPart."""
    verdicts: str | None
    """The part with every row's answers, an AnswerPart."""
    sample: RowSample
    last_progress: Packed
    """Of every row, to 4 decimals."""
    channels: list[str]


class JudgementRows(TypedDict):
    """What the page itself holds of every judgement of a run."""

    episode: list[int]
    """Indices into episodes, ascending."""
    error: dict[str, str]
    """Row -> why there is no judgement."""
    repeated: list[int]
    """Rows, ascending, that another run of the leaderboard holds as well, judged alike: not counted again."""
    success_score: Packed
    failure_mode: Dict
    """By the leaderboard's diagnosis source."""
    calls: CallTable


class Judgements(JudgementRows):
    """The judgements of one run; columns of equal length, in the order of `episode`."""

    values: dict[str, Packed]
    """Metric name -> one value per row, NaN unknown; f64, exactly `metrics --show episodes --json`."""
    curves: Curves
    verdicts: VerdictTable
    paged: PagedRows | None
    """Where the page has parts: what is in them. Then `values` has success only, and `curves` and `verdicts` have
    no points and no rows."""


class PagePart(TypedDict):
    """Some rows of a run; rows inside are counted from 0."""

    values: dict[str, Packed]
    curves: CurvePoints
    verdicts: VerdictTable
    stages: list[StageSpan]


class ColumnPart(TypedDict):
    """One metric of every row."""

    column: Packed


class AnswerPart(TypedDict):
    """The answer of every verdict."""

    row: Packed
    """Ascending."""
    subgoal: Dict
    answer: str

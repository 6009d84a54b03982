"""Types of the page's columns: packed numbers, episodes, videos and judgements; see :mod:`.schema`."""

from __future__ import annotations

from typing import Literal, NamedTuple, NotRequired, TypeAlias

from typing_extensions import TypedDict

Encoding: TypeAlias = Literal["f64", "u8", "u16", "u32"]


class Packed(TypedDict):
    """Numbers as little-endian base64.

    - "f64": the values, NaN for unknown.
    - "u8" | "u16" | "u32": unsigned integers q. The largest one of the type (255, 65535, 4294967295) is NaN, any
      other is `offset + q / scale` (one division, one addition, in that order).

    Progress has offset 0 and scale 40000 (u16) or 4e9 (u32): exact for every value of up to 4 or 9 decimals, within
    1.3e-10 otherwise. Other channels but `done_channel` are u16 over their own range: for drawing, not for measuring.
    """

    enc: Encoding
    b64: str
    scale: NotRequired[float]  # 1 if absent
    offset: NotRequired[float]  # 0 if absent


class Dict(TypedDict):
    """A column of few distinct strings: `values[codes[i]]`, null if codes[i] is -1."""

    values: list[str]
    codes: list[int]


class Est(NamedTuple):
    """An Estimate as in `metrics --json`.

    `method` is an index into PageData.methods ("wilson 95%", "too few episodes (3 < 5)"). `lo` and `hi` are null
    where there is no interval.
    """

    value: float | None
    lo: float | None
    hi: float | None
    n: int
    clusters: int
    coverage: float | None
    method: int


class Places(NamedTuple):
    """The best and the worst place that a group may have in its table.

    1 + the groups whose whole interval is better .. the groups that are not wholly worse. [1, 1] is a clear first;
    [1, 3] is tied with others for 1st to 3rd place ("=1"). A group without an interval is tied with all others.
    """

    best: int
    worst: int


Rank: TypeAlias = Places | None  # Groups without a value have no rank (null)


class StageSpan(NamedTuple):
    """An annotated stage of an episode, or of a row of a part."""

    episode: int
    name: int  # Index into stage_names
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
    id: list[str]  # Unique together with source
    key: list[str] | None  # For URLs, where ids are not unique (several sources); null: use id
    source: Dict
    task: Dict  # -1 if the source names no task; Group.task and SubgoalTable.task are then null
    policy: Dict
    robot: Dict
    dataset: Dict
    instruction: Dict
    pair: Dict  # Scene shared between policies
    success_mode: Dict  # One of "ever", "holds"
    success: list[int]  # Label: 1, 0, -1 unknown
    duration_s: Packed
    stages: list[StageSpan]  # Sorted by episode
    stage_names: list[str]
    subgoal_lists: list[list[SubgoalInfo]]  # Lists of subgoals, each once
    subgoals: list[int]  # Index into subgoal_lists; -1: none
    # Labels of the episode's subgoals, one character each in their order: "1", "0" or "?"; "" without
    # subgoals
    subgoal_labels: list[str]


class TruthTable(TypedDict):
    """True progress of episodes as labels state it, for drawing; a row per episode that has any.

    The points of all rows are concatenated; progress is linear between them, and differs by at most .005 from what
    is labelled.
    """

    episode: list[int]  # Indices into episodes, ascending
    length: list[int]  # Points of each row
    source: Dict  # What it is, for a person: "labelled progress", "progress by labelled stages"
    times: Packed  # Seconds, over their own range
    progress: Packed  # 0..1, NaN unknown
    left_out: int  # Episodes whose truth is not on the page because of its size


class SignalLayout(TypedDict):
    """A signal and its dimensions."""

    signal: str
    dimensions: list[str]
    left_out: int  # Dimensions that are not on the page


class TraceTable(TypedDict):
    """State, action and other numbers that were recorded beside the videos, for drawing.

    A row per episode that has any. Columns of equal length but for the concatenated ones.
    """

    layouts: list[list[SignalLayout]]  # Signals of an episode with their dimensions, each distinct list once
    episode: list[int]  # Indices into episodes, ascending
    layout: list[int]  # Index into layouts
    length: list[int]  # Points of each row, which all its dimensions share; lines between them are straight
    steps: list[int]  # How many were recorded
    times: Packed  # Of all rows, concatenated; seconds, over their own range
    low: Packed  # Of every dimension of every row: its least value, NaN if none is known
    high: Packed  # Its greatest value
    # Of every row every dimension's points, one dimension after the other: low + q / 65534 * (high - low)
    values: Packed
    left_out: list[int]  # Episodes that have some, which are not on the page because of its size
    unavailable: dict[str, str]  # Episode -> why there are none
    # On a page that is served: the number under which an episode's table is at traces/N, -1 for none; null
    # elsewhere
    served: list[int] | None


class MediaFile(TypedDict):
    """A video file."""

    src: str  # URL, already quoted: relative, file:///..., or media/N
    codec: str  # E.g. "h264", "av1", "hevc", "mpeg4", "vp9".
    type: str  # E.g. "video/mp4", "video/webm".
    first_s: float  # Presentation time of the file's first frame (usually 0)
    plays: bool  # false: browsers do not play it (the page says so, with the remedy --copy-videos)


class ShownFrames(TypedDict):
    """The frames of a changed video, which is shown from the recorded one."""

    frames: Packed  # The recorded frame of each frame
    n_frames: int  # Of the recorded video, from start_s on
    fps: float
    times: Packed | None  # Seconds of each recorded frame if that is not i / fps


class VideoTable(TypedDict):
    """One row per episode and view, sorted by episode, the main view first. Columns of equal length."""

    episode: list[int]
    view: Dict
    file: list[int]  # Index into files; -1: no file a browser can open (see `unavailable`)
    start_s: list[float]  # Time of the episode's first frame, counted from the file's first frame
    n_frames: list[int]
    fps: list[float | None]  # null: not known (no video, or a single frame)
    width: list[int]
    height: list[int]
    # Seconds of each frame from the episode's first, only for rows whose frames are not at i / fps (to 10 %
    # of a frame): row number -> times
    times: dict[str, Packed]
    # Of rows whose frames are those of the file in another order: row number -> which
    shown: dict[str, ShownFrames]
    notes: dict[str, str]  # Row number -> what to know of the video shown
    unavailable: dict[str, str]  # Row number -> why there is no video


class CurvePoints(TypedDict):
    """The points of all curves, concatenated."""

    length: list[int]  # Points of each row's curve, 0 for none
    # Seconds from the episode's first frame. Where `rate` is present: time = value / rate[row] (frame numbers
    # over the frame rate); otherwise the value is in seconds.
    times: Packed
    rate: Packed | None
    progress: Packed  # Absolute, 0..1
    channels: dict[str, Packed]  # E.g. "raw", "minmax", log-probabilities.


class CurveRules(TypedDict):
    """What every curve has, wherever its points are."""

    # When `robust` counts a curve as done: by this channel, for measuring, where a row has a known value in
    # it (null: never), else by progress from `done_at` on
    done_channel: str | None
    done_at: float
    time_source: Dict  # One of "frames", "recorded", "inferred"; inferred times are marked
    calibrated: list[int] | None  # 1/0 per row where rows differ; null: as in RunInfo


class Curves(CurvePoints, CurveRules):
    """The curves of a run."""


class VerdictTable(TypedDict):
    """Verdicts on subgoals."""

    row: list[int]  # Row of the judgements, ascending
    subgoal: Dict
    answer: str  # One character each: "y", "n", "?"
    score: Packed
    when_s: Packed
    why: Dict


class CallTable(TypedDict):
    """The calls to a model."""

    row: list[int]  # Ascending, in the order of the requests
    kind: Dict
    prompt: list[int]  # Index into prompts
    frames: Dict  # JSON text: the frames of the request
    answer: Dict
    left_out: int  # Rows whose calls are not on the page because of its size: see calls.parquet


class RowSample(TypedDict):
    """Rows spread over the run."""

    rows: list[int]  # Ascending
    part: str  # Their PagePart


class PagedRows(TypedDict):
    """The parts of a run's judgements."""

    firsts: list[int]  # The first row of each page, ascending
    pages: list[str]  # The part of each page, a PagePart
    columns: dict[str, str]  # Metric -> the part with it of every row, a ColumnPart
    verdicts: str | None  # The part with every row's answers, an AnswerPart
    sample: RowSample
    last_progress: Packed  # Of every row, to 4 decimals
    channels: list[str]


class JudgementRows(TypedDict):
    """The judgements of a run on the page itself."""

    episode: list[int]  # Indices into episodes, ascending
    error: dict[str, str]  # Row -> why there is no judgement
    # Rows, ascending, that another run of the leaderboard holds as well, judged alike: not counted again
    repeated: list[int]
    success_score: Packed
    failure_mode: Dict  # By the leaderboard's diagnosis source
    calls: CallTable


class Judgements(JudgementRows):
    """The judgements of one run; columns of equal length, in the order of `episode`."""

    # Metric name -> one value per row, NaN unknown; f64, exactly `metrics --show episodes --json`
    values: dict[str, Packed]
    curves: Curves
    verdicts: VerdictTable
    # If the page has parts: what is in them. Then `values` has success only, and `curves` and `verdicts`
    # have no points and no rows.
    paged: PagedRows | None


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

    row: Packed  # Ascending
    subgoal: Dict
    answer: str

"""The page as a whole, its runs and its metrics."""

from __future__ import annotations

from typing import Literal, TypeAlias

from typing_extensions import TypedDict

from stepscore.report.page.schema.audits import AuditData, JudgeBoard
from stepscore.report.page.schema.episodes import EpisodeTable, TraceTable, TruthTable
from stepscore.report.page.schema.judgements import Judgements
from stepscore.report.page.schema.leaderboards import FailureModeRule, JudgeAgreement, Leaderboard
from stepscore.report.page.schema.values import Est
from stepscore.report.page.schema.videos import MediaFile, VideoTable

FORMAT = 7
"""Version of the data's layout, which the built page checks."""

Revision: TypeAlias = Literal["v1.0", "paper", "v1.5", "robust"]
WarningKind: TypeAlias = Literal["protocols", "coverage", "errors", "unfinished", "videos", "left-out"]


class Warning(TypedDict):
    """What a reader must know before comparing numbers."""

    kind: WarningKind
    text: str
    """A sentence for a person."""
    details: list[str]
    """Lines below it, may be empty (e.g. the fields in which two protocols differ)."""


class MetricInfo(TypedDict):
    """A metric of episodes."""

    name: str
    """Key in Group.cells and Judgements.values; e.g. "success_label", "MC25", "MP", "VOC", "stage_MAE"."""
    label: str
    """Column head: "success by label", "MC@25", "MP"."""
    better: Literal["higher", "lower", "neither"]
    """The good direction; "neither" has no rank."""
    kind: Literal["rate", "share", "mean"]
    """rate: yes/no per episode; share: in 0..1."""
    percent: bool
    """Show x100 with %; false for correlations (VOC, stage_CCC), in -1..1."""
    summary: str
    """Its meaning, for a tooltip."""
    main: bool
    """In the leaderboard by default; others on demand."""


class Usage(TypedDict):
    """What a run spent."""

    seconds: float
    """Sum of the time spent on episodes."""
    calls: int
    attempts: int
    cached: int
    images: int
    tokens_in: int
    tokens_out: int
    wall_s: float | None
    """Of the last start, by the clock."""
    cost: float | None
    """null: price not known (or no calls: see calls)."""
    p50_s: float | None
    """Latency of a call."""
    p95_s: float | None


class RunFacts(TypedDict):
    """A run as its folder describes it."""

    name: str
    """Folder name."""
    path: str
    judge: str
    model: str | None
    protocol: str
    """Hash."""
    protocol_json: str
    """Canonical JSON, indented: the whole protocol."""
    baseline: bool
    """A judge that looks at no frame: linear-time, constant, random-monotone."""
    source: str
    status: str
    """One of "finished", "started", "stopped by the budget"."""
    running: bool
    """On a page that is served: whether a process is judging into it now; elsewhere false."""
    created: str
    updated: str
    versions: dict[str, str]
    n: int
    """Episodes judged, those with an error included."""
    errors: int
    selected: int
    """Episodes the run was started on."""
    calibrated: bool | None
    """null: no curves, or mixed."""
    usage: Usage


class RunInfo(RunFacts):
    """A run as the page shows it."""

    board: int
    """Index into leaderboards."""
    coverage: Est
    """Share of points whose progress is known, over episodes with a curve (metric "coverage")."""
    id: str
    """Short, unique, [a-z0-9-]+: for URLs."""


class Written(TypedDict):
    """Who wrote the page, and when."""

    stepscore: str
    created: str
    """ISO 8601, UTC."""


class PageFrame(TypedDict):
    """What every page says of itself, whatever it shows."""

    format: int
    """FORMAT."""
    written: Written
    live: bool
    """Served by `stepscore view` (videos at media/N, newer data at data), not a file on disk."""
    version: str
    """Of the data on a page that is served; "" elsewhere."""
    revision: Revision
    """The OPD revision of every stored metric value and Estimate."""
    live_revisions: list[Revision]
    """Revisions in which the page itself computes opd_prefixes of `progress` with its times while playing ("v1.0",
    "paper", "v1.5" without smoothing, "robust"), ported from stepscore.metrics.opd; the first is `revision`. The
    value at the cursor is that of the prefix which ends with the last sample at or before the time of the frame on
    screen (1e-6 s of tolerance); before the first sample: unknown."""
    failure_mode_rules: list[FailureModeRule]
    """The meaning of each failure mode's name."""
    audit: AuditData | None
    """The page of an audit; its leaderboards have no tables, since changed episodes are among its own."""
    judge_board: JudgeBoard | None
    parts: str | None
    """Of a written page with parts: the folder that they are in; a served one asks for parts/NAME."""


class Explorer(TypedDict):
    """What the explorer shows besides videos and traces."""

    metrics: list[MetricInfo]
    """In the order of the tables."""
    runs: list[RunInfo]
    """As given on the command line."""
    episodes: EpisodeTable
    paged: bool
    """Curves, verdicts, stages and columns are in parts, loaded when they are looked at."""
    truth: TruthTable
    judgements: list[Judgements]
    """judgements[i] belongs to runs[i]."""
    prompt_lines: list[str]
    """Lines that prompts are made of, each once. A prompt is a list of line numbers, joined with "\\n"."""
    prompts: list[tuple[int, ...]]


class PageData(PageFrame, Explorer):
    """Everything that a page shows."""

    title: str
    """E.g. "demo/recorded, demo/linear-time"; set document.title from it."""
    warnings: list[Warning]
    """Shown at the top of the overview."""
    boards: list[Leaderboard]
    """One per protocol: results of different protocols are never in one table."""
    judge_agreement: list[JudgeAgreement]
    """Of each run with labels, then of the baselines computed for this page."""
    traces: TraceTable
    files: list[MediaFile]
    videos: VideoTable
    posters: list[str]
    """Frames of failures: JPEG in base64, at most 24 of at most 240 pixels; [] without videos."""
    methods: list[str]

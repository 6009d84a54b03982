"""The type of the page's data: what Python writes as JSON and the page reads.

The one source of it: ``python -m tools.contract`` writes these types to ``web/src/contract.ts``, and a test fails if
that file is out of date. After a change of the layout, raise :data:`FORMAT`, run that command and build the page.

Unknown is None (in packed numbers NaN), never 0. Shares are 0..1, time is in seconds, an index of -1 is "none".
Nothing is rounded: each number is the one that ``stepscore metrics --json`` prints. Nothing is validated when it is
written: mypy checks the code that builds the values, and a test checks whole pages.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from typing_extensions import TypedDict

from stepscore.report.page.columns import (
    EpisodeTable,
    Est,
    Judgements,
    MediaFile,
    TraceTable,
    TruthTable,
    VideoTable,
)
from stepscore.report.page.table_types import FailureModeRule, JudgeAgreement, Leaderboard


class Benchmark(TypedDict):
    """What the judges were measured on."""

    name: str
    description: str
    seed: int | None
    episodes: int
    tasks: int
    fingerprint: str


class BoardMetric(TypedDict):
    """A column of a board of judges."""

    name: str
    title: str
    better: Literal["higher", "lower"]
    percent: bool


class JudgeCost(TypedDict):
    """What a judge spent on the benchmark."""

    videos: int | None
    calls: int | None
    images: int | None
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    seconds_per_episode: float | None


class JudgeRow(TypedDict):
    """A judge on the board."""

    label: str
    judge: str
    model: str | None
    options: list[str]  # E.g. "frames=8".
    protocol_hash: str | None
    trivial: bool
    claimed_by: str | None  # Who says so, where it was not measured here
    estimates: dict[str, Est]
    cost: JudgeCost
    pareto: bool
    reason: str | None  # Why it has no numbers


class PublishedFigures(TypedDict):
    """Figures that others published of a judge."""

    label: str
    source: str
    note: str
    values: dict[str, float | None]


class JudgeBoard(TypedDict):
    """A board of judges on one benchmark: board.json. Such a page has no runs."""

    benchmark: Benchmark
    metrics: list[BoardMetric]
    front: str  # The metric of the Pareto front
    front_cost: str  # Its cost: "money", "tokens" or "images"
    rows: list[JudgeRow]
    published: list[PublishedFigures]


Outcome: TypeAlias = Literal["pass", "warn", "fail", "undecided"]


class OfTrivial(NamedTuple):
    """What a probe shows of a trivial judge."""

    outcome: Outcome
    effect: Est


class WorstCase(TypedDict):
    """An episode with a bad effect, as indices into episodes (-1: not on the page)."""

    id: str
    episode: int
    changed: int
    effect: float


class ProbeData(TypedDict):
    """A probe of an audit."""

    probe: str
    family: str
    outcome: Outcome
    effect: Est
    bound: float
    good: Literal["above", "below"]  # On which side of the bound effects are good
    what: str  # What the effect is
    expectation: str  # What a sound judge does
    eligible: int  # Episodes that it could have taken
    reason: str  # Why it took none; "" where it took some
    trivial: list[OfTrivial | None]  # Of each trivial judge
    worst: list[WorstCase]  # If it is not passed: the worst first


class AuditHeadline(TypedDict):
    """A probe to look at first."""

    probe: str
    title: str


class AgreementRow(TypedDict):
    """A row of `metrics --json`."""

    group: dict[str, str | None]
    metric: str
    estimate: Est


class AuditData(TypedDict):
    """What an audit showed: audit.json, with the episodes that it names found on the page."""

    judge: str
    model: str | None
    protocol: str  # Hash
    source: str
    created: str  # ISO 8601
    stepscore: str  # Version
    episodes: int
    tasks: list[str]
    cameras: list[str]
    labelled: bool  # Whether any episode has a success label
    seed: int
    full: bool  # Every probe took every episode
    cost: float | None  # As a multiple of judging the episodes once
    counts: dict[Outcome, int]
    sentences: list[str]  # Of the headline
    headline: list[AuditHeadline]  # The probes to look at first
    trivial: list[str]  # Names of the trivial judges
    runs: dict[str, int]  # Name of a run of the audit ("judge", "again") -> index into PageData.runs
    probes: list[ProbeData]
    agreement: list[AgreementRow]
    policies: list[str]  # What the agreement says of policies, a sentence each
    changes: dict[str, str]  # Episode -> what was changed of it, in words


FORMAT = 7  # Version of the data's layout, which the built page checks

Revision: TypeAlias = Literal["v1.0", "paper", "v1.5", "robust"]

WarningKind: TypeAlias = Literal["protocols", "coverage", "errors", "unfinished", "videos", "left-out"]


class Warning(TypedDict):
    """What a reader must know before comparing numbers."""

    kind: WarningKind
    text: str  # A sentence for a person
    details: list[str]  # Lines below it, may be empty (e.g. the fields in which two protocols differ).


class MetricInfo(TypedDict):
    """A metric of episodes."""

    # Key in Group.cells and Judgements.values; e.g. "success_label", "MC25", "MP", "VOC", "stage_MAE".
    name: str
    label: str  # Column head: "success by label", "MC@25", "MP"
    better: Literal["higher", "lower", "neither"]  # The good direction; "neither" has no rank
    kind: Literal["rate", "share", "mean"]  # rate: yes/no per episode; share: in 0..1
    percent: bool  # Show x100 with %; false for correlations (VOC, stage_CCC), in -1..1
    summary: str  # Its meaning, for a tooltip
    main: bool  # In the leaderboard by default; others on demand


class Usage(TypedDict):
    """What a run spent."""

    seconds: float  # Sum of the time spent on episodes
    calls: int
    attempts: int
    cached: int
    images: int
    tokens_in: int
    tokens_out: int
    wall_s: float | None  # Of the last start, by the clock
    cost: float | None  # null: price not known (or no calls: see calls)
    p50_s: float | None  # Latency of a call
    p95_s: float | None


class RunFacts(TypedDict):
    """A run as its folder describes it."""

    name: str  # Folder name
    path: str
    judge: str
    model: str | None
    protocol: str  # Hash
    protocol_json: str  # Canonical JSON, indented: the whole protocol
    baseline: bool  # A judge that looks at no frame: linear-time, constant, random-monotone
    source: str
    status: str  # One of "finished", "started", "stopped by the budget"
    running: bool  # On a page that is served: whether a process is judging into it now; elsewhere false
    created: str
    updated: str
    versions: dict[str, str]
    n: int  # Episodes judged, those with an error included
    errors: int
    selected: int  # Episodes the run was started on
    calibrated: bool | None  # null: no curves, or mixed
    usage: Usage


class RunInfo(RunFacts):
    """A run as the page shows it."""

    board: int  # Index into leaderboards
    coverage: Est  # Share of points whose progress is known, over episodes with a curve (metric "coverage")
    id: str  # Short, unique, [a-z0-9-]+: for URLs


class Written(TypedDict):
    """Who wrote the page, and when."""

    stepscore: str
    created: str  # ISO 8601, UTC


class PageFrame(TypedDict):
    """What every page says of itself, whatever it shows."""

    format: int  # FORMAT
    written: Written
    live: bool  # Served by `stepscore view` (videos at media/N, newer data at data), not a file on disk
    version: str  # Of the data on a page that is served; "" elsewhere
    revision: Revision  # The OPD revision of every stored metric value and Estimate
    # Revisions in which the page itself computes opd_prefixes of `progress` with its times while playing
    # ("v1.0", "paper", "v1.5" without smoothing, "robust"), ported from stepscore.metrics.opd; the first is
    # `revision`. The value at the cursor is that of the prefix which ends with the last sample at or before
    # the time of the frame on screen (1e-6 s of tolerance); before the first sample: unknown.
    live_revisions: list[Revision]
    failure_mode_rules: list[FailureModeRule]  # The meaning of each failure mode's name
    # The page of an audit; its leaderboards have no tables, since changed episodes are among its own
    audit: AuditData | None
    judge_board: JudgeBoard | None
    # Of a written page with parts: the folder that they are in; a served one asks for parts/NAME
    parts: str | None


class Explorer(TypedDict):
    """What the explorer shows besides videos and traces."""

    metrics: list[MetricInfo]  # In the order of the tables
    runs: list[RunInfo]  # As given on the command line
    episodes: EpisodeTable
    paged: bool  # Curves, verdicts, stages and columns are in parts, loaded when they are looked at
    truth: TruthTable
    judgements: list[Judgements]  # judgements[i] belongs to runs[i]
    # Lines that prompts are made of, each once. A prompt is a list of line numbers, joined with "\n".
    prompt_lines: list[str]
    prompts: list[tuple[int, ...]]


class PageData(PageFrame, Explorer):
    """Everything that a page shows."""

    title: str  # E.g. "demo/recorded, demo/linear-time"; set document.title from it.
    warnings: list[Warning]  # Shown at the top of the overview
    boards: list[Leaderboard]  # One per protocol: results of different protocols are never in one table
    # Of each run with labels, then of the baselines computed for this page
    judge_agreement: list[JudgeAgreement]
    traces: TraceTable
    files: list[MediaFile]
    videos: VideoTable
    # Frames of failures: JPEG in base64, at most 24 of at most 240 pixels; [] without videos
    posters: list[str]
    methods: list[str]

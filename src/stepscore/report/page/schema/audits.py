"""What a board of judges and an audit show."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from typing_extensions import TypedDict

from stepscore.report.page.schema.values import Est


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
    options: list[str]
    """E.g. "frames=8"."""
    protocol_hash: str | None
    trivial: bool
    claimed_by: str | None
    """Who says so, where it was not measured here."""
    estimates: dict[str, Est]
    cost: JudgeCost
    pareto: bool
    reason: str | None
    """Why it has no numbers."""


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
    front: str
    """The metric of the Pareto front."""
    front_cost: str
    """Its cost: "money", "tokens" or "images"."""
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
    good: Literal["above", "below"]
    """On which side of the bound effects are good."""
    what: str
    """What the effect is."""
    expectation: str
    """What a sound judge does."""
    eligible: int
    """Episodes that it could have taken."""
    reason: str
    """Why it took none; "" where it took some."""
    trivial: list[OfTrivial | None]
    """Of each trivial judge."""
    worst: list[WorstCase]
    """Where it is not passed: the worst first."""


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
    protocol: str
    """Hash."""
    source: str
    created: str
    """ISO 8601."""
    stepscore: str
    """Version."""
    episodes: int
    tasks: list[str]
    cameras: list[str]
    labelled: bool
    """Whether any episode has a success label."""
    seed: int
    full: bool
    """Every probe took every episode."""
    cost: float | None
    """As a multiple of judging the episodes once."""
    counts: dict[Outcome, int]
    sentences: list[str]
    """Of the headline."""
    headline: list[AuditHeadline]
    """The probes to look at first."""
    trivial: list[str]
    """Names of the trivial judges."""
    runs: dict[str, int]
    """Name of a run of the audit ("judge", "again") -> index into PageData.runs."""
    probes: list[ProbeData]
    agreement: list[AgreementRow]
    policies: list[str]
    """What the agreement says of policies, a sentence each."""
    changes: dict[str, str]
    """Episode -> what was changed of it, in words."""

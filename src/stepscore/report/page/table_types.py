"""Types of the tables of a page: leaderboards, findings in sentences, agreement with labels; see :mod:`.schema`."""

from __future__ import annotations

from typing import Literal, NamedTuple, NotRequired, TypeAlias

from typing_extensions import TypedDict

from stepscore.report.page.columns import Est, Rank

LabelOrJudge: TypeAlias = Literal["label", "judge"]


class Group(TypedDict):
    """The episodes of one policy, of one task, or of both."""

    policy: str | None  # null: the source does not state it (displayed as "unknown")
    task: str | None
    pooled: NotRequired[bool]  # This row is of all policies (policy is null and means "all")
    episodes: int  # Judgements in the group
    # Metric name -> Estimate. Names as in `metrics --json`, e.g. "PPL", and in `overall` also
    # "PPL|success:label", "PPL|failure:judge" ... (process among successes, among failures). A metric without
    # a known value is absent.
    cells: dict[str, Est]
    ranks: dict[str, Rank]  # Unconditioned metrics with a good direction


class SubgoalTable(TypedDict):
    """Subgoals of one task and policy by one source of verdicts (judge and label are never mixed)."""

    task: str | None
    policy: str | None
    source: LabelOrJudge
    names: list[str]  # In the order of the task
    criteria: list[str]  # The criterion of each, "" where not stated
    reviewed: bool  # A person approved them
    reached: list[Est]  # Success vector
    given_previous: list[Est]  # Conditional success
    fails_first: list[Est]  # First-failure histogram, as shares; the rest (1 - sum) failed at none
    violations: Est  # Episodes that reached a later subgoal without an earlier one


class PolicyDiagnosis(TypedDict):
    """How one policy fails."""

    policy: str | None
    failures: int
    shares: dict[str, Est]  # Failure mode -> share of the failures
    stability: float | None  # How similar its tasks are in that, 0..1; null under two tasks
    slow: Est  # Share of successes that were too slow
    advice: str  # One line; "" without failures


class Diagnosis(TypedDict):
    """How the policies fail."""

    source: LabelOrJudge  # Source of success
    policies: list[PolicyDiagnosis]
    z_metrics: list[str]  # Metrics compared among failures
    z: list[list[float | None]]  # [policy][metric]; null under three policies


class Opening(TypedDict):
    """Who is best."""

    sentences: list[str]  # Who is best, and whether that is certain
    notes: list[str]  # What limits them
    metric: str  # What they are about: "success_label", "success_judge", "MP"; "" where nothing is known
    # Policies, best first; every one of a tier is shown to be better than later ones
    tiers: list[list[str | None]]


class FirstFailure(TypedDict):
    """Where a policy fails first."""

    policy: str | None
    phrase: str
    source: Literal["label", "judge", "modes"]


class Funnel(TypedDict):
    """Share of a policy's episodes that reach each subgoal, tasks pooled by place in the order."""

    policy: str | None
    source: LabelOrJudge
    names: list[str]
    reached: list[Est]
    tasks: int
    left_out: int  # Episodes of tasks with another number of subgoals


class WorstFailure(TypedDict):
    """A failure to look at; the time to look at is worstTime() of worst.ts."""

    run: int
    episode: int
    source: LabelOrJudge
    poster: int  # Index into posters


class TrustAspect(TypedDict):
    """Whether the judge can be trusted for one purpose."""

    aspect: Literal["success", "progress", "order", "subgoals"]
    answer: Literal["yes", "no", "unknown"]
    headline: str  # E.g. "Yes, for success".
    sentence: str
    n: int
    cells: dict[str, Est]


class Trust(TypedDict):
    """Whether the judge can be trusted."""

    text: str  # All of it in one line
    notes: list[str]
    aspects: list[TrustAspect]


class Findings(TypedDict):
    """What the runs of a leaderboard show, in sentences: stepscore.analysis.run_findings."""

    opening: Opening
    first_failures: list[FirstFailure]
    funnels: list[Funnel]  # One a policy; [] without any subgoals
    worst: list[WorstFailure]  # The failures to look at first, spread over policies and tasks
    trust: Trust


class LeaderboardTables(TypedDict):
    """The tables of a leaderboard."""

    id: str  # Unique, for URLs
    label: str  # E.g. "recorded", "topreward hf/..."; made unique with the hash where two would be equal.
    judge: str
    model: str | None
    protocol: str
    baseline: bool
    runs: list[int]  # Indices into runs
    # E.g. "on these 4 scenes" where intervals speak of few scenes that were tried repeatedly; else "".
    scope: str
    overall: list[Group]  # By policy; cells include the conditioned metrics
    by_task: list[Group]  # By task and policy; ranks are within the task; no conditioned metrics
    # By task: every policy pooled, plus one row with task null for everything (`pooled` true)
    all: list[Group]
    subgoals: list[SubgoalTable]
    diagnosis: Diagnosis


class Leaderboard(LeaderboardTables):
    """All runs of one protocol, measured together.

    Equal to `stepscore metrics RUNS --revision R --json --by ...` over exactly these runs.
    """

    findings: Findings


class FailureModeRule(TypedDict):
    """The meaning of a failure mode's name."""

    name: str  # E.g. "object lost", and "none", "unknown".
    of: Literal["failure", "success", "any"]
    when: str
    advice: str


class Confusion(NamedTuple):
    """Episodes by what the label and the judge say."""

    tp: int
    fp: int
    fn: int
    tn: int
    unknown: int


class AgreementCells(TypedDict):
    """Agreement of a judge with labels."""

    judge: str
    baseline: bool
    # E.g. "success: accuracy", "success: balanced accuracy", "success: precision", "success: MCC", "AUC of
    # last progress", "AUC of best progress", "AUC of success score", "VOC", "stage_MAE", "stage_CCC", and
    # "TASK: SUBGOAL: accuracy". Absent: no known value.
    cells: dict[str, Est]
    confusion: dict[str, Confusion]  # By question


class JudgeAgreement(AgreementCells):
    """Agreement with labels of one run, or of one baseline computed for this page if not given as a run.

    Boards of the same episodes share their baselines.
    """

    model: str | None
    run: int  # Index into runs; -1 for a baseline computed for this page
    # For such a baseline: the first leaderboard whose episodes and sample times it was given; else -1
    baseline_for: int

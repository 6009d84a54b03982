"""Audit a judge: probe it on episodes with known answers, next to baselines that ignore the video.

Every run has its own folder inside the audit's, so a killed audit resumes and every curve can be opened:

=====================  =====================================================================
``judge``              the judge on the recorded and the changed episodes
``trivial/NAME``       clock, constant, image difference and goal similarity on the same
``again``, ``denser``  the judge asked once more, and with the video sampled twice as densely
``audit.json``         the result
=====================  =====================================================================

:func:`audit_shard` judges one part of every run, on any machine; :func:`audit` then merges the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from stepscore._options import MAX_SEED, Range
from stepscore._progress import track
from stepscore.analysis import JudgeAgreement, agreement_with_baselines
from stepscore.audit.effects import case_result, policy_result, probe_result
from stepscore.audit.frame_cache import FrameCache, with_frame_cache
from stepscore.audit.judge_answers import Judged, judged_episodes
from stepscore.audit.planned_runs import (
    TRIVIAL,
    PlannedRun,
    check_finished,
    is_causal,
    planned_runs,
    shards_of,
    trivial_judges,
)
from stepscore.audit.planning import AuditPlan, make_plan
from stepscore.audit.probe import Bound, Case, Context, Probe
from stepscore.audit.probes import choose_probes
from stepscore.audit.probes.time import distance
from stepscore.audit.recorded import recorded_results
from stepscore.audit.repeats import again_cost, resampled
from stepscore.audit.results import Audit, ProbeResult
from stepscore.episodes import Episode, Episodes
from stepscore.errors import StepScoreError
from stepscore.judges import Judge
from stepscore.runs import CallOptions, Cut, Engine, FinishedEpisode, Run, Shard, cut, score

AGAIN_BOUND, DENSER_BOUND = Bound(0.05, "below"), Bound(0.15, "below")


@dataclass(frozen=True)
class AuditOptions:
    """Options of an audit; ``workers``, ``engine`` and ``call_options`` are those of :func:`stepscore.score`.

    Attributes:
        probes: Names of the probes. Default: all.
        full: Use every episode for every probe, at about 10 times the cost.
        counterfactuals: By task or instruction: other instructions for the same scene and objects.
        paraphrases: Paraphrases by task or instruction. Default: a fixed sentence around the instruction.
        seed: Random seed.
        trivial: Audit the baselines too.
        views: Show the judge only these views.
    """

    probes: Sequence[str] | None = None
    full: bool = False
    seed: Annotated[int, Range(0, MAX_SEED)] = 0
    counterfactuals: Mapping[str, Sequence[str]] | None = None
    paraphrases: Mapping[str, Sequence[str]] | None = None
    trivial: bool = True
    views: Sequence[str] | None = None
    workers: int | None = None
    engine: str | Engine = "auto"
    call_options: CallOptions | None = None


def audit(
    episodes: Episodes | Sequence[Episode],
    judge: Judge,
    out: str | Path,
    options: AuditOptions | None = None,
    *,
    on_plan: Callable[[AuditPlan], None] | None = None,
    on_start: Callable[[str, int], None] | None = None,
    on_done: Callable[[FinishedEpisode], None] | None = None,
) -> Audit:
    """Probe a judge; return the result of every probe. If :func:`audit_shard` judged the episodes, only merge.

    Args:
        episodes: Success labels decide which probes apply to which episode.
        out: The audit's folder; an existing audit is resumed.
        on_plan: Called with the plan before anything is judged.

    Raises:
        UnfinishedShardsError: Some shards are not finished.
    """
    options, folder = options or AuditOptions(), Path(out)
    cache = FrameCache()
    probes, plan, planned = _prepare(episodes, judge, options, cache, on_plan)
    shards = shards_of(folder)
    if shards is not None:
        check_finished(folder, list(planned.values()), shards)
    runner = _Runner(folder, options, planned, on_start, on_done, shards is not None)
    results = runner.results(plan, probes, "judge")
    results += runner.asked_again(judge)
    agreement = _agreement(runner.runs["judge"], plan)
    found = () if agreement is None else map(policy_result, agreement.policies)
    results += [one for one in found if one is not None]
    results += recorded_results(runner.runs["judge"], plan, agreement)
    trivial: list[ProbeResult] = []
    for name in planned:
        if name.startswith(TRIVIAL):
            trivial += runner.results(plan, probes, name)
    return Audit.of(
        runner.runs["judge"],
        plan,
        results,
        trivial,
        source=episodes.source if isinstance(episodes, Episodes) else "",
        seed=options.seed,
        full=options.full,
        runs=runner.runs,
        decoded=cache.decoded,
        agreement=agreement,
    )


def audit_shard(
    episodes: Episodes | Sequence[Episode],
    judge: Judge,
    out: str | Path,
    shard: Shard,
    options: AuditOptions | None = None,
    *,
    on_plan: Callable[[AuditPlan], None] | None = None,
    on_part: Callable[[str, Cut], None] | None = None,
    on_done: Callable[[FinishedEpisode], None] | None = None,
) -> None:
    """Judge one shard of every run of an audit, with its share of the budget.

    All shards share ``out`` and need the same options; :func:`audit` with these options merges them.

    Args:
        on_part: Called before each run with its name and the part that this shard judges.
    """
    options, folder = options or AuditOptions(), Path(out)
    _, _, planned = _prepare(episodes, judge, options, FrameCache(), on_plan)
    for run in planned.values():
        if on_part is not None:
            on_part(run.name, cut(run.episodes, shard, run.judge.models))
        _score(run, folder, options, on_done, shard)


def _prepare(
    episodes: Sequence[Episode],
    judge: Judge,
    options: AuditOptions,
    cache: FrameCache,
    on_plan: Callable[[AuditPlan], None] | None,
) -> tuple[tuple[Probe, ...], AuditPlan, dict[str, PlannedRun]]:
    """Return the probes, the plan and the runs of an audit; they depend only on options, seed and episodes."""
    probes = choose_probes(options.probes)
    recorded = [
        _chosen_views(with_frame_cache(episode, cache), options.views)
        for episode in track(episodes, "Listing episodes", len(episodes))
    ]
    context = Context(
        recorded, dict(options.counterfactuals or {}), dict(options.paraphrases or {}), options.seed
    )
    again = (
        again_cost(judge) if probes == choose_probes() else 0.0
    )  # no probe by name is meant by asking again
    plan = make_plan(recorded, probes, context, full=options.full, causal=is_causal(judge), again_cost=again)
    if on_plan is not None:
        on_plan(plan)
    others = trivial_judges(judge, recorded) if options.trivial else []
    return probes, plan, planned_runs(plan, probes, judge, others)


def _score(
    run: PlannedRun,
    folder: Path,
    options: AuditOptions,
    on_done: Callable[[FinishedEpisode], None] | None,
    shard: Shard | None = None,
) -> Run:
    return score(
        run.episodes,
        run.judge,
        folder / run.name,
        workers=options.workers,
        engine=options.engine,
        # A budget applies only to the judge; a trivial judge's encoder runs in this process and costs nothing.
        call_options=CallOptions() if run.name.startswith(TRIVIAL) else options.call_options,
        on_done=on_done,
        shard=shard,
    )


def _agreement(run: Run, plan: AuditPlan) -> JudgeAgreement | None:
    """Return the judge's agreement with the labels of the recorded episodes; ``None`` without labels."""
    recorded = {episode.id for episode in plan.episodes}
    found = agreement_with_baselines([run], only=recorded)
    return found if found.agreements or found.curves else None


def _chosen_views(episode: Episode, views: Sequence[str] | None) -> Episode:
    try:
        return episode if views is None or episode.error is not None else episode.with_views(views)
    except StepScoreError:
        return episode  # judging it says why


@dataclass
class _Runner:
    folder: Path
    options: AuditOptions
    planned: Mapping[str, PlannedRun]
    on_start: Callable[[str, int], None] | None
    on_done: Callable[[FinishedEpisode], None] | None
    merges: bool

    def __post_init__(self) -> None:
        self.runs: dict[str, Run] = {}

    def results(self, plan: AuditPlan, probes: Sequence[Probe], name: str) -> list[ProbeResult]:
        """Judge the planned episodes and return the result of each probe."""
        judge = self.planned[name].judge
        wanted = {named for each in plan.probed for named in (each.episode, each.changed.id)}
        judged, causal = judged_episodes(self._run(name), wanted), is_causal(judge)
        return [
            probe_result(probe, judge.name, plan, judged, causal=causal)
            for probe in track(probes, f"Effects of probes on {judge.name}", len(probes))
        ]

    def asked_again(self, judge: Judge) -> list[ProbeResult]:
        """Return how much the curves differ when the judge is asked again, and when it samples more densely."""
        if "again" not in self.planned:
            return []
        main = judged_episodes(self.runs["judge"], {episode.id for episode in self.planned["again"].episodes})
        found = [self._again(main, "again", AGAIN_BOUND, AGAIN_EXPECTED)]
        try:
            _, option = resampled(judge)
        except StepScoreError as error:
            missing = ProbeResult.missing(
                "denser", "again", judge.name, DENSER_BOUND, DENSER_EXPECTED, str(error)
            )
            return [*found, missing]
        expected = f"{DENSER_EXPECTED} ({option})"
        return [*found, self._again(main, "denser", DENSER_BOUND, expected)]

    def _again(self, main: Mapping[str, Judged], name: str, bound: Bound, expectation: str) -> ProbeResult:
        episodes = self.planned[name].episodes
        other = judged_episodes(self._run(name))
        cases = [Case(e, e, main[e.id], other[e.id]) for e in episodes if e.id in main and e.id in other]
        effects = np.array([distance(case) for case in cases], dtype=np.float64)
        found = case_result(name, "again", self.planned[name].judge.name, cases, effects, bound)
        return replace(found, expectation=expectation, effect_name=DISTANCE_NAME, eligible=len(episodes))

    def _run(self, name: str) -> Run:
        """Judge one of the runs, or merge its shards."""
        planned = self.planned[name]
        if self.merges:
            self.runs[name] = planned.divided(self.folder).merged()
        else:
            if self.on_start is not None:
                self.on_start(name, len(planned.episodes))
            self.runs[name] = _score(planned, self.folder, self.options, self.on_done)
        return self.runs[name]


AGAIN_EXPECTED = "asked once more, it answers the same"
DENSER_EXPECTED = "sampled twice as densely, the curve is the same"
DISTANCE_NAME = "distance of the curves"

"""The runs of an audit: which judge judges which episodes, in which folder, whole or in shards."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stepscore._untrusted import shown
from stepscore.audit.planning import AuditPlan
from stepscore.audit.probe import Probe
from stepscore.audit.repeats import repeated, resampled
from stepscore.episodes import Episode
from stepscore.errors import StepScoreError, UnfinishedShardsError
from stepscore.judges import Judge, JudgeTraits, get_judge
from stepscore.models import get_model
from stepscore.runs import ShardedRun, read_manifest

TRIVIAL_JUDGES = ("linear-time", "constant", "image-difference")
"""Judges that know nothing of a task: passing what they pass proves nothing."""

TRIVIAL = "trivial/"
"""Folder of their runs."""

SIMILARITY = "similarity"
"""The baseline added if episodes have goal images."""

MAX_NAMED = 20
"""Unfinished shards that a message names."""


@dataclass(frozen=True)
class PlannedRun:
    """A run of an audit: its folder's name, the judge, and the recorded and changed episodes."""

    name: str
    judge: Judge
    episodes: list[Episode]

    def divided(self, folder: Path) -> ShardedRun:
        """Return it as a run of shards in an audit's folder."""
        return ShardedRun(folder / self.name, self.judge, self.episodes)


def planned_runs(
    plan: AuditPlan,
    probes: Sequence[Probe],
    judge: Judge,
    trivial: Sequence[Judge],
) -> dict[str, PlannedRun]:
    """Return the runs of an audit by name, in order."""
    runs = [_probed(plan, probes, judge, "judge")]
    if plan.again:
        some = list(plan.again)
        runs.append(PlannedRun("again", repeated(judge), some))
        with suppress(StepScoreError):  # the audit's result says why
            runs.append(PlannedRun("denser", resampled(judge)[0], some))
    runs += [_probed(plan, probes, other, f"{TRIVIAL}{other.name}") for other in trivial]
    return {run.name: run for run in runs}


def _probed(plan: AuditPlan, probes: Sequence[Probe], judge: Judge, name: str) -> PlannedRun:
    return PlannedRun(name, judge, plan.to_judge(causal=is_causal(judge), probes=probes))


def is_causal(judge: Judge) -> bool:
    """Return whether a judge never looks ahead, so that its curve answers for truncated videos."""
    return JudgeTraits.of(judge).causal


def trivial_judges(judge: Judge, episodes: Sequence[Episode]) -> list[Judge]:
    """Return the baselines to audit with a judge.

    With goal images, one of them is the similarity with these by the embedded vision encoder: it knows what
    the end looks like and ignores the instruction.
    """
    judges = [get_judge(name) for name in TRIVIAL_JUDGES]
    if judge.name != SIMILARITY and any(episode.goals for episode in episodes):
        judges.append(get_judge(SIMILARITY, model=get_model("embedded", gate=False), clip=True))
    return judges


def shards_of(folder: Path) -> int | None:
    """Return into how many shards an audit is divided; ``None`` where it is not."""
    division = read_manifest(folder / "judge")
    return None if division is None else division.shards


def check_finished(folder: Path, runs: Sequence[PlannedRun], count: int) -> None:
    """Check that every shard has judged its part of every run.

    Raises:
        UnfinishedShardsError: Some have not; the message names them.
        RunError: They were made for another plan or protocol.
    """
    missing: dict[int, list[str]] = {}
    for run in runs:
        for shard in run.divided(folder).unfinished(count):
            missing.setdefault(shard.index, []).append(run.name)
    if not missing:
        return
    named = [f"{index}/{count} ({', '.join(missing[index])})" for index in sorted(missing)[:MAX_NAMED]]
    more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
    raise UnfinishedShardsError(
        f"{len(missing)} of the {count} shards of {shown(folder)} are not finished: {', '.join(named)}{more}. Run "
        "the same command with --shard I/N for each, then again without."
    )

"""The pairwise test: ask a judge about pairs, by comparing their frames or by its curve over their videos."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscore._tables import PrintedTable
from stepscore.audit.judge_answers import judged_episodes
from stepscore.audit.pairs.compare import (
    Compare,
    check_compares,
    comparing_judges,
    pair_changes,
    pair_clips,
)
from stepscore.audit.pairs.consistency import Consistency, ask_consistency, measure_consistency
from stepscore.audit.pairs.consistency_plan import ConsistencyPlan
from stepscore.audit.pairs.pair import Pair
from stepscore.audit.pairs.resolution import Resolution, measure_resolution
from stepscore.audit.pairs.score import (
    By,
    PairResult,
    judged_change,
    pair_videos,
    score_changes,
    trivial_comparisons,
    trivial_results,
)
from stepscore.audit.pairs.tables import consistency_table, pair_table, resolution_table
from stepscore.episodes import Episode
from stepscore.errors import OptionError, UnknownNameError
from stepscore.judges import FrameComparer, Judge
from stepscore.runs import CallOptions, FinishedEpisode, Run, score


@dataclass(frozen=True)
class AskedPairs:
    """The pairs to ask about, with their videos, clips of the two frames, and recordings.

    ``videos`` and ``episodes`` are empty for pairs of images.
    """

    pairs: tuple[Pair, ...]
    videos: Mapping[str, Episode]
    clips: Sequence[Episode]
    episodes: Mapping[str, Episode]


def pairs_of_source(pairs: tuple[Pair, ...], listed: Iterable[Episode]) -> AskedPairs:
    """Return pairs of timestamps with the videos of a source."""
    episodes = {episode.id: episode for episode in listed}
    videos = pair_videos(pairs, episodes)
    return AskedPairs(pairs, videos, pair_clips(pairs, videos), episodes)


def chosen_by(judge: Judge, by: str | None, *, consistency: bool = False) -> By:
    """Return what to score: the value of ``--by``, else comparison if the judge can compare frames."""
    if by not in (None, "compare", "curve"):
        raise UnknownNameError("value of --by", by, ("compare", "curve"))
    if by == "compare":
        check_compares(judge)
    compares = by == "compare" or (by is None and isinstance(judge, FrameComparer))
    if consistency and not compares:
        raise OptionError(
            f"--consistency needs comparisons of two frames, but {judge.name!r} is scored by its curve, "
            "which is consistent by construction. Leave it out; `stepscore audit` probes other sampling."
        )
    return "compare" if compares else "curve"


def check_file_judge(judge: Judge, by: str | None) -> None:
    """Reject a judge that cannot compare two images without a video."""
    if by == "curve" or not isinstance(judge, FrameComparer):
        raise OptionError(
            f"A file of images has no videos, which {judge.name!r} would score by a curve. Judges that "
            f"compare two images: {', '.join(comparing_judges())}."
        )
    if getattr(judge, "end", None) == "last":
        raise OptionError(
            "end=last shows the episode's last frame, which a file of images does not have. Map the goal image: "
            "--columns end=FIELD,..."
        )


@dataclass(frozen=True)
class PairTestResult:
    """The result of the pairwise test, with baselines; ``consistency`` is ``None`` unless it was asked for."""

    judge: str
    by: By
    results: tuple[PairResult, ...]
    resolution: Resolution
    consistency: Consistency | None
    runs: tuple[Run, ...]

    def tables(self) -> list[PrintedTable]:
        """Return the tables for people."""
        fine = resolution_table(self.resolution)
        own = None if self.consistency is None else consistency_table(self.consistency)
        return [table for table in (pair_table(self.results), fine, own) if table is not None]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return every number as a row of JSON."""
        own = () if self.consistency is None else self.consistency.measures
        measures = [*self.resolution.measures, *own]
        rows = [row for result in self.results for row in result.to_dicts()]
        return [*rows, *(one.to_dict(self.judge, self.by) for one in measures)]


@dataclass(frozen=True)
class PairTest:
    """The test of a judge on pairs; ``plan`` has the extra questions about consistency, if any."""

    asked: AskedPairs
    judge: Judge
    by: By
    plan: ConsistencyPlan | None = None

    @property
    def scored(self) -> Judge:
        """The judge that is passed to ``score``."""
        return Compare(self.judge) if self.by == "compare" else self.judge

    @property
    def shown(self) -> list[Episode]:
        """What the judge is shown: a clip of each pair, or every video once."""
        distinct = {episode.id: episode for episode in self.asked.videos.values()}
        return list(self.asked.clips if self.by == "compare" else distinct.values())

    def run(
        self,
        folder: Path,
        *,
        views: Sequence[str] | None = None,
        call_options: CallOptions | None = None,
        on_start: Callable[[str, int], None] | None = None,
        on_done: Callable[[FinishedEpisode], None] | None = None,
    ) -> PairTestResult:
        """Ask the questions and return the result; an existing run folder is resumed.

        Args:
            call_options: Its budget covers all runs.
        """
        shown, name = self.shown, self.judge.name
        if on_start is not None:
            on_start(name, len(shown))
        run = score(shown, self.scored, folder, views=views, call_options=call_options, on_done=on_done)
        pairs, videos = self.asked.pairs, self.asked.videos
        if self.by == "compare":
            changes, trivial = pair_changes(run, pairs), trivial_comparisons(pairs)
        else:
            judged = judged_episodes(run)
            changes = [judged_change(pair, judged.get(videos[pair.id].id)) for pair in pairs]
            trivial = trivial_results(pairs, videos)
        results = (score_changes(name, pairs, changes, by=self.by), *trivial)
        resolution = measure_resolution(name, pairs, changes, self.by)
        if self.plan is None:
            return PairTestResult(name, self.by, results, resolution, None, (run,))
        further = ask_consistency(
            self.plan,
            folder / "consistency",
            views=views,
            call_options=call_options,
            spent_by=[run],
            on_start=on_start,
            on_done=on_done,
        )
        by_id = {pair.id: change for pair, change in zip(pairs, changes, strict=True)}
        consistency = measure_consistency(name, self.plan, further, by_id, pairs)
        return PairTestResult(name, self.by, results, resolution, consistency, (run, *further.values()))

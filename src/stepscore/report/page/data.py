"""All data of a report page as one JSON value, assembled from runs; :class:`schema.PageData` is its type."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast

from stepscore import __version__
from stepscore._options import DEFAULT_REVISION, SceneChoice
from stepscore._progress import doing
from stepscore.analysis import distinct_runs
from stepscore.errors import OptionError
from stepscore.metrics.opd import REVISIONS
from stepscore.report.page import columns, schema, table_types
from stepscore.report.page.episodes import EpisodeIndex, episode_table, index_episodes
from stepscore.report.page.judgements import Prompts, judgement_tables, run_bytes
from stepscore.report.page.leaderboards import (
    MAX_BASELINE_EPISODES,
    Leaderboard,
    Pack,
    agreement_rows,
    estimate_packer,
    failure_mode_rules,
    findings_data,
    leaderboard_tables,
    open_leaderboards,
    without_baselines,
)
from stepscore.report.page.overview import leaderboard_labels, metric_infos, run_rows, warning, warnings_of
from stepscore.report.page.packing import Table
from stepscore.report.page.paging import MAX_BYTES, Parts
from stepscore.report.page.posters import Posters
from stepscore.report.page.signals import ServedTraces, trace_table, truth_table
from stepscore.report.page.video_hosting import VideoHost
from stepscore.report.page.videos import video_tables
from stepscore.report.run_sources import RunSources
from stepscore.runs import Run


def page_data(
    runs: Sequence[Run],
    host: VideoHost | None = None,
    *,
    revision: str = DEFAULT_REVISION,
    done_at: float | None = None,
    scenes: SceneChoice = "auto",
    live: bool = False,
    source: str | None = None,
    traces: ServedTraces | None = None,
    parts: Parts | None = None,
) -> schema.PageData:
    """Return everything that the page shows of some runs, as JSON values.

    Args:
        runs: One run or several: other judges over the same episodes, other policies, other sources.
        host: Where the page loads videos from; ``None`` for a page without them.
        revision: The OPD revision of the tables.
        done_at: Progress that ``robust`` counts as done; see :func:`stepscore.analysis.measure_episodes`.
        scenes: What intervals and tests speak of; see :func:`stepscore.analysis.measure_episodes`.
        live: Whether the page is served by ``stepscore view``.
        source: Where the videos are, instead of where the runs say; see :mod:`stepscore.report.run_sources`.
        traces: Hands out state and action of an episode on demand; ``None`` for a page that holds them.
        parts: Where a page of more than :data:`~stepscore.report.page.paging.MAX_BYTES` keeps what is not needed at
            first; ``None`` for a page that holds everything, whatever its size.
    """
    if not runs:
        raise OptionError("A report needs at least one run folder.")
    runs = distinct_runs(runs)
    leaderboards = open_leaderboards(runs, revision, done_at, scenes)
    with doing("Sorting episodes"):
        index = leaderboard_index(leaderboards)
    labels = leaderboard_labels(leaderboards)
    methods = Table[str]()
    pack = estimate_packer(methods)
    with doing("Opening sources"):
        sources = RunSources(runs, source)
    posters = Posters(None if host is None else sources)
    tables: list[table_types.Leaderboard] = [
        {
            **leaderboard_tables(leaderboard, label, pack),
            "findings": findings_data(leaderboard, index, pack, posters),
        }
        for leaderboard, label in zip(leaderboards, labels, strict=True)
    ]
    first = [
        *(one["episode"] for table in tables for one in table["findings"]["worst"]),
        *_failures(leaderboards, index),
    ]
    files, videos = video_tables(index, host, sources)
    explored = explorer_tables(leaderboards, index, pack, parts)
    with doing("Against labels"):
        agreement = agreement_rows(leaderboards, runs, pack)
    with doing("Reading state and action"):
        signals = trace_table(sources if host is not None else None, index, first, traces)
    rows, judgements = explored["runs"], explored["judgements"]
    return {
        **page_frame(revision, live=live),
        **explored,
        "title": ", ".join(row["name"] for row in rows),
        "warnings": warnings_of(leaderboards, labels, rows)
        + _left_out(leaderboards, runs, rows, judgements, videos),
        "boards": tables,
        "judge_agreement": agreement,
        "traces": signals,
        "files": files,
        "videos": videos,
        "posters": posters.images,
        "methods": methods.rows,
    }


def page_frame(revision: str, *, live: bool) -> schema.PageFrame:
    """Return what every page says of itself, whatever it shows."""
    chosen = cast(schema.Revision, revision)  # measuring has refused any other
    others = [cast(schema.Revision, name) for name in REVISIONS if name != revision]
    return {
        "format": schema.FORMAT,
        "written": {"stepscore": __version__, "created": datetime.now(UTC).isoformat(timespec="seconds")},
        "live": live,
        "version": "",
        "revision": chosen,
        "live_revisions": [chosen, *others],
        "failure_mode_rules": failure_mode_rules(),
        "audit": None,
        "judge_board": None,
        "parts": None,
    }


def leaderboard_index(leaderboards: Sequence[Leaderboard]) -> EpisodeIndex:
    """Return the episodes of some leaderboards, each once, in the order of the runs."""
    by_run = {
        number: leaderboard.metrics.episodes[rows]
        for leaderboard in leaderboards
        for number, rows in zip(leaderboard.numbers, leaderboard.slices(), strict=True)
    }
    return index_episodes(row for number in sorted(by_run) for row in by_run[number])


def explorer_tables(
    leaderboards: Sequence[Leaderboard],
    index: EpisodeIndex,
    pack: Pack,
    parts: Parts | None = None,
) -> schema.Explorer:
    """Return what the explorer shows besides videos and traces: runs, metrics, episodes, truth and judgements."""
    prompts, stages = Prompts(), Table[str]()
    if sum(map(run_bytes, leaderboards)) <= MAX_BYTES:
        parts = None
    judgements = {
        number: table
        for leaderboard in leaderboards
        for number, table in zip(
            leaderboard.numbers,
            judgement_tables(leaderboard, index, prompts, stages, parts),
            strict=True,
        )
    }
    with doing("Listing episodes"):
        return {
            "metrics": metric_infos(leaderboards),
            "runs": run_rows(leaderboards, pack),
            "episodes": episode_table(index, stages, paged=parts is not None),
            "paged": parts is not None,
            "truth": truth_table(leaderboards, index),
            "judgements": [judgements[number] for number in sorted(judgements)],
            "prompt_lines": prompts.lines,
            "prompts": prompts.prompts,
        }


def _failures(leaderboards: Sequence[Leaderboard], index: EpisodeIndex) -> list[int]:
    """Return the places of episodes that failed by label or by a judge, in their order."""
    return sorted(
        index.place(row)
        for leaderboard in leaderboards
        for row, label, judge in zip(
            leaderboard.metrics.episodes,
            leaderboard.metrics.values["success_label"],
            leaderboard.metrics.values["success_judge"],
            strict=True,
        )
        if label == 0 or judge == 0
    )


def _left_out(
    leaderboards: Sequence[Leaderboard],
    runs: Sequence[Run],
    rows: Sequence[schema.RunInfo],
    judgements: Sequence[columns.Judgements],
    videos: columns.VideoTable,
) -> list[schema.Warning]:
    """Return warnings about what is missing from the page, each with the remedy."""
    warnings = []
    for number, table in enumerate(judgements):
        if table["calls"]["left_out"]:
            text = (
                f"{rows[number]['name']}: prompts and answers of {table['calls']['left_out']} episodes are "
                f"not on the page, for its size; they are in {runs[number].path / 'calls.parquet'}."
            )
            warnings.append(warning("left-out", text))
    for leaderboard in without_baselines(leaderboards, runs):
        text = (
            f"With more than {MAX_BASELINE_EPISODES} episodes, {leaderboard.runs[0].judge} is not compared with "
            "baselines automatically. Run one, and give its run folder to the report too: "
            "stepscore judge SOURCE --judge linear-time -o RUN"
        )
        warnings.append(warning("left-out", text))
    if videos["unavailable"]:
        reasons = sorted(set(videos["unavailable"].values()))
        text = f"{len(videos['unavailable'])} of {len(videos['episode'])} videos cannot be shown."
        warnings.append(warning("videos", text, reasons[:10]))
    return warnings

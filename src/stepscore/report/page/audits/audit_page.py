"""All data of an audit's page: what the audit view shows, and the explorer's tables of its episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stepscore._options import DEFAULT_REVISION
from stepscore.analysis import episode_groups
from stepscore.audit import (
    HEADLINE,
    Audit,
    ProbeResult,
    StoredAudit,
    headline_sentences,
    read_audit,
    warnings_of,
)
from stepscore.report.page import schema, table_types
from stepscore.report.page.audits.changed_views import ChangedSources, changes_of
from stepscore.report.page.audits.shown_runs import run_label, shown_runs
from stepscore.report.page.data import explorer_tables, leaderboard_index, page_frame
from stepscore.report.page.episodes import EpisodeIndex
from stepscore.report.page.leaderboards import Leaderboard, Pack, estimate_packer, open_leaderboards
from stepscore.report.page.overview import warning
from stepscore.report.page.packing import Table
from stepscore.report.page.signals import trace_table
from stepscore.report.page.video_hosting import VideoHost
from stepscore.report.page.videos import video_tables
from stepscore.report.run_sources import RunSources
from stepscore.runs import Run, finite_or_none
from stepscore.types import Estimate

NO_FINDINGS: table_types.Findings = {
    "opening": {"sentences": [], "notes": [], "metric": "", "tiers": []},
    "first_failures": [],
    "funnels": [],
    "worst": [],
    "trust": {"text": "", "notes": [], "aspects": []},
}


def audit_page_data(
    folder: Path,
    host: VideoHost | None = None,
    *,
    revision: str = DEFAULT_REVISION,
    done_at: float | None = None,
    live: bool = False,
    source: str | None = None,
) -> schema.PageData:
    """Return everything that the page of an audit shows, as JSON values.

    Args:
        folder: The audit's folder.
        host: Where the page loads videos from; ``None`` for a page without them.
        revision: The OPD revision of the explorer's numbers.
        done_at: Progress that ``robust`` counts as done.
        live: Whether the page is served by ``stepscore view``.
        source: Where the videos are, instead of where the runs say.

    Raises:
        RunError: The folder does not hold an audit, or none of its runs can be opened.
    """
    stored = read_audit(folder)
    shown = shown_runs(stored.audit)
    methods = Table[str]()
    pack = estimate_packer(methods)
    runs = list(shown.values())
    leaderboards = open_leaderboards(runs, revision, done_at) if runs else []
    index = leaderboard_index(leaderboards)
    labels = [run_label(name, run) for name, run in shown.items()]
    given = ChangedSources(RunSources(runs, source), index)
    files, videos = video_tables(index, host, given)
    changes = {str(place): made for place, row in enumerate(index.rows) if (made := changes_of(row))}
    notes = {
        str(number): changes[str(place)].note
        for number, place in enumerate(videos["episode"])
        if str(place) in changes and changes[str(place)].note
    }
    judge = " ".join(filter(None, (stored.audit.judge, stored.audit.model)))
    return {
        **page_frame(revision, live=live),
        **explorer_tables(leaderboards, index, pack),
        "title": f"Audit of {judge}",
        "warnings": _warnings(stored.audit, shown),
        "boards": [
            _light_leaderboard(leaderboard, label)
            for leaderboard, label in zip(leaderboards, labels, strict=True)
        ],
        "judge_agreement": [],
        "traces": trace_table(None, index, (), None),
        "files": files,
        "videos": {**videos, "notes": notes},
        "posters": [],
        "audit": _audit(stored, shown, index, pack, {place: made.text for place, made in changes.items()}),
        "methods": methods.rows,
    }


def _audit(
    stored: StoredAudit, shown: Mapping[str, Run], index: EpisodeIndex, pack: Pack, changes: dict[str, str]
) -> schema.AuditData:
    """Return what the audit showed."""
    audit = stored.audit
    places = {row["episode_id"]: place for place, row in enumerate(index.rows)}
    trivial = list(dict.fromkeys(result.judge for result in audit.trivial))
    return {
        "judge": audit.judge,
        "model": audit.model,
        "protocol": audit.protocol,
        "source": audit.source,
        "created": audit.created,
        "stepscore": stored.stepscore,
        "episodes": audit.episodes,
        "tasks": list(audit.tasks),
        "cameras": list(audit.cameras),
        "labelled": audit.labelled,
        "seed": audit.seed,
        "full": audit.full,
        "cost": finite_or_none(audit.cost),
        "counts": audit.counts(),
        "sentences": [*warnings_of(audit), *headline_sentences(audit)],
        "headline": [
            {"probe": probe, "title": title} for probe, title in HEADLINE.items() if audit.result(probe)
        ],
        "trivial": trivial,
        "runs": {name: number for number, name in enumerate(shown)},
        "probes": [_probe(result, audit, trivial, places, pack) for result in audit.results],
        "agreement": [_row(row, pack) for row in stored.agreement],
        "policies": list(stored.policies),
        "changes": changes,
    }


def _probe(
    result: ProbeResult, audit: Audit, trivial: Sequence[str], places: Mapping[str, int], pack: Pack
) -> schema.ProbeData:
    others = [audit.result(result.probe, judge) for judge in trivial]
    return {
        "probe": result.probe,
        "family": result.family,
        "outcome": result.outcome,
        "effect": pack(result.effect),
        "bound": result.bound.limit,
        "good": result.bound.good,
        "what": result.effect_name,
        "expectation": result.expectation,
        "eligible": result.eligible,
        "reason": result.reason,
        "trivial": [
            None if one is None else schema.OfTrivial(one.outcome, pack(one.effect)) for one in others
        ],
        "worst": [
            {
                "id": case.episode,
                "episode": places.get(case.episode, -1),
                "changed": places.get(case.changed, -1),
                "effect": case.effect,
            }
            for case in result.worst
        ],
    }


def _row(row: Mapping[str, Any], pack: Pack) -> schema.AgreementRow:
    numbers = [float("nan") if row[name] is None else row[name] for name in ("value", "lo", "hi", "coverage")]
    value, lo, hi, coverage = numbers
    estimate = Estimate(value, lo, hi, row["n"], row["clusters"], coverage, row["method"])
    return {"group": row["group"], "metric": row["metric"], "estimate": pack(estimate)}


def _light_leaderboard(leaderboard: Leaderboard, label: str) -> table_types.Leaderboard:
    """Return a leaderboard without tables: recorded and changed episodes are never measured together."""
    run = leaderboard.runs[0]
    groups: list[table_types.Group] = [
        {"policy": group["policy"], "task": None, "episodes": int(np.sum(chosen)), "cells": {}, "ranks": {}}
        for group, chosen in episode_groups(leaderboard.metrics, ("policy",))
    ]
    return {
        "id": run.protocol.hash,
        "label": label,
        "judge": run.judge,
        "model": run.model,
        "protocol": run.protocol.hash,
        "baseline": leaderboard.numbers[0] > 0,
        "runs": list(leaderboard.numbers),
        "scope": "",
        "overall": groups,
        "by_task": [],
        "all": [],
        "subgoals": [],
        "diagnosis": {"source": "label", "policies": [], "z_metrics": [], "z": []},
        "findings": NO_FINDINGS,
    }


def _warnings(audit: Audit, shown: Mapping[str, Run]) -> list[schema.Warning]:
    missing = [name for name in audit.runs if name not in shown and name == "judge"]
    if missing:
        text = "The run folder of the audit cannot be opened: its numbers are shown without its episodes."
        return [warning("left-out", text)]
    return []

"""What a leaderboard's runs show in sentences: the overview's words, funnels and worst failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepscore.analysis import JudgeTrust, Opening, WorstFailure, run_findings
from stepscore.report.page import table_types
from stepscore.report.page.episodes import EpisodeIndex
from stepscore.report.page.leaderboards.leaderboard import Leaderboard, Pack
from stepscore.report.page.posters import Posters

MOST_FAILURES = 6
"""Failures that the page lists as the worst, at most."""


def findings_data(
    leaderboard: Leaderboard, index: EpisodeIndex, pack: Pack, posters: Posters
) -> table_types.Findings:
    """Return what one leaderboard shows in sentences; frames of its worst failures are added to the posters."""
    found = run_findings(
        leaderboard.runs,
        leaderboard.judged.counted_once(),
        modes=leaderboard.diagnosis,
        most_failures=MOST_FAILURES,
    )
    numbers = {
        str(run.path): number for run, number in zip(leaderboard.runs, leaderboard.numbers, strict=True)
    }
    rows = {(row["run"], row["episode_id"]): row for row in leaderboard.counted.episodes}
    return {
        "opening": _opening(found.opening),
        "first_failures": [
            {"policy": one.policy, "phrase": one.phrase, "source": one.source} for one in found.first_failures
        ],
        "funnels": [
            {
                "policy": one.policy,
                "source": one.source,
                "names": list(one.names),
                "reached": [pack(e) for e in one.reached],
                "tasks": one.tasks,
                "left_out": one.left_out,
            }
            for one in found.funnels
        ],
        "worst": [_worst(one, numbers, rows, index, posters) for one in found.worst],
        "trust": _trust(found.trust, pack),
    }


def _opening(opening: Opening) -> table_types.Opening:
    return {
        "sentences": list(opening.sentences),
        "notes": list(opening.notes),
        "metric": opening.metric,
        "tiers": [list(tier) for tier in opening.tiers],
    }


def _worst(
    failure: WorstFailure,
    numbers: Mapping[str, int],
    rows: Mapping[tuple[str, str], Mapping[str, Any]],
    index: EpisodeIndex,
    posters: Posters,
) -> table_types.WorstFailure:
    row = rows[failure.run, failure.episode_id]
    time_s = failure.worst.time_s if failure.worst is not None else None
    return {
        "run": numbers[failure.run],
        "episode": index.place(row),
        "source": failure.source,
        "poster": posters.number(row, time_s),
    }


def _trust(trust: JudgeTrust, pack: Pack) -> table_types.Trust:
    return {
        "text": trust.text,
        "notes": list(trust.notes),
        "aspects": [
            {
                "aspect": one.aspect,
                "answer": one.answer,
                "headline": one.headline,
                "sentence": one.sentence,
                "n": one.n,
                "cells": {name: pack(e) for name, e in one.estimates.items()},
            }
            for one in trust.aspects
        ],
    }

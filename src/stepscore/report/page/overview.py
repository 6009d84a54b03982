"""The overview of a page: the runs with their usage, metric names, and warnings."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from stepscore.analysis import DURATION_COLUMN
from stepscore.judges import BASELINES
from stepscore.metrics import MetricColumn, registered_columns
from stepscore.report.page import schema
from stepscore.report.page.leaderboards import Leaderboard, Pack
from stepscore.runs import Run, finite_or_none

METRIC_LABELS = {
    "success_label": "success by label",
    "success_judge": "success by judge",
    "MC25": "MC@25",
    "MC50": "MC@50",
    "MC75": "MC@75",
    "MC100": "MC@100",
    "stage_MAE": "stage MAE",
    "stage_CCC": "stage CCC",
    "duration_s": "duration in s",
}
MAIN_METRICS = (*list(METRIC_LABELS)[:6], "MP", "PPL", "CRA", "STR")
CORRELATIONS = ("VOC", "stage_CCC")
LOW_COVERAGE = 0.9
"""Share of known points below which the page warns about a run."""
MANY_DIFFERENCES = 4
"""Values of one option in which two protocols differ, above which they are counted and not listed."""


def metric_infos(leaderboards: Sequence[Leaderboard]) -> list[schema.MetricInfo]:
    """Return the page's description of every metric; success by judge is named by the rule that gave it."""
    names = {leaderboard.judged.success_name for leaderboard in leaderboards}
    labels = {**METRIC_LABELS, **({"success_judge": names.pop()} if len(names) == 1 else {})}
    columns = dict.fromkeys(column for leaderboard in leaderboards for column in leaderboard.metrics.columns)
    return [_metric_info(column, labels) for column in columns]


def _metric_info(column: MetricColumn, labels: Mapping[str, str]) -> schema.MetricInfo:
    return {
        "name": column.name,
        "label": labels.get(column.name, column.name),
        "better": column.better,
        "kind": column.kind,
        "percent": column.name not in (*CORRELATIONS, DURATION_COLUMN.name),
        "summary": column.summary,
        "main": column.name in (*MAIN_METRICS, *registered_columns(), DURATION_COLUMN.name),
    }


def leaderboard_labels(leaderboards: Sequence[Leaderboard]) -> list[str]:
    """Return judge and model of each leaderboard, and what else keeps the labels distinct."""
    names = [" ".join(filter(None, (b.runs[0].judge, b.runs[0].model))) for b in leaderboards]
    differ = len({leaderboard.judged.success_name for leaderboard in leaderboards}) > 1
    labels = []
    for name, leaderboard in zip(names, leaderboards, strict=True):
        rule = leaderboard.judged.success_name.partition(", ")[2] if differ else ""
        facts = [leaderboard.runs[0].protocol.hash[:6]] * (names.count(name) > 1) + [
            f"success {rule}"
        ] * bool(rule)
        labels.append(f"{name} ({', '.join(facts)})" if facts else name)
    return labels


def run_rows(leaderboards: Sequence[Leaderboard], pack: Pack) -> list[schema.RunInfo]:
    """Return the page's description of every run, in the order given."""
    facts = {
        number: _run(run)
        for leaderboard in leaderboards
        for run, number in zip(leaderboard.runs, leaderboard.numbers, strict=True)
    }
    ids = dict(
        zip(sorted(facts), unique_ids([facts[number]["name"] for number in sorted(facts)]), strict=True)
    )
    rows: dict[int, schema.RunInfo] = {}
    for place, leaderboard in enumerate(leaderboards):
        for number, chosen in zip(leaderboard.numbers, leaderboard.slices(), strict=True):
            inside = np.zeros(len(leaderboard.judged), dtype=bool)
            inside[chosen] = True
            coverage = pack(leaderboard.judged.estimate("coverage", inside))
            rows[number] = {**facts[number], "board": place, "coverage": coverage, "id": ids[number]}
    return [rows[number] for number in sorted(rows)]


def unique_ids(names: Sequence[str]) -> list[str]:
    """Return short names for URLs; of two equal ones, the second gets a number."""
    ids: list[str] = []
    for name in names:
        base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "run"
        copies, unique = 1, base
        while unique in ids:
            copies += 1
            unique = f"{base}-{copies}"
        ids.append(unique)
    return ids


def _run(run: Run) -> schema.RunFacts:
    judgements = run.judgements()
    flags = {flag for flag in judgements.column("calibrated").to_pylist() if flag is not None}
    info = run.info
    return {
        "name": run.path.resolve().name,
        "path": str(run.path),
        "judge": run.judge,
        "model": run.model,
        "protocol": run.protocol.hash,
        "protocol_json": json.dumps(run.protocol.content, indent=2, sort_keys=True, ensure_ascii=False),
        "baseline": run.judge in BASELINES,
        "source": info["source"],
        "status": info["status"],
        "running": False,
        "created": info["created"],
        "updated": info["updated"],
        "versions": info["versions"],
        "n": judgements.num_rows,
        "errors": judgements.num_rows - judgements.column("error").null_count,
        "selected": info["selected"],
        "calibrated": flags.pop() if len(flags) == 1 else None,
        "usage": _usage(run),
    }


def _usage(run: Run) -> schema.Usage:
    rows = run.usage().to_pylist()
    costs = [row["cost"] for row in rows]
    latencies = [latency for row in rows for latency in row["latencies_s"]]
    p50, p95 = np.quantile(latencies, [0.5, 0.95]) if latencies else (np.nan, np.nan)

    def total(name: str) -> Any:
        return sum(row[name] or 0 for row in rows)

    return {
        "seconds": total("seconds"),
        "calls": total("calls"),
        "attempts": total("attempts"),
        "cached": total("cached"),
        "images": total("images"),
        "tokens_in": total("tokens_in"),
        "tokens_out": total("tokens_out"),
        "wall_s": run.info.get("last", {}).get("seconds"),
        "cost": None if None in costs or not costs else sum(costs),
        "p50_s": finite_or_none(p50),
        "p95_s": finite_or_none(p95),
    }


def warnings_of(
    leaderboards: Sequence[Leaderboard], labels: Sequence[str], rows: Sequence[schema.RunInfo]
) -> list[schema.Warning]:
    """Return warnings to read before comparing numbers."""
    warnings = _protocols(leaderboards, labels)
    for row in rows:
        if row["errors"]:
            warnings.append(
                warning(
                    "errors",
                    f"{row['name']}: {row['errors']} of {row['n']} episodes could not be judged; "
                    "they count against coverage.",
                )
            )
        if row["status"] != "finished" or row["n"] < row["selected"]:
            warnings.append(
                warning(
                    "unfinished",
                    f"{row['name']}: {row['n']} of {row['selected']} episodes are judged (the run is "
                    f"{row['status']}). The same `stepscore judge` command continues it.",
                )
            )
        coverage = row["coverage"].value
        if coverage is not None and coverage < LOW_COVERAGE:
            warnings.append(
                warning(
                    "coverage", f"{row['name']}: only {100 * coverage:.0f} % of its curve points are known."
                )
            )
    return warnings


def _protocols(leaderboards: Sequence[Leaderboard], labels: Sequence[str]) -> list[schema.Warning]:
    """Warn if one judge on one model has several protocols, with the fields in which they differ."""
    details = []
    judges = set()
    for (a, name_a), (b, name_b) in combinations(zip(leaderboards, labels, strict=True), 2):
        mine, other = a.runs[0].protocol, b.runs[0].protocol
        if mine.judge_and_model != other.judge_and_model:
            continue
        judges.add(mine.judge_and_model[0])
        pair = f"{name_a} and {name_b}: " if len(leaderboards) > 2 else ""
        details += [f"{pair}{difference}" for difference in _summarised(mine.differences(other))]
    if not judges:
        return []
    text = (
        f"Runs of {' and '.join(sorted(judges))} follow different protocols. Each has a table of its own; a "
        "difference between tables may come from the protocol, not from the policies."
    )
    return [warning("protocols", text, details)]


def _summarised(differences: Sequence[str]) -> list[str]:
    """Return the differences; many under one option (the numbers of a calibration map) become one line."""
    options = [".".join(line.split(".")[:3]) for line in differences]
    counts = Counter(options)
    lines = [
        f"{option}: {counts[option]} values differ" if counts[option] > MANY_DIFFERENCES else line
        for option, line in zip(options, differences, strict=True)
    ]
    return list(dict.fromkeys(lines))


def warning(kind: schema.WarningKind, text: str, details: Sequence[str] = ()) -> schema.Warning:
    """Return a warning as the page holds it."""
    return {"kind": kind, "text": text, "details": list(details)}

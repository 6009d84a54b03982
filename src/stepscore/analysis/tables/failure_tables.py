"""How policies fail: a row per policy, a column per failure mode."""

from __future__ import annotations

import math
from typing import Any

from stepscore._tables import (
    Column,
    PrintedTable,
    TableRow,
    count_cell,
    estimate_cell,
    number_cell,
    percent_cell,
    text_cell,
)
from stepscore.analysis.episode_metrics import metric_columns
from stepscore.analysis.estimates import Group, GroupEstimate
from stepscore.analysis.failure_modes import FailureModes
from stepscore.types import Estimate


def failure_mode_tables(modes: FailureModes, group: Group, revision: str) -> list[PrintedTable]:
    """Return the shares of failure modes by policy, and how each policy's failures compare with the others'.

    Args:
        modes: From :func:`stepscore.analysis.failure_modes_by_policy`.
        group: What the episodes share besides the policy: the judge, where there are several.
        revision: The OPD revision.

    Of what a baseline judged, only the failures are counted.
    """
    if modes.unseen:
        return [_counts(modes, group)]
    return [
        _shares(modes, group, revision),
        *([_scores(modes, group, revision)] if _comparable(modes) else []),
    ]


def _comparable(modes: FailureModes) -> bool:
    """Return whether any policy's failures can be compared with the others: three must have some."""
    return any(not math.isnan(score) for scores in modes.z_scores.values() for score in scores.values())


def _counts(modes: FailureModes, group: Group) -> PrintedTable:
    columns = (Column("policy", left=True), Column("failures"), Column("successes"))
    rows = [
        TableRow(
            (text_cell(one.policy), count_cell(one.failures), count_cell(one.successes)),
            {"policy": one.policy, **group},
        )
        for one in modes.policies
    ]
    return PrintedTable(_title(modes, group), columns, tuple(rows), (modes.unseen,))


def _title(modes: FailureModes, group: Group) -> str:
    judge = "".join(f", {part}" for part in group.values())
    return f"How each policy fails (success by {modes.source}{judge})"


def _shares(modes: FailureModes, group: Group, revision: str) -> PrintedTable:
    names = list(dict.fromkeys(name for policy in modes.policies for name in policy.shares))
    rows = []
    for policy in modes.policies:
        shares = [
            estimate_cell(policy.shares.get(name), policy.failures, _share_name(name, modes.source))
            for name in names
        ]
        cells = (
            text_cell(policy.policy),
            count_cell(policy.failures),
            *shares,
            percent_cell(policy.stability, metric=f"fingerprint:stability|failure:{modes.source}"),
            count_cell(policy.slow.n),
            estimate_cell(policy.slow, None, f"fingerprint:too slow|success:{modes.source}"),
        )
        rows.append(TableRow(cells, {"policy": policy.policy, **group}))
    columns = (
        Column("policy", left=True),
        Column("failures"),
        *(Column(name.replace(" ", "\n")) for name in names),
        Column("alike over\ntasks"),
        Column("successes"),
        Column("of them\ntoo slow", "lower"),
    )
    notes = ["Percent of the failures, with 95 % intervals; the last column is percent of the successes."]
    notes += [f"{p.policy or 'unknown'}: {p.advice}" for p in modes.policies if p.advice]
    failing = sum(p.failures > 0 for p in modes.policies)
    if 1 < failing < 3:
        notes.append(
            f"Failures are compared across policies where three policies or more fail; here {failing} do."
        )
    return PrintedTable(_title(modes, group), columns, tuple(rows), tuple(notes))


def _scores(modes: FailureModes, group: Group, revision: str) -> PrintedTable:
    names = list(next(iter(modes.z_scores.values()), {}))
    rows = tuple(
        TableRow(
            (
                text_cell(policy),
                *(number_cell(scores[name], "+.2f", _score_name(name, modes.source)) for name in names),
            ),
            {"policy": policy, **group},
        )
        for policy, scores in modes.z_scores.items()
    )
    title = f"Failures: standard deviations from the mean of the policies (OPD {revision})"
    better = {column.name: column.better for column in metric_columns(revision)}
    columns = (Column("policy", left=True), *(Column(name, better[name]) for name in names))
    return PrintedTable(title, columns, rows)


def failure_mode_records(modes: FailureModes, group: Group) -> list[dict[str, Any]]:
    """Return every number of the tables as rows of ``metrics --json``."""
    rows = modes.to_dicts()
    for policy in modes.policies:
        numbers = {f"fingerprint:stability|failure:{modes.source}": policy.stability}
        scores = modes.z_scores.get(policy.policy, {})
        numbers |= {_score_name(name, modes.source): value for name, value in scores.items()}
        rows += [
            GroupEstimate({"policy": policy.policy}, name, _bare(value, policy.failures)).to_dict()
            for name, value in numbers.items()
        ]
    return [{**row, "group": {**row["group"], **group}} for row in rows]


def _share_name(name: str, source: str) -> str:
    return f"fingerprint:{name}|failure:{source}"


def _score_name(name: str, source: str) -> str:
    return f"z:{name}|failure:{source}"


def _bare(value: float, n: int) -> Estimate:
    """Return a number without an interval as an Estimate."""
    known = 0 if math.isnan(value) else n
    return Estimate(value, math.nan, math.nan, known, known, math.nan, "no interval")

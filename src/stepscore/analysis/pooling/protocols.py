"""Protocols (judges, models, options) are never averaged, and baselines say nothing about policies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stepscore.errors import OptionError
from stepscore.judges import BASELINES
from stepscore.metrics import MetricColumn

PROTOCOL_KEYS = ("judge", "model", "protocol")
"""Fields that distinguish protocols, from the readable name to the unique hash."""

EpisodeRow = Mapping[str, Any]


def add_protocol_keys(rows: Sequence[EpisodeRow], by: Sequence[str]) -> tuple[str, ...]:
    """Add to ``by`` the fewest of judge, model and protocol so that no group mixes two protocols."""
    protocols = {row["protocol"] for row in rows}
    if len(protocols) < 2:
        return tuple(by)
    for added in ((), ("judge",), ("model",), ("judge", "model"), ("protocol",)):
        keys = tuple(dict.fromkeys((*by, *added)))
        separated = {tuple(row[key] for key in keys if key in PROTOCOL_KEYS) for row in rows}
        if len(separated) == len(protocols):
            return keys
    return tuple(dict.fromkeys((*by, "protocol")))


def mixed_note(by: Sequence[str], keys: Sequence[str]) -> str:
    """Return why a table has more groups than requested; empty if it has not."""
    added = [key for key in keys if key not in by]
    if not added:
        return ""
    return (
        f"These runs are of several judges or protocols, which are never averaged: "
        f"grouped by {' and '.join(added)} too."
    )


def check_unmixed(rows: Sequence[EpisodeRow], by: Sequence[str]) -> str:
    """Reject groups that would average protocols; return a note if groups differ in theirs.

    Raises:
        OptionError: A group has several protocols; the message has the groupings that work.
    """
    protocols: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for row in rows:
        protocols[tuple(row[key] for key in by)].add(row["protocol"])
    mixed = next((group for group, found in protocols.items() if len(found) > 1), None)
    if mixed is not None:
        keys = add_protocol_keys(rows, by)
        apart = [key for key in keys if key in PROTOCOL_KEYS]
        name = " / ".join("unknown" if part is None else str(part) for part in mixed) or "all"
        raise OptionError(
            f"The group {name!r} holds results of {len(protocols[mixed])} protocols (judges, models or options), "
            f"which are never averaged. Compare them with --by {','.join(apart)}; or compare within each "
            f"with --by {','.join(keys)}; or pass one run."
        )
    if len(set().union(*protocols.values())) > 1 and not set(by) & set(PROTOCOL_KEYS):
        return (
            "The groups were judged under different protocols: a difference may be one of judges. "
            "See: stepscore compare RUN RUN --by judge"
        )
    return ""


DURATION_COLUMN = MetricColumn("duration_s", "neither", "mean", "length of the episode in seconds")
"""Known for episodes judged only by a baseline, like their labels."""

LABEL_COLUMNS = ("success_label",)
"""Metrics that need no judge."""


def is_baseline(row: Mapping[str, Any]) -> bool:
    """Return whether an episode's judge ignores the frames."""
    return row["judge"] in BASELINES


def baseline_note(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the note on baselines among the judges, with what to do; empty without one."""
    names = sorted({row["judge"] for row in rows if is_baseline(row)})
    if not names:
        return ""
    looks, its = ("look", "their") if len(names) > 1 else ("looks", "its")
    return (
        f"{' and '.join(names)} {looks} at no frame, so {its} progress and verdicts say nothing about a policy and "
        "are left out; labels and durations remain. To measure progress, use a judge that looks at the videos "
        "(stepscore ls judges)."
    )

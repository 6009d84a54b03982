"""An audit as tables for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stepscore._tables import UNKNOWN, Cell, Column, PrintedTable, TableRow, count_cell, text_cell
from stepscore.analysis.tables import agreement_tables
from stepscore.audit.planning import AuditPlan, Shortfall
from stepscore.audit.probe import MIN_SCENES
from stepscore.audit.recorded import warnings_of
from stepscore.audit.results import HEADLINE, Audit, ProbeResult

SHORT = {"linear-time": "clock", "image-difference": "images", "similarity": "goal"}
"""Names of trivial judges that fit a terminal."""

MOST_NAMED = 8
"""Probes that a sentence names, at most."""

OUTCOMES = (
    "pass: the 95 % interval lies on the good side of the bound; fail: beyond it; warn: the bound lies in it; "
    f"undecided: fewer than {MIN_SCENES} scenes with a known effect."
)
POLICIES = (
    "policies-success, policies-progress: fail if the judge favours a policy beyond chance; pass if all differences "
    "of its errors are within 0.1."
)


def audit_tables(audit: Audit) -> list[PrintedTable]:
    """Return the headline with the baselines, every probe of the judge, and its agreement with labels."""
    agreement = [] if audit.agreement is None else agreement_tables(audit.agreement)
    return [_headline(audit), _probes(audit), *agreement]


def shortfall_sentences(plan: AuditPlan) -> list[str]:
    """Return which probes no judge could pass on so few scenes, and what would help."""
    sentences = []
    for needed in sorted({one.needed for one in plan.shortfalls}):
        short = [one for one in plan.shortfalls if one.needed == needed]
        left = [one for one in short if one.available >= needed]
        if left:
            sentences.append(
                f"The budget leaves too few scenes for {_named(left)}: at least {needed} are needed to decide. "
                "-T full=true takes every episode."
            )
        few = [one for one in short if one.available < needed]
        if few:
            sentences.append(
                f"These episodes are too few for a judge to pass {_named(few)}: at least {needed} scenes are needed, "
                f"there are {_range([one.available for one in few])}."
            )
    return sentences


def _named(shortfalls: Sequence[Shortfall]) -> str:
    names = [one.probe for one in shortfalls]
    more = len(names) - MOST_NAMED
    *others, last = names if more <= 0 else [*names[:MOST_NAMED], f"{more} more probes"]
    return f"{', '.join(others)} and {last}" if others else last


def _range(counts: Sequence[int]) -> str:
    return f"{min(counts)}" if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"


def headline_sentences(audit: Audit) -> list[str]:
    """Return the headline results, one sentence each."""
    said = {
        "beyond-length": (
            "its progress is more than a clock: a success gains {v} beyond a still video of its length",
            "its progress is a clock: a success gains {v} beyond a still video of its length",
        ),
        "other-task": (
            "it reads the instruction: the right one wins in {p} of successes",
            "it does not read the instruction: the right one wins in {p} of successes",
        ),
        "round-trip": (
            "it notices what is undone: order {v} along the way there and back",
            "it does not notice what is undone: order {v} along the way there and back",
        ),
        "still-success": (
            "it finds no success where nothing moves ({p} of still videos)",
            "it finds success where nothing moves ({p} of still videos)",
        ),
    }
    sentences = []
    for probe, (good, bad) in said.items():
        result = audit.result(probe)
        if result is None:
            continue
        filled = {"v": f"{result.effect.value:.2f}", "p": f"{100 * result.effect.value:.0f} %"}
        if result.outcome == "undecided":
            why = result.reason or f"n {result.effect.n}"
            sentences.append(f"{HEADLINE[probe]}: undecided ({why}).")
        elif result.outcome == "warn":
            sentences.append(f"{HEADLINE[probe]}: these episodes do not decide it ({_interval(result)}).")
        else:
            text = (good if result.outcome == "pass" else bad).format(**filled)
            sentences.append(f"{HEADLINE[probe]}: {text}.")
    return [sentence[:1].upper() + sentence[1:] for sentence in sentences]


def _headline(audit: Audit) -> PrintedTable:
    judges = _trivial(audit)
    rows = []
    for probe, name in HEADLINE.items():
        own = audit.result(probe)
        if own is None:
            continue
        others = [audit.result(probe, judge) for judge in judges]
        cells = [text_cell(name), text_cell(own.outcome), _effect(own), text_cell(str(own.bound))]
        cells += [text_cell("") if other is None else _effect(other) for other in others]
        rows.append(TableRow(tuple(cells), {"probe": probe}))
    columns = (
        Column("headline", left=True),
        Column("outcome", left=True),
        Column(audit.judge),
        Column("good"),
        *(Column(SHORT.get(judge, judge)) for judge in judges),
    )
    # Above the first table, so that they are not read as footnotes.
    title = "\n".join([*warnings_of(audit), "Headline"])
    return PrintedTable(title, columns, tuple(rows), ("Mean effect with its 95 % interval.",))


def _probes(audit: Audit) -> PrintedTable:
    judges = _trivial(audit)
    rows = []
    for result in audit.results:
        if result.reason:
            continue
        others = [audit.result(result.probe, judge) for judge in judges]
        cells = [
            text_cell(result.probe),
            text_cell(result.outcome),
            _effect(result),
            text_cell(str(result.bound)),
            count_cell(result.effect.n, "n"),
            *(text_cell("" if other is None else _short_outcome(other)) for other in others),
        ]
        rows.append(TableRow(tuple(cells), {"probe": result.probe, "judge": result.judge}))
    columns = (
        Column("probe", left=True),
        Column("outcome", left=True),
        Column("effect"),
        Column("good"),
        Column("n"),
        *(Column(SHORT.get(judge, judge), left=True) for judge in judges),
    )
    policies = [POLICIES] if any(result.family == "labels" for result in audit.results) else []
    notes = (OUTCOMES, *policies, *_notes(audit))
    return PrintedTable(f"Probes of {audit.judge}", columns, tuple(rows), notes)


def _trivial(audit: Audit) -> list[str]:
    return list(dict.fromkeys(result.judge for result in audit.trivial))


def _short_outcome(result: ProbeResult) -> str:
    return UNKNOWN if result.outcome == "undecided" else result.outcome


def _notes(audit: Audit) -> Sequence[str]:
    notes = [f"{audit.episodes} episodes; the audit cost {audit.cost:.1f} times judging them once."]
    undecided = [r for r in audit.results if not r.reason and r.outcome == "undecided"]
    unanswered = [r.probe for r in undecided if r.effect.coverage < 0.5]
    if unanswered:
        notes.append(f"Undecided, as most answers of the judge are unknown: {', '.join(unanswered)}.")
    few = [r for r in undecided if r.probe not in unanswered]
    if few:
        take = (
            "Audit more scenes." if audit.full else "Audit more scenes, or every episode with -T full=true."
        )
        listed = ", ".join(f"{r.probe} ({r.effect.clusters})" for r in few)
        notes.append(f"Undecided, with the scenes that have a known effect: {listed}. {take}")
    if not audit.labelled:
        notes.append("No episode has a success label: probes of successes took all episodes.")
    without = [f"{r.probe} ({_first_sentence(r.reason)})" for r in audit.results if r.reason]
    if without:
        notes.append(f"Not applied: {'; '.join(without)}.")
    return notes


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".")


def _interval(result: ProbeResult) -> str:
    return f"{result.effect.value:.2f} [{result.effect.lo:.2f}, {result.effect.hi:.2f}]"


def _effect(result: ProbeResult) -> Cell:
    effect = result.effect
    if math.isnan(effect.value):
        return text_cell("unknown")
    bounds = None if math.isnan(effect.lo) else (f"{effect.lo:z.2f}", f"{effect.hi:z.2f}")
    return Cell(
        f"{effect.value:z.2f}",
        bounds,
        metric=result.probe,
        value=effect.value,
        lo=effect.lo,
        hi=effect.hi,
        bare=bounds is None,
    )

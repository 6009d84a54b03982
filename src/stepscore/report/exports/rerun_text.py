"""What a recording says in words: the text of an episode, and its verdicts as states over time."""

from __future__ import annotations

import math
from typing import Any

from stepscore._tables import escape_markdown
from stepscore.report.episode_data import EpisodeData
from stepscore.report.exports.content import EpisodeContent
from stepscore.report.plots.episode_lanes import outcome
from stepscore.types import Verdict


def description(content: EpisodeContent) -> str:
    """Return an episode in Markdown: instruction, policy, outcome, what went wrong, and a table of verdicts."""
    data = content.data
    facts = {name: data.row[name] for name in ("policy", "task", "robot", "dataset") if data.row[name]}
    lines = [f"# {escape_markdown(data.row['instruction'])}", ""]
    lines.append(f"{escape_markdown(data.id)}, {data.duration_s:.1f} s. {escape_markdown(outcome(data))}.")
    if content.worst is not None:
        lines += ["", f"**{escape_markdown(content.worst.text)}**"]
    lines += [f"- {name}: {escape_markdown(str(value))}" for name, value in facts.items()]
    return "\n".join([*lines, "", *_verdict_table(data)]) + "\n"


def _verdict_table(data: EpisodeData) -> list[str]:
    if not data.has_verdicts:
        return []
    judged = [judgement for judgement in data.judgements if judgement.verdicts]
    heads = ["subgoal", "label", *(escape_markdown(judgement.judge) for judgement in judged)]
    rows = [
        [
            escape_markdown(name),
            "?" if label is None else "yes" if label else "no",
            *(_words(judgement.verdicts.get(name)) for judgement in judged),
        ]
        for name, label in data.subgoals
    ]
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _words(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    return verdict.answer + (f", at {verdict.when_s:.1f} s" if math.isfinite(verdict.when_s) else "")


def verdict_states(verdict: Verdict, duration_s: float) -> list[tuple[float, str]]:
    """Return a verdict as states, each from a time on; the last, empty one ends them.

    A yes begins at the time that the judge stated; other verdicts are about the whole episode.
    """
    whole = [(0.0, verdict.answer), (duration_s, "")]
    if verdict.answer != "yes" or not math.isfinite(verdict.when_s):
        return whole
    return [(0.0, "not yet"), (verdict.when_s, "yes"), (duration_s, "")] if verdict.when_s > 0 else whole


def verdict_values(verdict: Verdict, *, label: bool | None) -> dict[str, Any]:
    """Return a verdict as named values, without those that are unknown."""
    values: dict[str, Any] = {"subgoal": verdict.subgoal, "answer": verdict.answer}
    values |= {name: value for name in ("score", "when_s") if math.isfinite(value := getattr(verdict, name))}
    values |= {"why": verdict.why} if verdict.why else {}
    return values | ({} if label is None else {"label": "yes" if label else "no"})

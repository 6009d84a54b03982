"""TOPReward's own tables for any model: VOC by dataset, success AUC, target words, prompt forms.

Scores are the paper's (arXiv 2602.19313): VOC of log P(True) over prefixes, and for success the mean of the
last three; GVL is added with the VOC of its percentages. A cell that cannot be measured has the reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepscore._tables import Column, PrintedTable, TableRow, number_cell, text_cell
from stepscore.analysis import EpisodeMetrics, auc_estimate, measure_episodes
from stepscore.analysis.against_labels import level_estimate
from stepscore.audit.board.board import Board
from stepscore.audit.board.entry import Entry
from stepscore.audit.board.tables import bounded_cell
from stepscore.runs import Run, open_run
from stepscore.types import Estimate, FloatArray

FORMS = ("upstream", "paper", "chat")
WORDS = (("True", "False"), ("Yes", "No"), ("yes", "no"), ("true", "false"))
BY_DATASET, SUCCESS, TARGETS, PROMPTS = "VOC by dataset", "Success AUC", "Target words", "Prompt forms"
PUBLISHED: Mapping[tuple[str, str], str] = {
    (BY_DATASET, "topreward"): "0.857 Qwen3-VL-8B, 0.417 Molmo2-8B, 0.433 Gemini-2.5-Pro (OXE)",
    (BY_DATASET, "gvl"): "0.194 Qwen3-VL-8B, -0.016 Molmo2-8B, 0.541 Gemini-2.5-Pro (OXE)",
    (SUCCESS, "topreward, mean of the last three log P(True)"): "0.654 Qwen3-VL-8B, 0.826 Gemini",
    (SUCCESS, "gvl, VOC"): "0.519 Qwen3-VL-8B",
    (PROMPTS, "upstream"): "VOC 0.945, without chat template",
    (PROMPTS, "chat"): "VOC 0.500, with chat template",
}
"""Figures of TOPReward's authors on other data, by table and judge or row."""
NO_ANSWER = "no answer of the model can be read as a score"


def topreward_entries(models: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Entry]:
    """Return the entries for the tables: TOPReward in each form and with each pair of words, and GVL, per model."""
    options: list[dict[str, str]] = [{} if form == "upstream" else {"form": form} for form in FORMS]
    options += [{"target": yes, "other": no} for yes, no in WORDS[1:]]
    options.append({"variant": "instruction"})
    return [
        entry
        for model, given in models
        for entry in (
            *(Entry("topreward", model, one, given) for one in options),
            Entry("gvl", model, {}, given),
        )
    ]


@dataclass(frozen=True)
class TableCell:
    """A number of the tables, or the reason why there is none."""

    model: str
    table: str
    row: str
    column: str
    estimate: Estimate | None
    reason: str = ""
    published: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        unknown = Estimate(math.nan, math.nan, math.nan, 0, 0, math.nan, "not measured")
        group = {"model": self.model, "table": self.table, "row": self.row}
        said = {"reason": self.reason, "published": self.published}
        return {"group": group, "metric": self.column, **(self.estimate or unknown).to_dict(), **said}


def topreward_cells(
    board: Board, folder: Path, model: str, options: Mapping[str, Any] | None = None
) -> list[TableCell]:
    """Measure the tables from the runs of a board with the rows of :func:`topreward_entries`."""
    rows = {row.label: row for row in board.rows}

    def label(judge: str, **given: str) -> str:
        return Entry(judge, model, given, options or {}).label

    def measured(name: str) -> tuple[_Measured | None, str]:
        if name not in rows or rows[name].reason is not None:
            return None, rows[name].reason or NO_ANSWER if name in rows else "not on the board"
        return _measure(open_run(folder / "runs" / rows[name].file_name / "recorded")), ""

    judges = {"topreward": label("topreward"), "gvl": label("gvl"), "linear-time": "linear-time"}
    found = {judge: measured(name) for judge, name in judges.items()}
    cells = []
    by_dataset = {judge: {} if one is None else one.voc_by_dataset() for judge, (one, _) in found.items()}
    for dataset in dict.fromkeys(name for vocs in by_dataset.values() for name in vocs):
        for judge, (_, why) in found.items():
            estimate = by_dataset[judge].get(dataset)
            cells.append(_table_cell(model, BY_DATASET, dataset, judge, estimate, why))
    scores = {
        "topreward": "mean of the last three log P(True)",
        "gvl": "VOC",
        "linear-time": "final progress",
    }
    for judge, score in scores.items():
        one, why = found[judge]
        cells.append(
            _table_cell(model, SUCCESS, f"{judge}, {score}", "AUC", None if one is None else one.auc(), why)
        )
    words = {f"{yes} / {no}": _given(target=yes, other=no) for yes, no in WORDS}
    forms = {form: _given(form=form) for form in FORMS} | {
        "instruction's own tokens": {"variant": "instruction"}
    }
    for table, variants in ((TARGETS, words), (PROMPTS, forms)):
        for name, given in variants.items():
            one, why = measured(label("topreward", **given))
            both = {"VOC": None, "AUC": None} if one is None else {"VOC": one.voc(), "AUC": one.auc()}
            cells += [
                _table_cell(model, table, name, column, estimate, why) for column, estimate in both.items()
            ]
    return cells


def _given(**options: str) -> dict[str, str]:
    """Return options without the judge's defaults."""
    default = {"form": FORMS[0], "target": WORDS[0][0], "other": WORDS[0][1]}
    return {name: value for name, value in options.items() if default[name] != value}


def _table_cell(
    model: str, table: str, row: str, column: str, estimate: Estimate | None, why: str
) -> TableCell:
    known = estimate if estimate is not None and estimate.n else None
    reason = "" if known is not None else why or NO_ANSWER
    published = PUBLISHED.get((table, row), "")
    if table == BY_DATASET:
        published = PUBLISHED.get((table, column), "") if row == "all" else ""
    return TableCell(model, table, row, column, known, reason, published)


@dataclass(frozen=True)
class _Measured:
    """One run by the paper's scores: VOC and success score of each episode."""

    metrics: EpisodeMetrics
    scores: FloatArray

    def _groups(self, chosen: np.ndarray[Any, Any]) -> dict[str, Any]:
        rows = [self.metrics.episodes[i] for i in np.flatnonzero(chosen)]
        return {
            "clusters": [row["pair"] or row["episode_id"] for row in rows],
            "strata": [str(row["task"] or row["instruction"]) for row in rows],
        }

    def voc(self, among: np.ndarray[Any, Any] | None = None) -> Estimate:
        """Return the mean VOC of labelled successes."""
        chosen = self.metrics.values["success_label"] == 1
        chosen = chosen if among is None else chosen & among
        return level_estimate(self.metrics.values["VOC"][chosen], self._groups(chosen))

    def voc_by_dataset(self) -> dict[str, Estimate]:
        """Return the VOC of all episodes and of each dataset, or of each task if there is only one dataset."""
        names = [str(row["dataset"] or "") for row in self.metrics.episodes]
        if len(set(names)) < 2:
            names = [str(row["task"] or row["instruction"]) for row in self.metrics.episodes]
        found = {name: self.voc(np.array(names) == name) for name in sorted(set(names))}
        return {"all": self.voc(), **found}

    def auc(self) -> Estimate:
        """Return how often a success scores higher than a failure."""
        labels = self.metrics.values["success_label"]
        known = ~np.isnan(labels)
        groups = self._groups(known)
        return auc_estimate(
            self.scores[known], labels[known], tasks=groups["strata"], scenes=groups["clusters"]
        )


def _measure(run: Run) -> _Measured:
    """Return a run by the score that its paper uses for ranking."""
    names = run.curves().column_names
    channel = next((name for name in ("logp_true", "raw") if name in names), "progress")
    # Only VOC and the last value are read; `robust` is undefined outside 0..1, where log-probabilities are.
    metrics = measure_episodes(run, channel=channel, revision="v1.0")
    facts = [json.loads(row["facts"]) if row["facts"] else {} for row in metrics.episodes]
    if any("logp_success" in fact for fact in facts):
        scores = [fact.get("logp_success") for fact in facts]
    elif run.judge == "gvl":
        scores = metrics.values["VOC"].tolist()
    else:
        scores = [values[-1] if len(values) else None for _, values in metrics.curves]
    return _Measured(
        metrics, np.array([math.nan if one is None else one for one in scores], dtype=np.float64)
    )


BY_ROW = {BY_DATASET: "dataset or task", SUCCESS: "score", TARGETS: "words", PROMPTS: "form"}
"""What the rows of each table are."""
NOT_TRAINED = (
    "The embedded judge was trained on the form upstream with True and False alone: what it says in other forms and "
    "words is measured, and no sign of what a large model would do."
)
AS_PUBLISHED = "Published: TOPReward's authors, measured by others on other data."
NOTE = "VOC on labelled successes, AUC over all episodes; 95 % intervals resample scenes within tasks."


def topreward_tables(cells: Sequence[TableCell]) -> list[PrintedTable]:
    """Return the four tables of each model, with published figures below them."""
    keys = dict.fromkeys((cell.model, cell.table) for cell in cells)
    return [
        _table(model, table, [c for c in cells if (c.model, c.table) == (model, table)])
        for model, table in keys
    ]


def _table(model: str, title: str, cells: Sequence[TableCell]) -> PrintedTable:
    columns = list(dict.fromkeys(cell.column for cell in cells))
    rows = []
    for name in dict.fromkeys(cell.row for cell in cells):
        by_column = {cell.column: cell for cell in cells if cell.row == name}
        known = [cell.estimate.n for cell in by_column.values() if cell.estimate is not None]
        n = number_cell(max(known, default=math.nan), ".0f")
        group = {"model": model, "table": title, "row": name}
        values = [bounded_cell(by_column[column].estimate, column, "z.3f") for column in columns]
        rows.append(TableRow((text_cell(name), *values, n), group))
    notes = [NOTE, NOT_TRAINED] if model == "embedded" and title in (TARGETS, PROMPTS) else [NOTE]
    notes += dict.fromkeys(f"{_named(cell)}: unknown. {cell.reason}" for cell in cells if cell.reason)
    said = [f"{_named(cell)}: {cell.published}." for cell in cells if cell.published]
    notes += [f"{AS_PUBLISHED} {' '.join(dict.fromkeys(said))}"] if said else []
    heads = (Column(BY_ROW[title], left=True), *(Column(column, "higher") for column in columns), Column("n"))
    return PrintedTable(f"{title}, {model}", heads, tuple(rows), tuple(notes))


def _named(cell: TableCell) -> str:
    return cell.column if cell.table == BY_DATASET else cell.row

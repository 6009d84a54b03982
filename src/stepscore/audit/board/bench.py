"""Measure judges on a benchmark, a row each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stepscore._files import write_json
from stepscore._untrusted import shown
from stepscore.audit.board.benchmark import Benchmark
from stepscore.audit.board.board import FRONT, Board, front_metric, open_board
from stepscore.audit.board.entry import Entry
from stepscore.audit.board.measure import row_estimates, runs_cost, said_by
from stepscore.audit.board.row import BoardRow, Cost, slug
from stepscore.audit.planned_runs import TRIVIAL_JUDGES
from stepscore.episodes import Episode, Episodes
from stepscore.errors import BudgetError, CapabilityError, OptionError, RunError, StepScoreError
from stepscore.judges import BASELINES, Judge, JudgeTraits, get_judge
from stepscore.models import Model, get_model, model_registry
from stepscore.models.calls import Budget
from stepscore.runs import CallOptions, FinishedEpisode, Protocol, Run, open_run, score


@dataclass(frozen=True)
class BenchOptions:
    """Options of a benchmark; ``workers`` is that of :func:`stepscore.score`.

    Attributes:
        views: Show judges only these views.
        call_options: Its budget covers the whole board.
        base_url: URL of the API of served models.
        front: The accuracy metric of the Pareto front.
        measured_by: Stated in the rows.
        further: Options that the commands of rows need to find the same data, such as the labels.
    """

    views: Sequence[str] | None = None
    workers: int | None = None
    call_options: CallOptions = field(default_factory=CallOptions)
    base_url: str | None = None
    front: str = FRONT
    measured_by: str = ""
    further: Sequence[str] = ()


@dataclass(frozen=True)
class Opened:
    """An entry with its judge, or with the reason why judge and model do not fit together."""

    entry: Entry
    judge: Judge | None
    reason: str = ""


def open_entries(entries: Sequence[Entry], base_url: str | None = None) -> list[Opened]:
    """Return the judges of entries, with the baselines added.

    Raises:
        StepScoreError: A name or an option is wrong.
        OptionError: Two entries have the same label.
    """
    given = {entry.judge for entry in entries if not entry.options}
    everything = [*entries, *(Entry(name) for name in TRIVIAL_JUDGES if name not in given)]
    seen: dict[str, Entry] = {}
    for entry in everything:
        if seen.setdefault(entry.label, entry) is not entry:
            raise OptionError(
                f"Two entries have the label {shown(entry.label)!r}. Remove one, or set its label in --entries FILE."
            )
    return [open_entry(entry, base_url) for entry in everything]


def open_entry(entry: Entry, base_url: str | None = None) -> Opened:
    """Return an entry with its judge, or with the reason why judge and model do not fit together."""
    options = dict(entry.options)
    if entry.model is not None:
        options["model"] = _model(entry, base_url)
    try:
        return Opened(entry, get_judge(entry.judge, **options))
    except CapabilityError as error:
        return Opened(entry, None, str(error))
    except OptionError as error:
        if entry.options or entry.model is None:
            raise
        # The entry sets nothing but the model, so the judge does not fit it.
        return Opened(entry, None, str(error))


def _model(entry: Entry, base_url: str | None) -> Model:
    assert entry.model is not None
    options = dict(entry.model_options)
    backend = entry.model.partition("/")[0]
    served = (
        backend in model_registry.names()
        and "base_url" in inspect.signature(model_registry.get(backend)).parameters
    )
    if base_url is not None and served:
        options["base_url"] = base_url
    return get_model(entry.model, **options)


def bench(
    benchmark: Benchmark,
    entries: Sequence[Opened],
    out: str | Path,
    options: BenchOptions | None = None,
    *,
    on_start: Callable[[str, int], None] | None = None,
    on_done: Callable[[FinishedEpisode], None] | None = None,
) -> Board:
    """Measure judges on a benchmark; return the board of all rows of its folder.

    A judge that cannot run gets a row with the reason. Rerunning resumes a stopped board, or adds judges to
    it.

    Args:
        entries: From :func:`open_entries`.
        out: The board's folder.

    Raises:
        BudgetError: The budget is spent; rerun with a larger one.
    """
    options, folder = options or BenchOptions(), Path(out)
    front = front_metric(options.front)
    open_board(folder, benchmark, front)  # a folder of other data is refused before anything is judged
    runner = _Runner(benchmark, folder, options, on_start, on_done)
    for opened in entries:
        row = runner.row(opened)
        write_json(folder / "rows" / f"{row.file_name}.json", row.to_dict(), indent=None, make_folder=True)
    return open_board(folder, benchmark, front)


def measure_row(
    benchmark: Benchmark,
    opened: Opened,
    out: Path,
    options: BenchOptions,
    *,
    on_start: Callable[[str, int], None] | None = None,
    on_done: Callable[[FinishedEpisode], None] | None = None,
) -> BoardRow:
    """Measure one judge; return its row without writing it."""
    return _Runner(benchmark, out, options, on_start, on_done).row(opened)


@dataclass
class _Runner:
    benchmark: Benchmark
    folder: Path
    options: BenchOptions
    on_start: Callable[[str, int], None] | None
    on_done: Callable[[FinishedEpisode], None] | None

    def row(self, opened: Opened) -> BoardRow:
        """Judge the benchmark and return the row."""
        entry, judge = opened.entry, opened.judge
        if judge is None:
            return self._without(entry, opened.reason)
        try:
            episodes, of_pairs, of_questions = self.benchmark.videos(goals=_looks_at_goals(judge))
            known = set(episodes.ids())
            others = {
                one.id: one for one in (*of_pairs.values(), *of_questions.values()) if one.id not in known
            }
            runs = [self._score(entry, judge, episodes, "recorded")]
            if others:
                runs.append(self._score(entry, judge, list(others.values()), "changed"))
        except (BudgetError, RunError):
            raise
        except StepScoreError as error:
            return self._without(entry, str(error))
        if (why := _all_failed(runs[0])) is not None:
            return self._without(entry, why)
        changed = runs[1] if others else None
        estimates, missing = row_estimates(self.benchmark, runs[0], changed, (of_pairs, of_questions))
        return replace(
            self._without(entry, None),
            protocol_hash=runs[0].protocol.hash,
            protocol=runs[0].protocol.content,
            estimates=estimates,
            missing=missing,
            cost=runs_cost(runs, [self.options.call_options.price(model) for model in judge.models]),
            curves={name: one for run in runs for name, one in said_by(run).items()},
        )

    def _without(self, entry: Entry, reason: str | None) -> BoardRow:
        nothing: dict[str, Any] = {}
        return BoardRow(
            label=entry.label,
            judge=entry.judge,
            model=entry.model,
            options=entry.options,
            model_options=entry.model_options,
            protocol_hash=Protocol(nothing).hash,
            protocol=nothing,
            benchmark=self.benchmark.of_row(),
            cost=Cost(),
            command=entry.command(self.benchmark.shown_as, self.options.further),
            measured_by=self.options.measured_by,
            reason=reason,
            trivial=entry.judge in TRIVIAL_JUDGES or entry.judge in BASELINES,
        )

    def _score(self, entry: Entry, judge: Judge, videos: Episodes | list[Episode], part: str) -> Run:
        folder = self.folder / "runs" / slug(entry.label) / part
        if self.on_start is not None:
            self.on_start(entry.label if part == "recorded" else f"{entry.label}, {part}", len(videos))
        return score(
            videos,
            judge,
            folder,
            views=self.options.views,
            workers=self.options.workers,
            call_options=self._within_budget(folder),
            on_done=self.on_done,
        )

    def _within_budget(self, folder: Path) -> CallOptions:
        """Return the call options of one run, with the budget that the other runs have left."""
        options = self.options.call_options
        budget = options.budget
        if budget.max_calls is None and budget.max_cost is None:
            return options
        others = [
            path.parent for path in (self.folder / "runs").glob("*/*/run.json") if path.parent != folder
        ]
        spent = [open_run(path).info.get("spent", {}).get("total", {}) for path in others]
        calls = sum(int(one.get("attempts") or 0) for one in spent)
        money = sum(float(one.get("cost") or 0.0) for one in spent)
        left = Budget(
            None if budget.max_calls is None else max(0, budget.max_calls - calls),
            None if budget.max_cost is None else max(0.0, budget.max_cost - money),
            given=budget,
        )
        return replace(options, budget=left)


def _looks_at_goals(judge: Judge) -> bool:
    return JudgeTraits.of(judge).uses_goals


def _all_failed(run: Run) -> str | None:
    """Return the first error if no episode was judged."""
    errors = run.judgements().column("error").to_pylist()
    return str(errors[0]) if errors and all(errors) else None

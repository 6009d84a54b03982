"""Tune a judge: try configurations on some labelled scenes, choose one, and test it on others.

Every run has its own folder inside the tuning's, so a stopped tuning resumes and no question is paid for
twice:

===================  ====================================================================================
``trials/NAME``      a trial on the choosing split; the choice depends only on these
``test/NAME``        the chosen trial, the default and the Pareto front on the test split
``templates``        rewordings of the template, and the model's answer
``tuned.json``       the result
===================  ====================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stepscore.audit.tune.choice import Choice, TrialCost, choose, left_for, spent_in, trial_cost
from stepscore.audit.tune.grid import MakeJudge, Trial, make_trial
from stepscore.audit.tune.metric import (
    METRICS,
    Metric,
    Outcomes,
    choose_metric,
    difference,
    estimate,
    outcomes,
    value,
)
from stepscore.audit.tune.result import Status, TrialResult, Tuned
from stepscore.audit.tune.rewrite import Rewrites, rewrite
from stepscore.audit.tune.tune_plan import PlannedCalls, TuneOptions, TunePlan, plan_tuning, planned_calls
from stepscore.episodes import Episode, Episodes
from stepscore.errors import BudgetError, CapabilityError, ModelError, OptionError
from stepscore.judges import only_model
from stepscore.runs import CallOptions, FinishedEpisode, Run, score


def tune(
    episodes: Episodes | Sequence[Episode],
    make: MakeJudge,
    over: Mapping[str, Sequence[object]],
    out: str | Path,
    options: TuneOptions | None = None,
    *,
    on_plan: Callable[[TunePlan, PlannedCalls], None] | None = None,
    on_start: Callable[[str, int], None] | None = None,
    on_done: Callable[[FinishedEpisode], None] | None = None,
) -> Tuned:
    """Try configurations of a judge on some labelled scenes, choose one, and test it on others.

    Of the trials that are not significantly worse than the best, the cheapest is chosen. It, the default and
    the Pareto front are then judged on the test split, which was not used before.

    Args:
        episodes: Unlabelled ones are left out.
        make: Returns the judge with other options, ``lambda options: get_judge("stepeval", model=m,
            **options)``.
        over: Values of each option; ``views`` are lists of cameras.
        out: Folder of the tuning; an existing one is resumed.
        on_plan: Called with the plan and its calls before anything is asked.

    Raises:
        OptionError: There is nothing to tune, or no labels to tune by.
        BudgetError: The budget ended before any trial was judged.
    """
    options, folder = options or TuneOptions(), Path(out)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "trials").is_dir():
        raise OptionError(
            f"{folder} exists and is not a tuning folder. Choose a new or empty folder with -o."
        )
    plan = plan_tuning(episodes, make, over, options)
    calls = planned_calls(plan, options.call_options or CallOptions())
    if on_plan is not None:
        on_plan(plan, calls)
    search = _Search(episodes, plan, folder, options, on_start, on_done)
    search.hold_back(*calls.per_episode)
    for trial in plan.grid.trials:
        search.choose_on(trial)
    metric = search.settle_metric()
    choice = search.choice(metric)
    if options.rewrite:
        rewrites = search.rewrite(search.trials[choice.chosen])
        best = search.trials[choice.chosen]
        for path in rewrites.paths:
            search.choose_on(make_trial(make, {**best.settings, "template": str(path)}, best.views))
        choice = search.choice(metric)
    for name in dict.fromkeys((choice.chosen, plan.grid.trials[0].name, *choice.front)):
        search.test(search.trials[name])
    return search.result(metric, choice)


@dataclass
class _Search:
    episodes: Episodes | Sequence[Episode]
    plan: TunePlan
    folder: Path
    options: TuneOptions
    on_start: Callable[[str, int], None] | None
    on_done: Callable[[FinishedEpisode], None] | None
    trials: dict[str, Trial] = field(default_factory=dict)
    chosen_on: dict[str, Run] = field(default_factory=dict)
    tested: dict[str, Run] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    stopped: str = ""
    held_back: tuple[int, float] = (0, 0.0)

    @property
    def call_options(self) -> CallOptions:
        return self.options.call_options or CallOptions()

    def hold_back(self, calls: float, cost: float) -> None:
        """Reserve the budget that two trials need on the test split, but at most half of it."""
        budget, n = self.call_options.budget, 2 * len(self.plan.split.test)
        self.held_back = (
            min(math.ceil(n * calls), (budget.max_calls or 0) // 2),
            min(n * cost, (budget.max_cost or 0.0) / 2),
        )

    def choose_on(self, trial: Trial) -> None:
        """Judge the choosing split by a trial, unless the budget is spent."""
        self.trials[trial.name] = trial
        if self.stopped:
            return
        run = self._judge(trial, self.plan.split.choose, "trials", self.held_back)
        if run is not None:
            self.chosen_on[trial.name] = run

    def test(self, trial: Trial) -> None:
        """Judge the test split by a trial; if the budget ends there, the figure is unknown."""
        run = self._judge(trial, self.plan.split.test, "test", (0, 0.0))
        if run is not None:
            self.tested[trial.name] = run

    def settle_metric(self) -> Metric:
        """Return the named metric, else the one that fits the trials' answers."""
        if not self.chosen_on:
            if self.stopped:
                raise BudgetError(f"No trial could be judged. {self.stopped}")
            name, why = next(iter(self.reasons.items()))
            raise OptionError(f"No trial could be judged; {name}: {why}")
        if self.options.metric is not None:
            return METRICS[self.options.metric]
        return choose_metric(self.plan.kind, list(self.chosen_on.values()))

    def choice(self, metric: Metric) -> Choice:
        """Choose among the judged trials, by the choosing split only."""
        given = {name: self._outcomes(metric, run, choosing=True) for name, run in self.chosen_on.items()}
        values = {name: value(metric, found) for name, found in given.items()}
        for name in [name for name, found in values.items() if math.isnan(found)]:
            self.reasons[name] = f"{metric.name} is undefined on its answers."
            del values[name], self.chosen_on[name]
        if not values:
            raise OptionError(
                f"{metric.name} is undefined on the choosing split. Choose another: -T metric=NAME"
            )
        return choose(metric, values, given, {name: self._cost(name) for name in values})

    def rewrite(self, best: Trial) -> Rewrites:
        """Request rewordings of a trial's template; note a spent budget or a failed answer."""
        folder = self.folder / "templates"
        others = [each for each in self._folders() if each != folder]
        limited = left_for(self.call_options, spent_in(others), self.held_back)
        try:
            found = rewrite(
                best.judge, self.options.rewrite, folder, call_options=limited, seed=self.options.seed
            )
        except BudgetError as error:
            self.stopped = str(error)
            return Rewrites()
        except ModelError as error:
            found = Rewrites(dropped=(f"No rewording was tried. {error}",))
        self.notes += found.dropped
        return found

    def result(self, metric: Metric, choice: Choice) -> Tuned:
        """Return the result after the test split is judged."""
        default, split = self.plan.grid.trials[0], self.plan.split
        given = {name: self._outcomes(metric, run, choosing=False) for name, run in self.tested.items()}
        results = tuple(self._result(trial, metric, choice, given) for trial in self.trials.values())
        model = only_model(default.judge)
        return Tuned(
            judge=default.judge.name,
            model=None if model is None else model.name,
            metric=metric.name,
            better=metric.better,
            results=results,
            best=choice.best,
            chosen=choice.chosen,
            tied=choice.tied,
            cheapest_by=choice.by,
            episodes=(len(split.choose), len(split.test)),
            scenes=split.scenes,
            seed=self.options.seed,
            share=self.options.share,
            combinations=self.plan.grid.combinations,
            spent=spent_in(self._folders()),
            dropped=self.plan.grid.dropped,
            notes=(*self.plan.grid.warnings, *self.notes),
            stopped=self.stopped,
        )

    def _result(
        self, trial: Trial, metric: Metric, choice: Choice, tested: Mapping[str, Outcomes]
    ) -> TrialResult:
        name, default = trial.name, self.plan.grid.trials[0].name
        if name not in self.chosen_on:
            reason = self.reasons.get(name)
            status: Status = "stopped" if reason is None else "failed"
            return TrialResult(name, trial.settings, trial.views, status, reason or self.stopped)
        own = self._outcomes(metric, self.chosen_on[name], choosing=True)
        compared = name in tested and default in tested and name != default
        return TrialResult(
            name,
            trial.settings,
            trial.views,
            "judged",
            failed=self._failed(name),
            choose=estimate(metric, own),
            from_best=choice.differences[name],
            cost=self._cost(name),
            test=estimate(metric, tested[name]) if name in tested else None,
            from_default=difference(metric, tested[name], tested[default]) if compared else None,
            front=name in choice.front,
        )

    def _judge(
        self, trial: Trial, episodes: Sequence[Episode], part: str, held_back: tuple[int, float]
    ) -> Run | None:
        """Return the run of a trial over some episodes; ``None``, with a note, if it failed."""
        folder = self.folder / part / trial.name
        others = spent_in(each for each in self._folders() if each != folder)
        if self.on_start is not None:
            self.on_start(trial.name if part == "trials" else f"{part} {trial.name}", len(episodes))
        try:
            run = score(
                self._subset(episodes),
                trial.judge,
                folder,
                views=trial.views,
                workers=self.options.workers,
                engine=self.options.engine,
                call_options=left_for(self.call_options, others, held_back),
                on_done=self.on_done,
            )
        except BudgetError as error:
            self.stopped = str(error)
            return None
        except CapabilityError as error:
            self.reasons[trial.name] = str(error)
            return None
        ids = {episode.id for episode in episodes}
        errors = [row["error"] for row in run.judgements().to_pylist() if row["episode_id"] in ids]
        if all(errors):
            self.reasons[trial.name] = errors[0]
            return None
        return run

    def _subset(self, episodes: Sequence[Episode]) -> Episodes | Sequence[Episode]:
        ids = [episode.id for episode in episodes]
        return self.episodes.select(ids) if isinstance(self.episodes, Episodes) else list(episodes)

    def _folders(self) -> list[Path]:
        """Return every folder with recorded attempts, including those of earlier starts."""
        parts = [path for part in ("trials", "test") for path in sorted((self.folder / part).glob("*"))]
        return [*parts, self.folder / "templates"]

    def _outcomes(self, metric: Metric, run: Run, *, choosing: bool) -> Outcomes:
        split = self.plan.split
        return outcomes(metric, split.choose if choosing else split.test, run, self.options.potential)

    def _cost(self, name: str) -> TrialCost:
        ids = {episode.id for episode in self.plan.split.choose}
        return trial_cost(self.chosen_on[name], self.trials[name].judge, self.call_options, ids)

    def _failed(self, name: str) -> int:
        ids = {episode.id for episode in self.plan.split.choose}
        rows = self.chosen_on[name].judgements().to_pylist()
        return sum(row["episode_id"] in ids and row["error"] is not None for row in rows)

"""``stepscore tune``: choose a judge's options by labels and by cost."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore.cli import options
from stepscore.cli.formats import FormatName, Json, chosen_format
from stepscore.cli.judging.progress_bar import RunBars
from stepscore.cli.key_values import read_over
from stepscore.cli.outputs import TUNING, Force, check_output, new_folder
from stepscore.cli.tables import err, print_result
from stepscore.cli.tables import out as console

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscore.audit.tune import PlannedCalls, TrialResult, Tuned, TunePlan
    from stepscore.judges import Judge


@options.with_groups
def tune(
    source: options.Source,
    name: Annotated[
        str, typer.Option("--judge", metavar="JUDGE", help="Judge to tune, see `stepscore ls judges`.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            callback=new_folder,
            metavar="TUNED",
            help="Folder of the tuning. An existing one is resumed.",
        ),
    ],
    over: Annotated[
        list[str],
        typer.Argument(
            metavar="[OPTION=A,B]...",
            help="Values to try of the judge's options, or of views (top,top+wrist).",
        ),
    ] = [],  # noqa: B006 - typer copies it
    *,
    tuning: Annotated[
        dict[str, Any],
        options.KeyGroup(
            "-T",
            "tuning",
            of=("stepscore.audit.tune:TuneOptions",),
            leave_out=("views", "workers", "engine", "call_options"),
        ),
    ],
    judge_flags: options.JudgeFlags,
    source_flags: options.SourceFlags,
    engine: options.ProcessEngine,
    budget: options.BudgetFlags,
    dry_run: options.DryRun = False,
    force: Force = False,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Choose a judge's options by labels and cost.

    Every combination is judged on one part of the labelled scenes; the cheapest of those as good as the best is
    chosen. The choice, the default and the Pareto front are then judged on the other part. Rerun to resume.
    """
    from stepscore.audit.tune import TuneOptions, plan_tuning, planned_calls, tune_tables
    from stepscore.audit.tune import tune as run_tuning
    from stepscore.judges import get_judge, judge_registry

    form = chosen_format(output_format, json=json)
    check_output(out, TUNING, force=force)
    name, given = judge_flags.read(name)
    source, values = read_over([source, *over], judge_registry.get(name))

    def make(settings: Mapping[str, object]) -> Judge:
        return get_judge(name, **{**given, **settings})

    call_options = engine.call_options(budget)
    if not dry_run:
        call_options.check(make({}).models)
    episodes = source_flags.open(source)
    chosen = TuneOptions(
        **tuning,
        views=source_flags.cameras,
        workers=engine.workers,
        engine=engine.engine,
        call_options=call_options,
    )
    if dry_run:
        plan = plan_tuning(episodes, make, values, chosen)
        console().print(_planned(plan, planned_calls(plan, call_options)), soft_wrap=True)
        return
    if force:
        (out / "trials").mkdir(parents=True, exist_ok=True)  # makes it the folder of a tuning
    try:
        with RunBars() as bars:
            tuned = run_tuning(
                episodes,
                make,
                values,
                out,
                chosen,
                on_plan=lambda plan, calls: err().print(_planned(plan, calls), soft_wrap=True),
                on_start=bars.start,
                on_done=bars.advance,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Completed judgements are kept in {out}. Rerun the same command to resume."
        ) from None
    tuned = tuned.with_command(_command(source, name, judge_flags, source_flags, tuned.winner))
    written = tuned.write(out)
    print_result(form, tune_tables(tuned), tuned.to_dict(), csv_rows=tuned.rows(), notes=[tuned.verdict()])
    _print_end(tuned, written)
    if tuned.stopped or any(each.status != "judged" or each.failed for each in tuned.results):
        raise typer.Exit(1)


def _command(
    source: str,
    name: str,
    judge_flags: options.JudgeFlags,
    source_flags: options.SourceFlags,
    winner: TrialResult,
) -> str:
    """Return the command that judges as the chosen trial did."""
    from stepscore.audit.tune import value_text

    flags = {
        "--model": judge_flags.model,
        "--views": ",".join(winner.views) if winner.views else None,
        "--subgoals": source_flags.subgoals,
        "--labels": source_flags.labels,
        "--reader": source_flags.reader,
        "--policy-from": source_flags.policy_from,
        "--instruction": source_flags.instruction,
        "--goal": source_flags.goal,
    }
    words = ["stepscore", "judge", source, "--judge", name]
    words += [str(word) for flag, value in flags.items() if value is not None for word in (flag, value)]
    words += [word for pair in judge_flags.model_options for word in ("-M", pair)]
    given = [
        pair
        for pair in judge_flags.judge_options
        if pair.partition("=")[0].replace("-", "_") not in winner.settings
    ]
    tried = [f"{key}={value_text(value)}" for key, value in winner.settings.items() if key != "views"]
    words += [word for pair in (*given, *tried) for word in ("-J", pair)]
    return shlex.join([*words, "-o", "RUN"])


def _planned(plan: TunePlan, calls: PlannedCalls) -> str:
    """Return the planned trials and their cost."""
    (choose, test), trials = plan.split.scenes, len(plan.grid.trials)
    judged = (
        f"{trials} trials ({plan.grid.combinations} combinations) on {len(plan.split.choose)} episodes of {choose} "
        f"scenes; the choice is tested on {len(plan.split.test)} episodes of {test} others"
    )
    if not calls.calls:
        return judged
    cost = "unknown: give -E price-in and -E price-out" if calls.cost is None else f"about {calls.cost:.4f}"
    return (
        f"{judged}\nTo choose: at most {calls.calls} calls, {calls.cached} of which are in the cache, about "
        f"{calls.tokens} tokens in; cost {cost}. To test: as much per episode, for the chosen trial, the default "
        "and the front."
    )


def _print_end(tuned: Tuned, written: Path) -> None:
    """Print the money spent, if any, and the command that judges with the choice."""
    spent = tuned.spent
    cost = "unknown" if spent.cost is None else f"{'' if spent.exact else 'at most '}{spent.cost:.4f}"
    lines = [
        f"Spent: {spent.attempts} calls, cost {cost}",
        f"Tuning: {written}",
        f"To judge as chosen: {tuned.command}",
    ]
    if tuned.stopped:
        lines.insert(0, f"Stopped: {tuned.stopped}")
    for line in lines:
        err().print(line, soft_wrap=True)

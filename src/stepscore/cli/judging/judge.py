"""``stepscore judge``: judge episodes and write a run folder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from stepscore._progress import tracked_by
from stepscore.cli import options
from stepscore.cli.config import options_of
from stepscore.cli.judging.progress_bar import EpisodesBar
from stepscore.cli.judging.shards import print_shard
from stepscore.cli.judging.usage import print_usage
from stepscore.cli.outputs import new_folder
from stepscore.cli.progress import with_bar
from stepscore.cli.tables import err, percent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from stepscore.episodes import Episode
    from stepscore.judges import Judge
    from stepscore.runs import CallOptions, Run


@options.with_groups
def judge(
    context: typer.Context,
    source: options.Source,
    name: Annotated[
        str,
        typer.Option(
            "--judge",
            metavar="JUDGE",
            help="Judge, see `stepscore ls judges`; or your own class: FILE.py:CLASS.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_folder, metavar="RUN", help="Run folder; an existing one is resumed."
        ),
    ],
    *,
    judge_flags: options.JudgeFlags,
    source_flags: options.SourceFlags,
    episode_ids: options.EpisodeIds = None,
    engine: options.RunEngine,
    budget: options.BudgetFlags,
    shard_name: options.ShardName = None,
    dry_run: options.DryRun = False,
) -> None:
    """Judge every episode of SOURCE and write a run folder.

    The same command resumes a run: finished episodes are kept, failed ones are judged again.
    """
    from stepscore.episodes import Episodes
    from stepscore.errors import BudgetError
    from stepscore.judges import check_subgoals, judge_registry, prepare
    from stepscore.runs import cut, open_run, parse_shard, score

    shard = None if shard_name is None else parse_shard(shard_name)
    chosen = judge_flags.open(name)
    opened_engine = engine.open()
    call_options = engine.call_options(budget)
    if not dry_run:  # which sends nothing, and asks for nothing that is not installed
        call_options.check(chosen.models)
    cameras = source_flags.cameras
    listed = source_flags.open(source)
    episodes = everything = options.select_episodes(listed, episode_ids)
    if shard is not None:
        part = cut(episodes, shard, chosen.models)
        print_shard(part, shard, call_options)
        assert isinstance(part.episodes, Episodes)
        episodes = part.episodes
    if episodes.goals is not None:
        err().print(f"Goal images: {episodes.goals.sentence()}", soft_wrap=True)
        if chosen.name in judge_registry.names() and not getattr(chosen, "uses_goals", False):
            err().print(
                f"[yellow]Judge {chosen.name!r} looks at no goal image: leave out --goal.[/yellow]",
                markup=True,
            )
    if dry_run:
        print_dry_run(episodes, chosen, call_options, cameras)
        return
    with_bar(check_subgoals, "Looking for subgoals")(chosen, everything)
    prepare(chosen, offline=engine.offline)
    _print_licences(chosen)
    stopped: BudgetError | None = None
    try:
        served = any(one.capabilities.served for one in chosen.models)
        with EpisodesBar(len(episodes), chosen.name, tokens=served) as bar, tracked_by(bar.track):
            run = score(
                everything,
                chosen,
                out,
                views=cameras,
                workers=engine.workers,
                engine=opened_engine,
                call_options=call_options,
                on_done=bar.advance,
                offline=engine.offline,
                shard=shard,
                lease_s=engine.lease,
                command=options_of(context),
            )
    except BudgetError as error:
        run, stopped = open_run(out if shard is None else shard.folder(out)), error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"finished episodes are kept in {out}; the same command resumes.") from None
    selected = set(episodes.ids())
    failed = summarise(run, selected=selected)
    if episodes.problems:
        err().print(
            f"Problems with the source: {len(episodes.problems)}. List them: {source_flags.inspect_command(source)}",
            soft_wrap=True,
        )
    if source_flags.task is None and source_flags.limit is None:  # else not all of the source is listed
        _print_removed(run, set(listed.ids()))
    if source_flags.limit is None and episode_ids is None:  # else all that was selected could be listed
        failed += len(episodes.problems)
    if shard is not None:
        err().print(f"When all shards are finished: stepscore merge {shlex.quote(str(out))}", soft_wrap=True)
    if stopped is not None:
        err().print(f"[yellow]Stopped:[/yellow] {escape(str(stopped))}", soft_wrap=True, markup=True)
    if failed or stopped is not None:
        raise typer.Exit(1)


def print_dry_run(
    episodes: Sequence[Episode],
    chosen: Judge,
    call_options: CallOptions,
    views: list[str] | None,
    what: str = "episodes",
) -> None:
    """Print the calls and cost of a run, and why episodes cannot be judged; exit with 1 where none can."""
    from stepscore.cli.tables import out
    from stepscore.runs import dry_run

    counted = dry_run(episodes, chosen, call_options, views=views)
    cost = "unknown" if counted.cost is None else f"about {counted.cost:.4f}"
    by = (
        f"as {counted.counted} calls in the cache had" if counted.counted else "images as Qwen3-VL reads them"
    )
    out().print(
        f"{counted.episodes} {what}, {counted.failed} of which cannot be judged\n"
        f"{counted.calls} calls, {counted.cached} of which are in the cache\n"
        f"{counted.images} images, about {counted.tokens_in} tokens in ({by}), "
        f"at most {counted.tokens_out} out\n"
        f"Cost: {cost} (price: {counted.price})"
    )
    if counted.stopped:
        first = next(iter(counted.stopped.values()))
        out().print(
            f"In {len(counted.stopped)} of the {what} the judge could not read the empty answer that stands in for "
            f"the model's ({first}): a real run may make more calls.",
            soft_wrap=True,
            markup=False,
        )
    print_failures(counted.failures)
    if counted.failed and counted.failed == counted.episodes:
        raise typer.Exit(1)


def _print_licences(chosen: Judge) -> None:
    """Print the licence of each model that will be asked."""
    from stepscore.judges.published.profiles import model_licence

    for model in chosen.models:
        licence = model_licence(model)
        forbids = ", which forbids commercial use" if licence.non_commercial else ""
        err().print(f"Licence of {escape(model.name)}: {escape(licence.name)}{forbids}", soft_wrap=True)


def _print_removed(run: Run, listed: Collection[str]) -> None:
    """Print which episodes of a resumed run its source no longer has."""
    removed = [name for name in run.judgements()["episode_id"].to_pylist() if name not in listed]
    if removed:
        more = f" and {len(removed) - 1} more" if len(removed) > 1 else ""
        err().print(
            f"No longer in the source, but still in the run and in its metrics: {removed[0]}{more}. To leave "
            "removed episodes out, judge into a new folder; answers in the cache are not asked for again.",
            soft_wrap=True,
            markup=False,
        )


def summarise(run: Run, *, selected: Collection[str] | None = None) -> int:
    """Print a summary of a run.

    Args:
        run: The run.
        selected: Ids of the episodes that this start was about; ``None`` for all of the run.

    Returns:
        How many of the selected episodes failed.
    """
    console = err()
    rows = run.judgements().select(["episode_id", "error", "coverage"]).to_pylist()
    all_failures = {row["episode_id"]: row["error"] for row in rows if row["error"]}
    failures = {name: error for name, error in all_failures.items() if selected is None or name in selected}
    last = run.info["last"]
    coverage = [
        row["coverage"]
        for row in rows
        if row["coverage"] is not None and (selected is None or row["episode_id"] in selected)
    ]
    parts = [f"{last['judged']} judged", f"{last['reused']} already there", f"{len(failures)} failed"]
    console.print(f"{', '.join(parts)} in {last['seconds']:.1f} s; protocol {run.protocol.hash}")
    if coverage:
        mean = sum(coverage) / len(coverage)
        console.print(f"Coverage of the curves: {percent(mean)} % of points are known")
    print_usage(run)
    print_failures(failures, f"; all are in the error column of {run.path / 'judgements.parquet'}")
    if others := len(all_failures) - len(failures):
        console.print(f"Of the run's other episodes, which were not selected now, {others} failed before.")
    console.print(
        f"Run: {run.path}\n{_next_step(run, len(rows) - len(all_failures), coverage)}", soft_wrap=True
    )
    if command := options.published_revision_command([run]):
        console.print(f"As PRM-as-a-Judge publishes it: {command}", soft_wrap=True)
    return len(failures)


def _next_step(run: Run, judged: int, coverage: Sequence[float]) -> str:
    """Return what to do next; a run of which nothing is known has no metrics to look at."""
    if not judged:
        return "Next: fix the cause, then rerun this command."
    if coverage and not any(coverage):
        return "Nothing is known of these episodes. Next: judge them by another judge or model, into another folder."
    return f"Next: stepscore metrics {shlex.quote(str(run.path))}"


def print_failures(failures: Mapping[str, str], where: str = "", *, limit: int = 5) -> None:
    """Print the first errors, each once for all of its episodes, the number of the others, and where they are."""
    alike: dict[str, list[str]] = {}
    for episode_id, error in failures.items():
        alike.setdefault(error, []).append(episode_id)
    shown = list(alike.items())[:limit]
    for error, ids in shown:
        more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
        err().print(
            f"  [red]failed[/red] {escape(ids[0])}{more}: {escape(error)}", soft_wrap=True, markup=True
        )
    if left := len(failures) - sum(len(ids) for _, ids in shown):
        err().print(f"  … and {left} more{where}", soft_wrap=True)

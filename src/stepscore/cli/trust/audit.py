"""``stepscore audit``: probe a judge with episodes whose right answer is known."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.markup import escape

from stepscore._progress import track, tracked_by
from stepscore.cli import options
from stepscore.cli.formats import FormatName, Json, chosen_format
from stepscore.cli.judging.progress_bar import RunBars
from stepscore.cli.judging.shards import print_shard
from stepscore.cli.outputs import AUDIT, PAGE, Force, check_output, new_folder
from stepscore.cli.progress import PhasesBar, show_progress
from stepscore.cli.tables import err, print_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepscore.audit import AuditOptions, AuditPlan
    from stepscore.episodes import Episodes
    from stepscore.judges import Judge
    from stepscore.runs import Cut, Shard

T = TypeVar("T")

AuditShard = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Judge only part I of N; finally, run without it to merge.",
        rich_help_panel=options.SHARDS,
    ),
]


@dataclass(frozen=True)
class AuditOutput:
    """What is written beside the results.

    Attributes:
        measured_by: Who makes the audit; stated in validation.json.
        page: Write the result as a page, too: AUDIT/report.html.
    """

    measured_by: str = ""
    page: bool = True


@options.with_groups
def audit(
    source: options.Source,
    name: Annotated[
        str,
        typer.Option(
            "--judge", metavar="JUDGE", help="Judge to audit, see `stepscore ls judges`; or FILE.py:CLASS."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            callback=new_folder,
            metavar="AUDIT",
            help="Folder of the audit; an existing one goes on.",
        ),
    ],
    *,
    judge_flags: options.JudgeFlags,
    test: Annotated[
        dict[str, Any],
        options.KeyGroup(
            "-T",
            "audit",
            of=("stepscore.audit:AuditOptions", "stepscore.cli.trust.audit:AuditOutput"),
            leave_out=("views", "workers", "engine", "call_options"),
        ),
    ],
    source_flags: options.SourceFlags,
    episode_ids: options.EpisodeIds = None,
    engine: options.ClusterEngine,
    budget: options.BudgetFlags,
    shard_name: AuditShard = None,
    force: Force = False,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Probe a judge with episodes whose right answer is known.

    Every probe has an effect with an interval and passes, warns or fails; the clock, the constant and the image
    difference stand beside it. The same command goes on with an audit that was stopped, and merges one of shards.
    """
    from stepscore.audit import AuditOptions, audit_tables, choose_probes, headline_sentences, read_texts
    from stepscore.audit import audit as run_audit
    from stepscore.errors import UnfinishedShardsError
    from stepscore.judges import check_subgoals
    from stepscore.runs import parse_shard

    shard = None if shard_name is None else parse_shard(shard_name)
    chosen_form = chosen_format(output_format, json=json)
    check_output(out, AUDIT, force=force)
    output = AuditOutput(**{name: test.pop(name) for name in ("measured_by", "page") if name in test})
    if output.page:
        check_output(out / "report.html", PAGE, force=force)
    choose_probes(test.get("probes"))
    chosen = judge_flags.open(name)
    call_options = engine.call_options(budget)
    call_options.check(chosen.models)
    episodes = options.select_episodes(source_flags.open(source), episode_ids)
    check_subgoals(chosen, episodes)
    for name in ("counterfactuals", "paraphrases"):
        if test.get(name) is not None:
            test[name] = read_texts(test[name])
    audit_options = AuditOptions(
        **test,
        views=source_flags.cameras,
        workers=engine.workers,
        engine=engine.open(),
        call_options=call_options,
    )
    if shard is not None:
        _judge_shard(episodes, chosen, out, shard, audit_options)
        return
    try:
        with _AuditBars() as bars, tracked_by(bars.track):
            result = run_audit(
                episodes,
                chosen,
                out,
                audit_options,
                on_plan=_print_shortfalls,
                on_start=bars.start,
                on_done=bars.advance,
            )
    except UnfinishedShardsError as error:
        err().print(f"[yellow]Unfinished:[/yellow] {escape(str(error))}", soft_wrap=True, markup=True)
        raise typer.Exit(1) from None
    written = result.write(out, output.measured_by)
    if output.page:  # before anything is printed: what reads the output may have left, as head does
        from stepscore.report import write_audit_report

        with show_progress():
            for path in track((out / "report.html",), "Writing the page", 1):
                write_audit_report(out, path, replace=force)
    stored = result.to_dict()
    found = (*stored["results"], *stored["trivial"])
    probed = [{name: value for name, value in row.items() if name != "worst"} for row in found]
    rows = [*probed, *(stored["agreement"] or {"rows": []})["rows"]]
    print_result(chosen_form, audit_tables(result), stored, csv_rows=rows, notes=headline_sentences(result))
    counts = ", ".join(f"{count} {outcome}" for outcome, count in result.counts().items())
    err().print(f"{counts}; protocol {result.protocol}\nAudit: {written}", soft_wrap=True)
    if output.page:
        err().print(f"Page: {out / 'report.html'}", soft_wrap=True)


class _AuditBars(RunBars):
    """The bars of an audit's runs, and one for what is done before, between and after them."""

    def __init__(self) -> None:
        super().__init__()
        self._between = ExitStack()
        self._phases: PhasesBar | None = None

    def __enter__(self) -> _AuditBars:
        return self

    def __exit__(self, *details: object) -> None:
        self._between.close()
        self._phases = None
        super().__exit__(*details)

    def track(self, items: Iterable[T], title: str, total: int | None) -> Iterator[T]:
        """Return the items and show how many were taken: below the bar of a run, or instead of it once it is full."""
        if self._bar is not None and not self._bar.full:
            yield from self._bar.track(items, title, total)
            return
        if self._phases is None:
            super().__exit__()
            self._bar = None
            self._phases = self._between.enter_context(show_progress())
        yield from self._phases.track(items, title, total)


def _judge_shard(
    episodes: Episodes, judge: Judge, out: Path, shard: Shard, audit_options: AuditOptions
) -> None:
    """Judge a shard of every run of an audit, and print how large a part of each it is."""
    from stepscore.audit import audit_shard
    from stepscore.runs import CallOptions

    whole = audit_options.call_options or CallOptions()
    with RunBars() as bars:

        def start(name: str, part: Cut) -> None:
            bars.start(name, len(part.episodes))
            budget = CallOptions() if name.startswith("trivial/") else whole
            print_shard(part, shard, budget, f"episodes of {out / name}")

        audit_shard(
            episodes,
            judge,
            out,
            shard,
            audit_options,
            on_plan=_print_shortfalls,
            on_part=start,
            on_done=bars.advance,
        )
    err().print("When all shards are finished: the same command without --shard", soft_wrap=True)


def _print_shortfalls(plan: AuditPlan) -> None:
    """Print which probes cannot decide on these episodes, before anything is judged."""
    from stepscore.audit import shortfall_sentences

    for sentence in shortfall_sentences(plan):
        err().print(f"[yellow]{sentence}[/yellow]", soft_wrap=True, markup=True)

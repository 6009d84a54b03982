"""``stepscore audit``: probe a judge with episodes whose right answer is known."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.markup import escape

from stepscore.cli import options
from stepscore.cli.formats import Csv, FormatName, Json, chosen_format
from stepscore.cli.judging.progress_bar import RunBars
from stepscore.cli.judging.shards import print_shard
from stepscore.cli.numbers import MAX_SEED, between
from stepscore.cli.outputs import AUDIT, PAGE, Force, check_output, new_folder
from stepscore.cli.tables import err, print_result
from stepscore.cli.waiting import Watch, watched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
        help="Judge only part I of N of everything the audit judges, with its share of the budget; slurm or slurm/N "
        "takes I from a SLURM array. At the end, the same command without it merges the shards and has the result.",
        rich_help_panel=options.SHARDS,
    ),
]
Texts = Annotated[
    Path | None,
    typer.Option(
        "--counterfactuals",
        metavar="FILE",
        help="Other instructions for the same scene and objects, by task or instruction (YAML).",
    ),
]


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
    probes: Annotated[
        str,
        typer.Option(
            "--probes", metavar="A,B", help="Only these probes; all by default. See docs/methods/audit.md."
        ),
    ] = "all",
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Take every episode for every probe, not a subset of about 10 times the cost."
        ),
    ] = False,
    counterfactuals: Texts = None,
    paraphrases: Annotated[
        Path | None,
        typer.Option("--paraphrases", metavar="FILE", help="The same instructions in other words (YAML)."),
    ] = None,
    trivial: Annotated[
        bool,
        typer.Option(
            "--trivial/--no-trivial",
            help="Audit clock, constant, image difference and similarity with goal images beside it.",
        ),
    ] = True,
    measured_by: Annotated[
        str,
        typer.Option(
            "--measured-by", metavar="NAME", help="Who makes the audit; stated in its validation.json."
        ),
    ] = "",
    seed: Annotated[
        int, typer.Option("--seed", callback=between(0, MAX_SEED), help="Random seed of the subsets.")
    ] = 0,
    source_flags: options.SourceFlags,
    episode_ids: options.EpisodeIds = None,
    engine_flags: options.EngineFlags,
    call_flags: options.CallFlags,
    shard_name: AuditShard = None,
    page: Annotated[
        bool, typer.Option("--page/--no-page", help="Write the result as a page too: AUDIT/report.html.")
    ] = True,
    force: Force = False,
    output_format: FormatName = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Probe a judge with episodes whose right answer is known.

    Every probe has an effect with an interval and passes, warns or fails; the clock, the constant and the image
    difference stand beside it. The same command goes on with an audit that was stopped, and merges one of shards.
    """
    from stepscore.audit import AuditOptions, audit_tables, choose_probes, headline_sentences
    from stepscore.audit import audit as run_audit
    from stepscore.errors import UnfinishedShardsError
    from stepscore.judges import check_subgoals
    from stepscore.runs import parse_shard

    shard = None if shard_name is None else parse_shard(shard_name)
    chosen_form = chosen_format(output_format, json=json, csv=csv)
    check_output(out, AUDIT, force=force)
    if page:
        check_output(out / "report.html", PAGE, force=force)
    names = options.split_names(probes)
    choose_probes(names)
    chosen = judge_flags.open(name)
    engine = engine_flags.open(call_flags.connections)
    call_options = call_flags.options()
    call_options.check(chosen.models)
    episodes = options.select_episodes(source_flags.open(source), episode_ids)
    check_subgoals(chosen, episodes)
    audit_options = AuditOptions(
        probes=names,
        full=full,
        seed=seed,
        counterfactuals=_texts(counterfactuals),
        paraphrases=_texts(paraphrases),
        trivial=trivial,
        views=source_flags.cameras,
        workers=engine_flags.workers,
        engine=engine,
        call_options=call_options,
    )
    if shard is not None:
        _judge_shard(episodes, chosen, out, shard, audit_options)
        return
    try:
        with _AuditBars() as bars:
            result = run_audit(
                episodes,
                chosen,
                out,
                audit_options,
                on_plan=_print_shortfalls,
                on_start=bars.start,
                on_done=bars.advance,
                watch=bars.watch,
            )
    except UnfinishedShardsError as error:
        err().print(f"[yellow]Unfinished:[/yellow] {escape(str(error))}", soft_wrap=True, markup=True)
        raise typer.Exit(1) from None
    written = result.write(out, measured_by)
    if page:  # before anything is printed: what reads the output may have left, as head does
        from stepscore.report import write_audit_report

        with watched() as watch:
            for path in watch((out / "report.html",), "Writing the page", 1):
                write_audit_report(out, path, replace=force)
    stored = result.to_dict()
    found = (*stored["results"], *stored["trivial"])
    probed = [{name: value for name, value in row.items() if name != "worst"} for row in found]
    rows = [*probed, *(stored["agreement"] or {"rows": []})["rows"]]
    print_result(chosen_form, audit_tables(result), stored, csv_rows=rows, notes=headline_sentences(result))
    counts = ", ".join(f"{count} {outcome}" for outcome, count in result.counts().items())
    err().print(f"{counts}; protocol {result.protocol}\nAudit: {written}", soft_wrap=True)
    if page:
        err().print(f"Page: {out / 'report.html'}", soft_wrap=True)


class _AuditBars(RunBars):
    """The bars of an audit's runs, and one for what is done before, between and after them."""

    def __init__(self) -> None:
        super().__init__()
        self._between = ExitStack()
        self._watch: Watch | None = None

    def __enter__(self) -> _AuditBars:
        return self

    def __exit__(self, *details: object) -> None:
        self._between.close()
        self._watch = None
        super().__exit__(*details)

    def watch(self, items: Iterable[T], title: str, total: int | None) -> Iterator[T]:
        """Return the items, and show how many were taken; the bar of the run before them ends."""
        if self._watch is None:
            super().__exit__()
            self._bar = None
            self._watch = self._between.enter_context(watched())
        yield from self._watch(items, title, total)


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


def _texts(path: Path | None) -> Mapping[str, Sequence[str]] | None:
    """Return the texts of each task of a YAML file."""
    from stepscore.audit import read_texts

    return None if path is None else read_texts(path)

"""``stepscore pairs``: the pairwise test of a judge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore.cli import options
from stepscore.cli.formats import Csv, FormatName, Json, chosen_format
from stepscore.cli.judging.judge import print_dry_run, print_failures
from stepscore.cli.judging.progress_bar import EpisodesBar, RunBars
from stepscore.cli.numbers import MANY, MAX_SEED, between
from stepscore.cli.outputs import new_folder
from stepscore.cli.tables import err, print_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stepscore._tables import PrintedTable
    from stepscore.audit.pairs import By, Consistency, ConsistencyOptions, ConsistencyPlan, Pair
    from stepscore.episodes import Episode
    from stepscore.judges import Judge
    from stepscore.runs import CallOptions, Run

app = typer.Typer(
    no_args_is_help=True, help="Make pairs of timestamps with known order, and score a judge on them."
)


@app.command("make")
def make(
    source: options.Source,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The pairs (JSON lines) to write.")
    ],
    per_span: Annotated[
        int,
        typer.Option("--per-span", callback=between(2, MANY), metavar="N", help="Most pairs of each span."),
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", callback=between(0, MAX_SEED), help="Random seed.")] = 0,
    labels: options.LabelsFile = None,
    potential: options.Potential = None,
    task: options.Task = None,
    limit: options.Limit = None,
    reader: options.ReaderName = None,
) -> None:
    """Draw pairs of timestamps from episodes with labelled progress: small, medium and large, half of them falls."""
    from stepscore.audit.pairs import SPANS, make_progress_pairs, write_pairs
    from stepscore.episodes import open_episodes

    episodes = open_episodes(source, labels=labels, task=task, limit=limit, reader=reader)
    pairs = make_progress_pairs(episodes, per_span=per_span, seed=seed, potential=potential)
    write_pairs(out, pairs)
    counts = ", ".join(f"{sum(pair.span == span for pair in pairs)} {span}" for span in SPANS)
    err().print(f"{len(pairs)} pairs ({counts}), half of them falls\nPairs: {out}", soft_wrap=True)


@app.command("score")
@options.with_groups
def score_command(
    pairs_file: Annotated[
        Path,
        typer.Argument(metavar="PAIRS", help="Pairs of `stepscore pairs make`, or a file for --columns."),
    ],
    name: Annotated[
        str, typer.Option("--judge", metavar="JUDGE", help="Judge to test, see `stepscore ls judges`.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_folder, metavar="RUN", help="Run folder; an existing one is resumed."
        ),
    ],
    source: Annotated[
        str | None, typer.Option("--source", metavar="SOURCE", help="The source that they were made from.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="A=FIELD,...",
            help="Read pairs of images from another tool's JSON file by its fields, for example "
            "images=image,label=answer,span=bin; or a YAML file of them.",
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            "--images",
            metavar="PATH",
            help="Folder or zip archive of the images, with --columns; default: the file's folder.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="compare|curve",
            help="Ask about exactly the two frames of a pair, or score the curve over the whole video; default: "
            "compare where the judge can.",
        ),
    ] = None,
    consistency: Annotated[
        bool,
        typer.Option(
            "--consistency",
            help="Ask more questions, by which a judge that compares frames is held against itself.",
        ),
    ] = False,
    triples: Annotated[
        int,
        typer.Option(
            "--triples",
            callback=between(1, MANY),
            metavar="N",
            help="Pairs asked again, and triples of frames, with --consistency.",
        ),
    ] = 60,
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats",
            callback=between(0, 1000),
            metavar="N",
            help="How often each of these pairs is asked once more.",
        ),
    ] = 3,
    seed: Annotated[
        int, typer.Option("--seed", callback=between(0, MAX_SEED), help="Random seed of --consistency.")
    ] = 0,
    *,
    judge_flags: options.JudgeFlags,
    views: options.Views = None,
    goal: options.Goal = None,
    labels: options.LabelsFile = None,
    reader: options.ReaderName = None,
    call_flags: options.CallFlags,
    dry_run: options.DryRun = False,
    output_format: FormatName = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Score a judge on pairs: the share of right signs by span, with the clock and the constant beside it.

    A judge that compares frames is asked about exactly the two frames of each pair; --consistency also asks whether
    its answers fit together.
    """
    from stepscore.audit.pairs import ConsistencyOptions, read_pairs
    from stepscore.episodes import open_episodes
    from stepscore.errors import OptionError

    chosen_form = chosen_format(output_format, json=json, csv=csv)
    if (source is None) == (columns is None):
        raise OptionError(
            "Give the source that the pairs were made from: --source SOURCE; or, for another tool's file of images, "
            "its fields: --columns A=FIELD,..."
        )
    asked = None if columns is None else _from_file(pairs_file, columns, images)
    pairs = read_pairs(pairs_file) if asked is None else asked.pairs
    chosen = judge_flags.open(name)
    if asked is not None:
        _check_file_judge(chosen, by)
    how = _scored_by(chosen, by, consistency=consistency)
    call_options = call_flags.options()
    if not dry_run:
        call_options.check(chosen.models)
    cameras = options.split_names(views)
    if asked is None:
        view = cameras[0] if cameras else None
        asked = _from_source(
            pairs, open_episodes(str(source), labels=labels, reader=reader, goal=goal, goal_view=view)
        )
    extra = ConsistencyOptions(triples, repeats, seed=seed) if consistency else None
    test = _PairTest(asked, chosen, how, out, cameras, call_options, extra)
    if dry_run:
        test.dry_run()
        return
    tables, records = test.score()
    print_result(chosen_form, tables, records)
    _finish(test.runs, out)


def _scored_by(judge: Judge, by: str | None, *, consistency: bool) -> By:
    """Return what is scored: what the option says, else direct comparison where the judge can compare."""
    from stepscore.audit.pairs import check_compares
    from stepscore.errors import OptionError, UnknownNameError
    from stepscore.judges import FrameComparer

    if by not in (None, "compare", "curve"):
        raise UnknownNameError("value of --by", by, ("compare", "curve"))
    if by == "compare":
        check_compares(judge)
    compares = by == "compare" or (by is None and isinstance(judge, FrameComparer))
    if consistency and not compares:
        raise OptionError(
            f"--consistency is about comparisons of two frames, and {judge.name!r} is scored by its curve, which is "
            "consistent by construction. Leave it out; other sampling and asking again are probes of stepscore audit."
        )
    return "compare" if compares else "curve"


@dataclass(frozen=True)
class _Asked:
    """What a judge is asked about: pairs with their clips or videos, and the recorded episodes."""

    pairs: tuple[Pair, ...]
    videos: Mapping[str, Episode]
    clips: Sequence[Episode]
    episodes: Mapping[str, Episode]


def _from_source(pairs: tuple[Pair, ...], listed: Iterable[Episode]) -> _Asked:
    """Return pairs of timestamps with the videos of a source."""
    from stepscore.audit.pairs import pair_clips, pair_videos

    episodes = {episode.id: episode for episode in listed}
    videos = pair_videos(pairs, episodes)
    return _Asked(pairs, videos, pair_clips(pairs, videos), episodes)


def _from_file(path: Path, columns: str, images: Path | None) -> _Asked:
    """Return the pairs of images of another tool's file."""
    from stepscore.audit.pairs import read_columns, read_pair_file

    found = read_pair_file(path, read_columns(columns), images)
    if found.undirected:
        err().print(f"{found.undirected} records have the label 0, no direction, and are left out.")
    return _Asked(found.pairs, {}, found.clips, {})


def _check_file_judge(judge: Judge, by: str | None) -> None:
    """Refuse a judge that cannot be asked about two images that are all there is."""
    from stepscore.audit.pairs import comparing_judges
    from stepscore.errors import OptionError
    from stepscore.judges import FrameComparer

    if by == "curve" or not isinstance(judge, FrameComparer):
        raise OptionError(
            f"A file of images has no videos, and {judge.name!r} would be scored by its curve over one. Judges that "
            f"compare two images: {', '.join(comparing_judges())}."
        )
    if getattr(judge, "end", None) == "last":
        raise OptionError(
            "end=last shows the episode's last frame, which a file of images does not have. Map the goal image: "
            "--columns end=FIELD,..."
        )


@dataclass
class _PairTest:
    """A judge on pairs, by comparison or by its curve."""

    asked: _Asked
    judge: Judge
    by: By
    out: Path
    views: list[str] | None
    call_options: CallOptions
    extra: ConsistencyOptions | None

    def __post_init__(self) -> None:
        from stepscore.audit.pairs import Compare, plan_consistency

        self.runs: list[Run] = []
        self.scored: Judge = Compare(self.judge) if self.by == "compare" else self.judge
        distinct = {episode.id: episode for episode in self.asked.videos.values()}
        self.shown = list(self.asked.clips if self.by == "compare" else distinct.values())
        self.plan: ConsistencyPlan | None = None
        if self.extra is not None:
            self.plan = plan_consistency(
                self.judge, self.asked.pairs, self.asked.clips, self.asked.episodes, self.extra
            )

    def dry_run(self) -> None:
        """Print what would be asked."""
        print_dry_run(
            self.shown,
            self.scored,
            self.call_options,
            self.views,
            "pairs" if self.by == "compare" else "episodes",
        )
        for name, part in self.plan.parts.items() if self.plan is not None else ():
            what = f"{'episodes' if name.startswith('curves') else name} of --consistency ({name})"
            print_dry_run(part.episodes, part.judge, self.call_options, self.views, what)

    def score(self) -> tuple[list[PrintedTable], list[dict[str, Any]]]:
        """Ask, and return the tables and the rows of JSON."""
        from stepscore.audit import judged_episodes
        from stepscore.audit.pairs import (
            consistency_table,
            judged_change,
            measure_resolution,
            pair_changes,
            pair_table,
            resolution_table,
            score_changes,
            trivial_comparisons,
            trivial_results,
        )
        from stepscore.judges import check_subgoals
        from stepscore.runs import score

        check_subgoals(self.judge, self.shown)
        if self.plan is not None:
            err().print(self.plan.sentence(), soft_wrap=True)
        with EpisodesBar(len(self.shown), self.judge.name) as bar:
            run = score(
                self.shown,
                self.scored,
                self.out,
                views=self.views,
                call_options=self.call_options,
                on_done=bar.advance,
            )
        self.runs.append(run)
        pairs, videos = self.asked.pairs, self.asked.videos
        if self.by == "compare":
            changes, trivial = pair_changes(run, pairs), trivial_comparisons(pairs)
        else:
            judged = judged_episodes(run)
            changes = [judged_change(pair, judged.get(videos[pair.id].id)) for pair in pairs]
            trivial = trivial_results(pairs, videos)
        results = [score_changes(self.judge.name, pairs, changes, by=self.by), *trivial]
        fine = measure_resolution(self.judge.name, pairs, changes, self.by)
        tables = [pair_table(results), *([found] if (found := resolution_table(fine)) else [])]
        records = [row for result in results for row in result.to_dicts()]
        measures = [*fine.measures]
        if self.plan is not None:
            own = self._consistency(self.plan, run, changes)
            tables.append(consistency_table(own))
            measures += own.measures
        return tables, [*records, *(one.to_dict(self.judge.name, self.by) for one in measures)]

    def _consistency(self, plan: ConsistencyPlan, run: Run, changes: Sequence[float]) -> Consistency:
        """Ask the further questions, and return what they show."""
        from stepscore.audit.pairs import ask_consistency, measure_consistency

        with RunBars() as bars:
            runs = ask_consistency(
                plan,
                self.out / "consistency",
                views=self.views,
                call_options=self.call_options,
                spent_by=[run],
                on_start=bars.start,
                on_done=bars.advance,
            )
        self.runs += runs.values()
        pairs = self.asked.pairs
        by_id = {pair.id: change for pair, change in zip(pairs, changes, strict=True)}
        return measure_consistency(self.judge.name, plan, runs, by_id, pairs)


def _finish(runs: Sequence[Run], out: Path) -> None:
    """Print where the run is, and what could not be judged; exit with 1 where something could not."""
    failures: dict[str, str] = {}
    for run in runs:
        rows = run.judgements().select(["episode_id", "error"]).to_pylist()
        failures |= {row["episode_id"]: row["error"] for row in rows if row["error"]}
    print_failures(failures, f"; all are in the error column of {out / 'judgements.parquet'}")
    err().print(f"Run: {out}", soft_wrap=True)
    if failures:
        raise typer.Exit(1)

"""``stepscore metrics``: print the metrics of runs, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore._options import DEFAULT_REVISION
from stepscore._progress import track
from stepscore.cli import options
from stepscore.cli.formats import Format, FormatName, Json, chosen_format
from stepscore.cli.local_code import load_metrics
from stepscore.cli.numbers import between
from stepscore.cli.progress import show_progress
from stepscore.cli.tables import err, out, print_result

if TYPE_CHECKING:
    from stepscore._tables import PrintedTable
    from stepscore.analysis import (
        Abstention,
        EpisodeMetrics,
        FailureModes,
        Group,
        GroupEstimate,
        JudgeAgreement,
        SubgoalTable,
    )
    from stepscore.runs import Run


class Show(StrEnum):
    """The tables to print."""

    MAIN = "main"
    CONDITIONED = "conditioned"
    SUBGOALS = "subgoals"
    SUBGOAL_MATRIX = "subgoal-matrix"
    FAILURE_MODES = "failure-modes"
    JUDGE = "judge"
    ABSTENTION = "abstention"
    EPISODES = "episodes"
    ALL = "all"


def metrics(
    runs: options.RunFolders,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="A,B",
            help="Group by dataset, robot, task, policy, judge, model, protocol. Default: policy (judge: none).",
        ),
    ] = None,
    show: Annotated[
        Show, typer.Option("--show", metavar="NAME", help=f"Tables to print: {', '.join(Show)}.")
    ] = Show.MAIN,
    metric_files: options.MetricFiles = None,
    revision: options.Revision = DEFAULT_REVISION,
    done_at: options.DoneAt = None,
    channel: Annotated[
        str,
        typer.Option(
            "--channel",
            metavar="NAME",
            help="Channel of the curve. Only progress is comparable across episodes.",
        ),
    ] = "progress",
    labels: options.TruthFile = None,
    potential: options.Potential = None,
    held_out: options.HeldOut = False,
    scenes: options.Scenes = "auto",
    max_error: Annotated[
        float,
        typer.Option(
            "--max-error",
            metavar="SHARE",
            callback=between(0, 0.499, above=True),
            help="Share of accepted verdicts that may be wrong, with --show abstention.",
        ),
    ] = 0.05,
    validation: options.ValidationFile = None,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Print the metrics of runs with 95 % intervals.

    --format json and csv print every row of the chosen tables with method, clusters and coverage; markdown and latex
    the cells of the tables.
    """
    from stepscore.analysis import (
        add_protocol_keys,
        distinct_runs,
        measure_episodes,
        metrics_of,
        mixed_note,
        validation_notes,
    )
    from stepscore.runs import open_run

    load_metrics(metric_files)
    chosen = chosen_format(output_format, json=json)
    given = options.split_names(by) if by is not None else None
    asked = ["policy"] if by is None else given or []
    with show_progress("Opening runs"):
        opened = distinct_runs(open_run(path) for path in runs)
        options.keep_validation(opened, validation)
        episodes = measure_episodes(
            opened,
            revision=revision,
            channel=channel,
            labels=labels,
            potential=potential,
            done_at=done_at,
            held_out=held_out,
            scenes=scenes,
        )
        known = metrics_of(episodes, asked)
        keys = add_protocol_keys(episodes.episodes, asked)
        apart = [key for key in keys if key not in asked]
        if show is not Show.EPISODES:
            usual = (revision, channel, labels, potential, done_at, scenes) == _USUAL
            settings = _Settings(held_out, max_error, as_usual=usual and len(opened) == 1)
            results = _results(show, opened, episodes, known, keys, apart, given or [], settings)
    if show is Show.EPISODES:
        _print_episodes(known, apart, chosen)
        return
    note = f"OPD {revision} on {channel}; percent with 95 % intervals; n = episodes, in a cell those known."
    records = [{**row, "revision": revision} for row in results.records(show)]
    notes = [*known.notes, mixed_note(asked, keys), *validation_notes(opened)]
    print_result(
        chosen,
        results.tables(show, known, note, tuple(text for text in notes if text)),
        records,
    )
    if chosen is Format.TABLE:
        if show is Show.SUBGOALS and not results.subgoals:
            out().print(
                "Nothing is known of any subgoal: no verdict of the judge and no label says yes or no."
            )
        if command := options.published_revision_command(opened, revision):
            err().print(f"As PRM-as-a-Judge publishes it: {command}", soft_wrap=True)


@dataclass(frozen=True)
class _Results:
    """The inputs of the requested tables; empty if they do not need them."""

    estimates: list[GroupEstimate]
    subgoals: list[SubgoalTable]
    modes: list[tuple[Group, FailureModes]]
    agreement: JudgeAgreement | None
    accepted: list[Abstention] | None

    def records(self, show: Show) -> list[dict[str, Any]]:
        """Return the rows of the requested tables, for --json."""
        from stepscore.analysis.tables import abstention_records, failure_mode_records, judge_records

        rows: list[dict[str, Any]] = []
        if show in (Show.MAIN, Show.CONDITIONED, Show.ALL):
            rows += [row.to_dict() for row in self.estimates]
        rows += [row.to_dict() for subgoal_table in self.subgoals for row in subgoal_table.estimates()]
        for group, found in self.modes:
            rows += failure_mode_records(found, group)
        rows += judge_records(self.agreement) if self.agreement is not None else []
        return rows + abstention_records(self.accepted or [])

    def tables(
        self, show: Show, episodes: EpisodeMetrics, note: str, notes: tuple[str, ...]
    ) -> list[PrintedTable]:
        """Return the tables to print; ``notes`` are printed below the tables of metrics."""
        from stepscore.analysis.tables import (
            abstention_tables,
            conditioned_tables,
            failure_mode_tables,
            judge_tables,
            metric_table,
            subgoal_coverage_notes,
            subgoal_detail_tables,
            subgoal_matrices,
        )

        revision, name = episodes.revision, episodes.success_name
        found: list[PrintedTable] = []
        if show in (Show.MAIN, Show.ALL):
            found.append(metric_table(self.estimates, revision=revision, note=note, success_name=name))
        if show in (Show.CONDITIONED, Show.ALL):
            found += conditioned_tables(self.estimates, revision=revision, note=note, success_name=name)
        found = with_notes(found, notes)
        judged = {table.group["task"] for table in self.subgoals if table.source == "judge"}
        # Labels of subgoals are the same for every run, so the main tables do not show only them.
        shown = [t for t in self.subgoals if show is not Show.MAIN or t.group["task"] in judged]
        subgoals = subgoal_matrices(shown)
        if show in (Show.SUBGOALS, Show.ALL):
            subgoals += subgoal_detail_tables(self.subgoals)
        found += with_notes(subgoals, subgoal_coverage_notes(shown))
        for group, modes in self.modes:
            found += failure_mode_tables(modes, group, revision)
        found += judge_tables(self.agreement) if self.agreement is not None else []
        if self.accepted is None or (show is Show.ALL and not self.accepted):
            return found
        return found + abstention_tables(self.accepted)


@dataclass(frozen=True)
class _Settings:
    """What some of the tables need, and what shows how far they are.

    ``as_usual``: the one run is measured as a judge's agreement with labels measures it: it need not be again.
    """

    held_out: bool
    max_error: float
    as_usual: bool


_USUAL = (DEFAULT_REVISION, "progress", None, None, None, "auto")


def _results(
    show: Show,
    runs: Sequence[Run],
    episodes: EpisodeMetrics,
    known: EpisodeMetrics,
    keys: Sequence[str],
    apart: Sequence[str],
    judge_keys: Sequence[str],
    settings: _Settings,
) -> _Results:
    from stepscore.analysis import abstention, agreement_with_baselines, grouped_estimates, subgoal_tables

    def wanted(*shows: Show) -> bool:
        return show in (*shows, Show.ALL)

    def judged() -> JudgeAgreement:
        return agreement_with_baselines(
            runs,
            judge_keys,
            held_out=settings.held_out,
            measured=episodes if settings.as_usual else None,
        )

    steps = track(("estimates", "subgoals", "modes", "judge", "abstention"), "Tables", 5)
    found: dict[str, Any] = {}
    for step in steps:
        if step == "estimates" and wanted(Show.MAIN, Show.CONDITIONED):
            found[step] = grouped_estimates(known, keys)
        elif step == "subgoals" and wanted(Show.MAIN, Show.SUBGOALS, Show.SUBGOAL_MATRIX):
            found[step] = subgoal_tables(runs, keys, left_out=episodes.repeated, scenes=episodes.scenes)
        elif step == "modes" and wanted(Show.FAILURE_MODES):
            found[step] = policy_failure_modes(known, apart)
        elif step == "judge" and wanted(Show.JUDGE):
            found[step] = judged()
        elif step == "abstention" and wanted(Show.ABSTENTION):
            found[step] = abstention(runs, max_error=settings.max_error)
    return _Results(
        found.get("estimates", []),
        found.get("subgoals", []),
        found.get("modes", []),
        found.get("judge"),
        found.get("abstention"),
    )


def with_notes(tables: list[PrintedTable], notes: Sequence[str]) -> list[PrintedTable]:
    """Return the tables, the last of them with further notes."""
    if not tables or not notes:
        return tables
    return [*tables[:-1], replace(tables[-1], notes=(*tables[-1].notes, *notes))]


def _print_episodes(episodes: EpisodeMetrics, apart: Sequence[str], form: Format) -> None:
    """Print a row per episode as JSON or CSV, else the distribution of every metric, for each judge."""
    from stepscore.analysis.tables import distribution_tables, episode_records

    tables = with_notes(distribution_tables(episodes, apart), episodes.notes)
    print_result(form, tables, episode_records(episodes))
    if form is Format.TABLE:
        err().print("Every episode: --format csv or json")


def policy_failure_modes(episodes: EpisodeMetrics, apart: Sequence[str]) -> list[tuple[Group, FailureModes]]:
    """Return how policies fail: once for every judge if there are several."""
    from stepscore.analysis import episode_groups, failure_modes_by_policy

    groups = episode_groups(episodes, apart)
    return [(group, failure_modes_by_policy(episodes.select(chosen))) for group, chosen in groups]

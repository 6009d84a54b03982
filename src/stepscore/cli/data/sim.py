"""``stepscore sim``: simulated rollouts with known truth, as a LeRobot dataset."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore._tables import Column, PrintedTable, TableRow, count_cell, percent_cell, text_cell
from stepscore.cli import options
from stepscore.cli.formats import Format, FormatName, Json, chosen_format
from stepscore.cli.numbers import MAX_SEED, between
from stepscore.cli.outputs import new_folder
from stepscore.cli.tables import err, print_result

if TYPE_CHECKING:
    from stepscore.sim import Rollout

POLICIES = "expert,noisy:0.5,drop,freeze,wrong-target,undo"


def sim(
    root: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_folder, metavar="DATASET", help="Folder of the new dataset."
        ),
    ],
    tasks: Annotated[
        str, typer.Option("--tasks", metavar="A,B", help="Tasks such as drawer-open, or all.")
    ] = "all",
    policies: Annotated[
        str,
        typer.Option(
            "--policies",
            metavar="A,B",
            help="expert, noisy:LEVEL, drop, freeze, wrong-target, retreat, short:CM, undo, slow, hesitate, "
            "detour, redo.",
        ),
    ] = POLICIES,
    episodes_per_task: Annotated[
        int,
        typer.Option(
            "--episodes-per-task",
            callback=between(1, 10_000),
            metavar="N",
            help="Episodes of each task; the policies take turns.",
        ),
    ] = 20,
    views: Annotated[
        str,
        typer.Option(
            "--views",
            metavar="A,B",
            help="Cameras: close (that of the embedded judge), corner, left, front, top, high, gripper.",
        ),
    ] = "close",
    size: Annotated[
        int,
        typer.Option(
            "--size",
            callback=between(1, 4096),
            metavar="PX",
            help="Width and height of the videos, in pixels.",
        ),
    ] = 224,
    fps: Annotated[
        int,
        typer.Option(
            "--fps",
            callback=between(1, 80),
            metavar="N",
            help="Frames per second, a divisor of 80; only frames are labelled, so labels depend on it.",
        ),
    ] = 10,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", callback=between(0, MAX_SEED), metavar="N", help="Random seed of scenes and policies."
        ),
    ] = 0,
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            callback=between(1, 256),
            metavar="N",
            help="Processes; the dataset does not depend on it.",
        ),
    ] = 1,
    codec: Annotated[
        str, typer.Option("--codec", metavar="NAME", help="Video codec: h264, or av1 as LeRobot writes.")
    ] = "h264",
    crf: Annotated[
        int | None,
        typer.Option(
            "--crf",
            callback=between(0, 63),
            metavar="N",
            help="Constant rate factor of the videos; lower is better quality.",
        ),
    ] = None,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Simulate labelled Meta-World rollouts as a LeRobot dataset.

    Labels come from the simulator's state. All policies are run on the same scenes. Needs the `sim` extra.
    """
    from stepscore._imports import check_extra
    from stepscore.errors import OptionError
    from stepscore.sim import RenderOptions, plan_rollouts, write_dataset

    chosen = chosen_format(output_format, json=json)
    plans = plan_rollouts(
        options.split_names(tasks) or [], options.split_names(policies) or [], episodes_per_task, seed
    )
    render = RenderOptions(tuple(options.split_names(views) or ()), size, fps)
    if not render.views:
        raise OptionError("--views is empty; a dataset needs at least one camera.")
    check_extra("sim", "Simulation")
    outcomes: dict[str, list[tuple[bool, bool]]] = {}
    with _progress_bar(len(plans)) as advance:

        def note(rollout: Rollout) -> None:
            outcome = bool(rollout.success.any()), bool(rollout.success[-1])
            outcomes.setdefault(rollout.plan.policy, []).append(outcome)
            advance()

        write_dataset(root, plans, render, workers=workers, codec=codec, crf=crf, on_done=note)  # type: ignore[arg-type]
    _print(outcomes, chosen)
    added = ("--labels", str(root / "labels.parquet"), "--subgoals", str(root / "subgoals.yaml"))
    following = ["stepscore", "inspect", str(root), *added]
    err().print(
        f"Dataset: {root}\nNext: {shlex.join(following)}",
        soft_wrap=True,
    )


@contextmanager
def _progress_bar(total: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar on stderr with the time left; yields the function that advances it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("sim"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err()) as progress:
        bar = progress.add_task("sim", total=total)
        yield lambda: progress.advance(bar)


def _print(outcomes: dict[str, list[tuple[bool, bool]]], form: Format) -> None:
    """Print how often each policy succeeded, at some time and at the end."""
    shares = {
        policy: (len(ended), *(sum(done) / len(ended) for done in zip(*ended, strict=True)))
        for policy, ended in outcomes.items()
    }
    names = ("episodes", "success_ever", "success_end")
    records = [{"policy": name, **dict(zip(names, row, strict=True))} for name, row in shares.items()]
    rows = tuple(
        TableRow((text_cell(name), count_cell(n), percent_cell(ever), percent_cell(end)), {"policy": name})
        for name, (n, ever, end) in shares.items()
    )
    columns = (Column("policy", left=True), Column("episodes"), Column("ever"), Column("at the end"))
    print_result(form, [PrintedTable("Success, %", columns, rows)], records)

"""``stepscore sim``: simulated rollouts with known truth, as a LeRobot dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli import options
from stepscore.cli.tables import err, out, percent, print_json, table

if TYPE_CHECKING:
    from stepscore.sim import Rollout

POLICIES = "expert,noisy:0.5,drop,freeze,wrong-target,undo"


def sim(
    root: Annotated[Path, typer.Option("--out", "-o", metavar="DATASET", help="The dataset's folder; new.")],
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
    per_task: Annotated[
        int, typer.Option("--per-task", metavar="N", help="Episodes of each task; the policies take turns.")
    ] = 20,
    views: Annotated[
        str, typer.Option("--views", metavar="A,B", help="Cameras: corner, close, left, front, top, gripper.")
    ] = "corner",
    size: Annotated[int, typer.Option("--size", metavar="PX", help="Width and height of the videos.")] = 224,
    fps: Annotated[int, typer.Option("--fps", metavar="N", help="Frames a second; a divisor of 80.")] = 20,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Another seed, other scenes.")] = 0,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", help="Processes; the dataset is the same for any number.")
    ] = 1,
    codec: Annotated[str, typer.Option("--codec", help="h264, or av1 as LeRobot itself writes.")] = "h264",
    crf: Annotated[
        int | None, typer.Option("--crf", metavar="N", help="Quality of the videos; lower is better.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Play Meta-World tasks with disturbed experts and write a LeRobot dataset with its labels and subgoals.

    Labels come from the simulator's state. Policies meet the same scenes. Needs the `sim` extra.
    """
    from stepscore.errors import OptionError
    from stepscore.sim import RenderOptions, make_plans, write_dataset

    plans = make_plans(options.split_names(tasks) or [], options.split_names(policies) or [], per_task, seed)
    filming = RenderOptions(tuple(options.split_names(views) or ()), size, fps)
    if not filming.views:
        raise OptionError("--views names no camera; a dataset needs at least one.")
    played: dict[str, list[tuple[bool, bool]]] = {}
    with _bar(len(plans)) as step:

        def note(rollout: Rollout) -> None:
            ended = bool(rollout.success.any()), bool(rollout.success[-1])
            played.setdefault(rollout.plan.policy, []).append(ended)
            step()

        write_dataset(root, plans, filming, workers=workers, codec=codec, crf=crf, on_done=note)  # type: ignore[arg-type]
    _print(played, json=json)
    err().print(
        f"Dataset: {root}\nNext: stepscore inspect {root} --labels {root / 'labels.parquet'} "
        f"--subgoals {root / 'subgoals.yaml'}",
        soft_wrap=True,
    )


@contextmanager
def _bar(total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on stderr with the time left, and the function that moves it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("sim"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err()) as progress:
        row = progress.add_task("sim", total=total)
        yield lambda: progress.advance(row)


def _print(played: dict[str, list[tuple[bool, bool]]], *, json: bool) -> None:
    """How often each policy succeeded, at some time and at the end."""
    shares = {
        policy: (len(ended), *(sum(done) / len(ended) for done in zip(*ended, strict=True)))
        for policy, ended in played.items()
    }
    if json:
        names = ("episodes", "success_ever", "success_end")
        print_json([{"policy": name, **dict(zip(names, row, strict=True))} for name, row in shares.items()])
        return
    shown = [[name, str(row[0]), percent(row[1]), percent(row[2])] for name, row in shares.items()]
    out().print(table("Success, %", ["policy", "episodes", "ever", "at the end"], shown))

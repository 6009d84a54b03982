"""``stepscore weights``: a run in, training weights and what LeRobot reads out."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore.cli import options
from stepscore.cli.tables import err, print_json
from stepscore.cli.training.weights_tables import as_row, how_to_train, print_weights
from stepscore.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from stepscore.curation import RunFrames, Selection, Weighting
    from stepscore.runs import Run


class Method(StrEnum):
    """How frames are weighed."""

    RABC = "rabc"
    AWR = "awr"
    FILTER = "filter"


class Failures(StrEnum):
    """What becomes of failed episodes."""

    KEEP = "keep"
    DROP = "drop"


class SuccessBy(StrEnum):
    """Who says that an episode failed."""

    LABEL = "label"
    JUDGE = "judge"


FORMS = {Method.RABC: ("lerobot", "corrected"), Method.AWR: ("topreward", "logistic"), Method.FILTER: ()}
"""The forms of each method; the first is the published one, and the default."""

TAKES = {
    "lerobot": ("chunk_size", "kappa", "fallback_weight"),
    "corrected": ("chunk_size", "share", "pace", "noise", "done"),
    "topreward": ("chunk_size", "tau", "delta_max", "subtract_mean"),
    "logistic": ("chunk_size", "delta_max", "temperature"),
    "filter": (),
}
"""The options that a form takes; another one is an error, since it would change nothing."""


def weights(
    run: options.RunFolder,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Parquet: progress for LeRobot, or weights.")
    ],
    method: Annotated[Method, typer.Option("--method", help="How frames are weighed.")],
    form: Annotated[
        str | None,
        typer.Option("--form", help="rabc: lerobot or corrected. awr: topreward or logistic."),
    ] = None,
    chunk_size: Annotated[
        int | None,
        typer.Option("--chunk-size", metavar="N", help="Actions in a chunk of the policy. rabc needs it."),
    ] = None,
    kappa: Annotated[
        float | None, typer.Option("--kappa", help="lerobot: gain that counts in full (0.01).")
    ] = None,
    fallback_weight: Annotated[
        float | None, typer.Option("--fallback-weight", help="lerobot: weight of unknown frames (1).")
    ] = None,
    share: Annotated[
        float | None,
        typer.Option("--share", help="corrected: share of the steady pace that counts in full (0.5)."),
    ] = None,
    pace: Annotated[
        str | None, typer.Option("--pace", help="corrected: steady pace of the episode, or of its task.")
    ] = None,
    noise: Annotated[
        float | None, typer.Option("--noise", help="corrected: the judge's; estimated if not given.")
    ] = None,
    done: Annotated[
        float | None, typer.Option("--done", help="Progress from which the task is done (0.95).")
    ] = None,
    tau: Annotated[
        float | None, typer.Option("--tau", help="topreward: weight of a step without change (2).")
    ] = None,
    delta_max: Annotated[float | None, typer.Option("--delta-max", help="awr: largest weight (2).")] = None,
    subtract_mean: Annotated[
        bool, typer.Option("--subtract-mean", help="topreward: take the dataset's mean change off first.")
    ] = False,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="logistic: above 1, weights closer together (1).")
    ] = None,
    top: Annotated[
        float | None, typer.Option("--top", metavar="SHARE", help="Keep this share of the episodes.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="METRIC", help="Best by this; see `stepscore ls metrics`.")
    ] = None,
    per_task: Annotated[bool, typer.Option("--per-task", help="Take the share of every task.")] = False,
    failures: Annotated[
        Failures, typer.Option("--failures", help="Drop failed episodes, or keep them marked.")
    ] = Failures.KEEP,
    success_by: Annotated[SuccessBy, typer.Option("--success-by", help="Who says so.")] = SuccessBy.LABEL,
    stalls: Annotated[
        float | None,
        typer.Option("--drop-stalls", metavar="SECONDS", help="Weight 0 where progress stands so long."),
    ] = None,
    still: Annotated[
        float | None, typer.Option("--still", help="Range of progress that stands still (0.01).")
    ] = None,
    channel: Annotated[str, typer.Option("--channel", help="Series of the curve to use.")] = "progress",
    dense: Annotated[
        str | None, typer.Option("--dense-channel", help="Series written as LeRobot's progress_dense.")
    ] = None,
    revision: Annotated[
        str, typer.Option("--revision", help="OPD of --by: paper, v1.0, v1.5, robust.")
    ] = "v1.0",
    policy: Annotated[str, typer.Option("--policy", help="Policy type in the printed command.")] = "smolvla",
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Draw the weights (.svg or .png).")
    ] = None,
    json: options.Json = False,
) -> None:
    """Turn a run into training weights, and show what they would do before anything is trained.

    With rabc as LeRobot has it, the file is the progress that `lerobot-train` reads unchanged, and the exact
    command is printed. The other forms write a weight a frame, for stepscore.curation.FrameWeights.
    """
    from stepscore.curation import distribution, run_frames
    from stepscore.runs import open_run

    named = _form(method, form)
    stall = _stall_options(named, stalls, still, done)
    given = {
        "chunk_size": chunk_size,
        "kappa": kappa,
        "fallback_weight": fallback_weight,
        "share": share,
        "pace": pace,
        "noise": noise,
        # The form that does not take it may have it for its stalls.
        "done": done if named == "corrected" or not stall else None,
        "tau": tau,
        "delta_max": delta_max,
        "subtract_mean": subtract_mean or None,
        "temperature": temperature,
    }
    taken = _taken(named, given)
    _check_files(named, dense, picture)
    opened = open_run(run)
    chosen = _choose(
        opened,
        revision,
        top=top,
        by=by,
        per_task=per_task,
        failures=failures.value,
        success_by=success_by.value,
    )
    if not chosen.kept:
        raise OptionError(f"No episode of {run} is left: all {len(chosen.dropped)} were dropped.")
    weighting = _weigh(named, run_frames(opened, channel).select(chosen.kept), taken, stall)
    spread = distribution(weighting)
    files = _write(opened, weighting, chosen, out, dense)
    if picture is not None:
        from stepscore.report.plots import plot_weights

        files.append(plot_weights(picture, weighting, spread))
    command = _command(opened, weighting, policy, out)
    if json:
        print_json(as_row(weighting, spread, chosen, files, command))
    else:
        print_weights(weighting, spread, chosen)
    for warning in spread.warnings:
        err().print(f"Warning: {warning}", style="yellow", soft_wrap=True, markup=False)
    for name in files:
        err().print(f"Wrote {name}", soft_wrap=True, markup=False)
    err().print(how_to_train(weighting, command, out), soft_wrap=True, markup=False)


def _form(method: Method, form: str | None) -> str:
    valid = FORMS[method]
    if not valid:
        if form is not None:
            raise OptionError("--method filter has no --form.")
        return "filter"
    if form is not None and form not in valid:
        raise UnknownNameError(f"form of {method.value}", form, valid)
    return form or valid[0]


def _stall_options(
    form: str, stalls: float | None, still: float | None, done: float | None
) -> dict[str, float]:
    if stalls is None:
        if still is not None:
            raise OptionError("--still says how still a stall is; it goes with --drop-stalls SECONDS.")
        return {}
    if form == "lerobot":
        raise OptionError(
            "--drop-stalls sets weights of frames to 0, and LeRobot computes its RA-BC weights itself. Use --form "
            "corrected, or --method filter."
        )
    found = {"seconds": stalls, "still": still, "done": done}
    return {name: value for name, value in found.items() if value is not None}


def _taken(form: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the form; one that it does not take is an error."""
    said = {name: value for name, value in given.items() if value is not None}
    foreign = [f"--{name.replace('_', '-')}" for name in said if name not in TAKES[form]]
    if foreign:
        takes = ", ".join(f"--{name.replace('_', '-')}" for name in TAKES[form]) or "none of these"
        raise OptionError(f"{foreign[0]} does nothing in the form {form}, which takes {takes}.")
    if form in ("lerobot", "corrected") and "chunk_size" not in said:
        raise OptionError(
            "RA-BC weighs a frame by the gain over the policy's chunk: say --chunk-size N, the policy's own "
            "(in LeRobot 50 for smolvla, pi0 and pi05, unless you set it)."
        )
    return said


def _weigh(form: str, frames: RunFrames, taken: dict[str, Any], stall: dict[str, float]) -> Weighting:
    from stepscore import curation

    makers: dict[str, Any] = {
        "lerobot": curation.rabc,
        "corrected": curation.rabc_corrected,
        "topreward": curation.awr,
        "logistic": curation.awr_logistic,
        "filter": curation.keep_all,
    }
    weighting: Weighting = makers[form](frames, **taken)
    return curation.without_stalls(weighting, **stall) if stall else weighting


def _choose(run: Run, revision: str, **filters: Any) -> Selection:
    """The episodes to train on, measured by their progress, whichever channel the weights are of."""
    from stepscore.analysis import measure_episodes
    from stepscore.curation import Selection, select_episodes

    if filters["top"] is None and filters["by"] is None and filters["failures"] == "keep":
        # Nothing to measure for, and measuring many episodes takes a while.
        return Selection(tuple(run.episodes().column("episode_id").to_pylist()), {})
    return select_episodes(measure_episodes(run, revision=revision), **filters)


def _made_by(run: Run, weighting: Weighting, chosen: Selection) -> dict[str, Any]:
    return {
        "run": run.path.name,
        "judge": run.judge,
        "model": run.model,
        "protocol": run.protocol.hash,
        "channel": weighting.frames.channel,
        "method": weighting.method,
        "form": weighting.form,
        "options": dict(weighting.options),
        "dropped": dict(chosen.dropped),
    }


def _check_files(form: str, dense: str | None, picture: Path | None) -> None:
    """Mistakes about files, before the run is read."""
    if dense is not None and form != "lerobot":
        raise OptionError(
            "--dense-channel is a column of LeRobot's progress file: --method rabc --form lerobot."
        )
    if picture is not None and picture.suffix not in (".svg", ".png"):
        raise OptionError(f"--picture {picture}: a picture ends in .svg or .png.")


def _write(run: Run, weighting: Weighting, chosen: Selection, out: Path, dense: str | None) -> list[Path]:
    """Write the table and the list of episodes; the files written."""
    from stepscore.curation import run_frames, write_episodes, write_progress, write_weights

    made_by = _made_by(run, weighting, chosen)
    if weighting.by_lerobot:
        second = run_frames(run, dense).select(chosen.kept).progress if dense else None
        write_progress(out, weighting.frames, dense=second, made_by=made_by)
    else:
        write_weights(out, weighting, made_by=made_by)
    if not weighting.frames.numbered:
        return [out]
    episodes = out.with_name(f"{out.stem}.episodes.json")
    write_episodes(episodes, weighting.frames)
    return [out, episodes]


def _command(run: Run, weighting: Weighting, policy: str, out: Path) -> str | None:
    from stepscore.curation import train_command

    whole_episodes = weighting.method == "filter" and "stalls" not in weighting.options
    if not (weighting.by_lerobot or whole_episodes):
        return None
    by_lerobot = weighting if weighting.by_lerobot else None
    return train_command(run, weighting.frames, policy=policy, weighting=by_lerobot, progress=out)

"""``stepscore weights``: turn a run into training weights and the files that LeRobot reads."""

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
    from stepscore.curation import EpisodeSelection, RunFrames, Weighting
    from stepscore.runs import Run


class Method(StrEnum):
    """How frames are weighted."""

    RABC = "rabc"
    AWR = "awr"
    FILTER = "filter"


class Failures(StrEnum):
    """Whether failed episodes are kept."""

    KEEP = "keep"
    DROP = "drop"


class SuccessBy(StrEnum):
    """Where success comes from."""

    LABEL = "label"
    JUDGE = "judge"


FORMS = {Method.RABC: ("lerobot", "corrected"), Method.AWR: ("topreward", "logistic"), Method.FILTER: ()}
"""The forms of each method; the first is the published one, and the default."""

OPTIONS_OF_FORM = {
    "lerobot": ("chunk_size", "kappa", "fallback_weight"),
    "corrected": ("chunk_size", "share", "pace", "noise", "done"),
    "topreward": ("chunk_size", "tau", "delta_max", "subtract_mean"),
    "logistic": ("chunk_size", "delta_max", "temperature"),
    "filter": (),
}
"""The options of each form; another one is an error, since it would change nothing."""


def weights(
    run: options.RunFolder,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Parquet: progress for LeRobot, or weights.")
    ],
    method: Annotated[Method, typer.Option("--method", help="How frames are weighted.")],
    form: Annotated[
        str | None,
        typer.Option("--form", help="rabc: lerobot or corrected. awr: topreward or logistic."),
    ] = None,
    chunk_size: Annotated[
        int | None,
        typer.Option("--chunk-size", metavar="N", help="Actions in a chunk of the policy. rabc needs it."),
    ] = None,
    kappa: Annotated[
        float | None,
        typer.Option("--kappa", help="lerobot: gain of progress from which the weight is 1 (0.01)."),
    ] = None,
    fallback_weight: Annotated[
        float | None, typer.Option("--fallback-weight", help="lerobot: weight of unknown frames (1).")
    ] = None,
    share: Annotated[
        float | None,
        typer.Option("--share", help="corrected: share of the steady pace from which the weight is 1 (0.5)."),
    ] = None,
    pace: Annotated[
        str | None, typer.Option("--pace", help="corrected: steady pace of the episode, or of its task.")
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option("--noise", help="corrected: noise of the judge's progress; estimated if not given."),
    ] = None,
    done: Annotated[
        float | None, typer.Option("--done", help="Progress from which the task counts as done (0.95).")
    ] = None,
    tau: Annotated[
        float | None, typer.Option("--tau", help="topreward: weight of a step without change (2).")
    ] = None,
    delta_max: Annotated[float | None, typer.Option("--delta-max", help="awr: largest weight (2).")] = None,
    subtract_mean: Annotated[
        bool, typer.Option("--subtract-mean", help="topreward: subtract the dataset's mean change first.")
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option("--temperature", help="logistic: above 1, weights are closer together (1)."),
    ] = None,
    top: Annotated[
        float | None, typer.Option("--top", metavar="SHARE", help="Keep this share of the episodes.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="METRIC", help="Metric to rank them by; see `stepscore ls metrics`."),
    ] = None,
    per_task: Annotated[bool, typer.Option("--per-task", help="Keep the share of each task.")] = False,
    failures: Annotated[
        Failures, typer.Option("--failures", help="Drop failed episodes, or keep them marked.")
    ] = Failures.KEEP,
    success_by: Annotated[
        SuccessBy, typer.Option("--success-by", help="Success by label, or by the judge.")
    ] = SuccessBy.LABEL,
    stalls: Annotated[
        float | None,
        typer.Option(
            "--drop-stalls", metavar="SECONDS", help="Weight 0 where progress stalls for this long."
        ),
    ] = None,
    still: Annotated[
        float | None, typer.Option("--still", help="Largest change of progress within a stall (0.01).")
    ] = None,
    channel: Annotated[str, typer.Option("--channel", help="Channel of the curve to use.")] = "progress",
    dense: Annotated[
        str | None, typer.Option("--dense-channel", help="Channel written as LeRobot's progress_dense.")
    ] = None,
    revision: Annotated[
        str, typer.Option("--revision", help="OPD of --by: paper, v1.0, v1.5, robust.")
    ] = "v1.0",
    policy_type: Annotated[
        str, typer.Option("--policy-type", help="LeRobot's --policy.type in the printed command.")
    ] = "smolvla",
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Plot the weights (.svg or .png).")
    ] = None,
    json: options.Json = False,
) -> None:
    """Turn a run into training weights, and show their distribution before anything is trained.

    With LeRobot's own rabc, the file is the progress that `lerobot-train` reads, and the exact command is printed.
    The other forms write a weight per frame, for stepscore.curation.FrameWeights.
    """
    from stepscore.curation import run_frames, weight_distribution
    from stepscore.runs import open_run

    form = _form(method, form)
    stall = _stall_options(form, stalls, still, done)
    given = {
        "chunk_size": chunk_size,
        "kappa": kappa,
        "fallback_weight": fallback_weight,
        "share": share,
        "pace": pace,
        "noise": noise,
        # The form that does not take it may have it for its stalls.
        "done": done if form == "corrected" or not stall else None,
        "tau": tau,
        "delta_max": delta_max,
        "subtract_mean": subtract_mean or None,
        "temperature": temperature,
    }
    form_options = _form_options(form, given)
    _check_files(form, dense, plot)
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
    weighting = _weigh(form, run_frames(opened, channel).select(chosen.kept), form_options, stall)
    distribution = weight_distribution(weighting)
    files = _write(opened, weighting, chosen, out, dense)
    if plot is not None:
        from stepscore.report.plots import plot_weights

        files.append(plot_weights(plot, weighting, distribution))
    command = _command(opened, weighting, policy_type, out)
    if json:
        print_json(as_row(weighting, distribution, chosen, files, command))
    else:
        print_weights(weighting, distribution, chosen)
    for warning in distribution.warnings:
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
            raise OptionError("--still is an option of stalls; it needs --drop-stalls SECONDS.")
        return {}
    if form == "lerobot":
        raise OptionError(
            "--drop-stalls sets weights of frames to 0, and LeRobot computes its RA-BC weights itself. Use --form "
            "corrected, or --method filter."
        )
    stated = {"seconds": stalls, "still": still, "done": done}
    return {name: value for name, value in stated.items() if value is not None}


def _form_options(form: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the form; one that it does not have is an error."""
    stated = {name: value for name, value in given.items() if value is not None}
    unused = [f"--{name.replace('_', '-')}" for name in stated if name not in OPTIONS_OF_FORM[form]]
    if unused:
        valid = ", ".join(f"--{name.replace('_', '-')}" for name in OPTIONS_OF_FORM[form]) or "none of these"
        raise OptionError(f"{unused[0]} does nothing in the form {form}, which takes {valid}.")
    if form in ("lerobot", "corrected") and "chunk_size" not in stated:
        raise OptionError(
            "RA-BC weights a frame by the gain over the policy's chunk: give --chunk-size N, the policy's own "
            "(in LeRobot 50 for smolvla, pi0 and pi05, unless you set it)."
        )
    return stated


def _weigh(form: str, frames: RunFrames, form_options: dict[str, Any], stall: dict[str, float]) -> Weighting:
    from stepscore import curation

    functions: dict[str, Any] = {
        "lerobot": curation.lerobot_rabc,
        "corrected": curation.corrected_rabc,
        "topreward": curation.topreward_awr,
        "logistic": curation.logistic_awr,
        "filter": curation.keep_all,
    }
    weighting: Weighting = functions[form](frames, **form_options)
    return curation.without_stalls(weighting, **stall) if stall else weighting


def _choose(run: Run, revision: str, **filters: Any) -> EpisodeSelection:
    """Return the episodes to train on, measured by their progress, whichever channel the weights are of."""
    from stepscore.analysis import measure_episodes
    from stepscore.curation import EpisodeSelection, select_episodes

    if filters["top"] is None and filters["by"] is None and filters["failures"] == "keep":
        # Nothing to measure for, and measuring many episodes takes a while.
        return EpisodeSelection(tuple(run.episodes().column("episode_id").to_pylist()), {})
    return select_episodes(measure_episodes(run, revision=revision), **filters)


def _provenance(run: Run, weighting: Weighting, chosen: EpisodeSelection) -> dict[str, Any]:
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


def _check_files(form: str, dense: str | None, plot: Path | None) -> None:
    """Raise on wrong file options, before the run is read."""
    if dense is not None and form != "lerobot":
        raise OptionError(
            "--dense-channel is a column of LeRobot's progress file: --method rabc --form lerobot."
        )
    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise OptionError(f"Invalid --plot {plot}: the name must end in .svg or .png.")


def _write(
    run: Run, weighting: Weighting, chosen: EpisodeSelection, out: Path, dense: str | None
) -> list[Path]:
    """Write the table and the list of episodes; return the files written."""
    from stepscore.curation import run_frames, write_episode_list, write_lerobot_progress, write_weights

    provenance = _provenance(run, weighting, chosen)
    if weighting.by_lerobot:
        second = run_frames(run, dense).select(chosen.kept).progress if dense else None
        write_lerobot_progress(out, weighting.frames, dense=second, provenance=provenance)
    else:
        write_weights(out, weighting, provenance=provenance)
    if not weighting.frames.numbered:
        return [out]
    episodes = out.with_name(f"{out.stem}.episodes.json")
    write_episode_list(episodes, weighting.frames)
    return [out, episodes]


def _command(run: Run, weighting: Weighting, policy_type: str, out: Path) -> str | None:
    from stepscore.curation import lerobot_train_command

    whole_episodes = weighting.method == "filter" and "stalls" not in weighting.options
    if not (weighting.by_lerobot or whole_episodes):
        return None
    by_lerobot = weighting if weighting.by_lerobot else None
    return lerobot_train_command(
        run, weighting.frames, policy=policy_type, weighting=by_lerobot, progress=out
    )

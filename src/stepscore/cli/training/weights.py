"""``stepscore weights``: turn a run into training weights and the files that LeRobot reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscore._imports import check_extra
from stepscore._options import DEFAULT_REVISION
from stepscore._progress import doing
from stepscore.cli import options
from stepscore.cli.formats import Format, FormatName, Json, chosen_format
from stepscore.cli.outputs import EPISODE_LIST, FIGURE, WEIGHTS, Force, check_output
from stepscore.cli.progress import show_progress
from stepscore.cli.tables import err, print_result
from stepscore.cli.training import weights_options as flags
from stepscore.cli.training.weights_options import Failures, Method, SuccessBy, WeightingKeys
from stepscore.cli.training.weights_tables import (
    as_row,
    how_to_train,
    how_to_train_static,
    print_weights,
    weight_tables,
)
from stepscore.errors import OptionError

if TYPE_CHECKING:
    from stepscore.curation import EpisodeSelection, RunFrames, Weighting
    from stepscore.runs import Run

OPTIONS_OF_METHOD = {
    Method.RABC: ("chunk_size", "kappa", "fallback_weight"),
    Method.AWR: ("advantage", "chunk_size", "tau", "tau_role", "delta_max"),
    Method.FILTER: (),
}
"""The options of each method. Any other option is an error, since it would change nothing."""


@options.with_groups
def weights(
    run: options.RunFolder,
    out: flags.Out,
    method: flags.MethodOption,
    *,
    weighting: flags.Weighting,
    top: flags.Top = None,
    by: flags.By = None,
    per_task: flags.PerTask = False,
    failures: flags.FailuresOption = Failures.KEEP,
    success_by: flags.SuccessByOption = SuccessBy.LABEL,
    channel: flags.Channel = "progress",
    revision: flags.Revision = DEFAULT_REVISION,
    policy_type: flags.PolicyType = "smolvla",
    static: flags.Static = None,
    plot: flags.Plot = None,
    write_dataset: flags.WriteDataset = None,
    force: Force = False,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Turn a run into training weights for LeRobot or PyTorch.

    With rabc, the file is the progress that `lerobot-train` reads, and the exact command is printed.
    The other methods write a weight per frame, for stepscore.curation.FrameWeights.
    """
    from stepscore.curation import removed_episodes, report_of, run_frames, weight_distribution
    from stepscore.runs import open_run

    output = chosen_format(output_format, json=json)
    stall = _stall_options(method, weighting)
    method_options = _method_options(method, weighting.given())
    dense = weighting.dense_channel
    _check_files(method, dense, plot)
    _check_dataset(method, write_dataset, stalls=bool(stall))
    for file, kind in ((out, WEIGHTS), (_episode_list(out), EPISODE_LIST), (static, WEIGHTS), (plot, FIGURE)):
        if file is not None:
            check_output(file, kind, force=force)
    with show_progress("Opening the run"):
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
        with doing("Reading curves"):
            frames = run_frames(opened, channel).select(chosen.kept)
        if method is not Method.FILTER or stall or not (top is not None or failures is Failures.DROP):
            _refuse_unknown(opened, frames)
        with doing("Weighting frames"):
            weighted = _weigh(method, frames, method_options, stall)
            distribution = weight_distribution(weighted)
        with doing("Writing weights"):
            files = _write(opened, weighted, chosen, out, dense)
        removal = removed_episodes(opened, chosen, report_of(opened))
        if write_dataset is not None:
            from stepscore.curation import write_kept_dataset

            with doing("Copying episodes"):
                files.append(write_kept_dataset(opened, frames, write_dataset))
        if static is not None:
            from stepscore.curation import write_static_weights

            write_static_weights(static, weighted, provenance=_provenance(opened, weighted, chosen))
            files.append(static)
        if plot is not None:
            from stepscore.report.plots import plot_weights

            files.append(plot_weights(plot, weighted, distribution))
    command = _command(opened, weighted, policy_type, out)
    if write_dataset is not None:
        from stepscore.curation import dataset_train_command

        command = dataset_train_command(write_dataset, policy_type)
    if output is Format.TABLE:
        print_weights(weighted, distribution, removal)
    else:
        record = as_row(weighted, distribution, removal, files, command)
        print_result(output, weight_tables(weighted, distribution, removal), record)
    if method is Method.FILTER and not (
        chosen.dropped or stall or top is not None or failures is Failures.DROP
    ):
        err().print(
            "Warning: nothing is filtered: every frame has weight 1. Choose episodes by --top SHARE --by METRIC or "
            "--failures drop, frames by -W drop-stalls=SECONDS.",
            style="yellow",
            soft_wrap=True,
        )
    for warning in distribution.warnings:
        err().print(f"Warning: {warning}", style="yellow", soft_wrap=True, markup=False)
    for model, licence in opened.non_commercial.items():
        err().print(
            f"Licence: the progress is by {model}, whose licence {licence} forbids commercial use.",
            style="yellow",
            soft_wrap=True,
            markup=False,
        )
    for name in files:
        err().print(f"Wrote {name}", soft_wrap=True, markup=False)
    err().print(how_to_train(weighted, command, out), soft_wrap=True, markup=False)
    if static is not None:
        err().print(how_to_train_static(static), soft_wrap=True, markup=False)


def _refuse_unknown(run: Run, frames: RunFrames) -> None:
    """Raise OptionError if not one frame has a known progress: there is nothing to weight by."""
    if frames.known:
        return
    errors = [error for error in run.judgements().column("error").to_pylist() if error]
    why = f" {len(errors)} of them failed, first error: {errors[0]}" if errors else ""
    if not why and run.model == "embedded":
        why = (
            " The embedded judge answers unknown for scenes it was not trained on; of scenes of `stepscore sim` it "
            "takes the camera close (--views close)."
        )
    raise OptionError(
        f"{run.path} has no weights to give: {frames.channel} is unknown at every frame of its "
        f"{len(frames.episodes)} episodes (coverage 0 %).{why} Judge them by another judge or model, or name a "
        "channel that it has with --channel."
    )


def _stall_options(method: Method, keys: WeightingKeys) -> dict[str, float]:
    named = (("still", keys.still), ("done", keys.done))
    stated = {name: value for name, value in named if value is not None}
    if keys.drop_stalls is None:
        if stated:
            raise OptionError(f"-W {next(iter(stated))} is about stalls and needs -W drop-stalls=SECONDS.")
        return {}
    if method is Method.RABC:
        raise OptionError(
            "-W drop-stalls sets weights of frames to 0, and LeRobot computes its RA-BC weights itself. Use --method "
            "awr or --method filter."
        )
    return {"seconds": keys.drop_stalls, **stated}


def _method_options(method: Method, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the method; one that it does not have is an error."""
    allowed = OPTIONS_OF_METHOD[method]
    unused = [name.replace("_", "-") for name in given if name not in allowed]
    if unused:
        valid = ", ".join(name.replace("_", "-") for name in allowed) or "none of these"
        raise OptionError(f"-W {unused[0]} does nothing with --method {method.value}, which takes {valid}.")
    if method is Method.RABC and "chunk_size" not in given:
        raise OptionError(
            "RA-BC weights a frame by the gain over the policy's chunk: give -W chunk-size=N, the policy's own "
            "(in LeRobot 50 for smolvla, pi0 and pi05, unless you set it)."
        )
    return dict(given)


def _weigh(
    method: Method, frames: RunFrames, method_options: dict[str, Any], stall: dict[str, float]
) -> Weighting:
    from stepscore import curation

    functions: dict[Method, Any] = {
        Method.RABC: curation.lerobot_rabc,
        Method.AWR: curation.topreward_awr,
        Method.FILTER: curation.keep_all,
    }
    weighting: Weighting = functions[method](frames, **method_options)
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


def _check_files(method: Method, dense: str | None, plot: Path | None) -> None:
    """Raise on wrong file options, before the run is read."""
    if dense is not None and method is not Method.RABC:
        raise OptionError("-W dense-channel is a column of LeRobot's progress file; it needs --method rabc.")
    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise OptionError(f"Invalid --plot {plot}: the name must end in .svg or .png.")
    if plot is not None:
        check_extra("plot", "Drawing figures")


def _check_dataset(method: Method, folder: Path | None, *, stalls: bool) -> None:
    """Raise on a dataset that cannot be written, before the run is read."""
    if folder is None:
        return
    if method is not Method.FILTER or stalls:
        raise OptionError(
            "--write-dataset writes whole episodes; it needs --method filter without -W drop-stalls."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OptionError(f"{folder} already exists and is not empty. Choose another folder or remove it.")


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
    episodes = _episode_list(out)
    write_episode_list(episodes, weighting.frames)
    return [out, episodes]


def _episode_list(out: Path) -> Path:
    return out.with_name(f"{out.stem}.episodes.json")


def _command(run: Run, weighting: Weighting, policy_type: str, out: Path) -> str | None:
    from stepscore.curation import lerobot_train_command

    whole_episodes = weighting.method == "filter" and "stalls" not in weighting.options
    if not (weighting.by_lerobot or whole_episodes):
        return None
    by_lerobot = weighting if weighting.by_lerobot else None
    return lerobot_train_command(
        run, weighting.frames, policy=policy_type, weighting=by_lerobot, progress=out
    )

"""Every kind of hostile input, by name."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.case import Case, Kind
from tests.hostile.good_inputs import SOURCES, copy_good, judge_command
from tests.hostile.kinds import (
    added_files,
    checkpoints,
    environments,
    leases,
    options,
    overwriting,
    remotes,
    rows,
    run_folders,
    servers,
    sound,
    sources,
    view_server,
)

EXTRAS = ("hdf5", "act")
KINDS: dict[str, Kind] = {
    **{
        name: Kind(sources.make_source(name), 12, "extras" if name in EXTRAS else "core")
        for name in SOURCES
        if name not in ("jsonl", "csv", "yaml")
    },
    **{name: Kind(sources.make_manifest(name), 12) for name in ("jsonl", "csv", "yaml")},
    "lerobot-rows": Kind(sources.make_lerobot_rows, 12),
    "single": Kind(sources.make_single, 12),
    "names": Kind(sources.make_names, 6),
    "labels": Kind(added_files.make_labels, 12),
    "subgoals": Kind(added_files.make_subgoals, 10),
    "goal": Kind(added_files.make_goal, 10),
    "pair-file": Kind(added_files.make_pair_file, 6),
    "board-file": Kind(added_files.make_board_file, 8),
    "calibration": Kind(added_files.make_calibration, 10),
    "answers": Kind(added_files.make_answers, 14),
    "run-tables": Kind(run_folders.make_tables, 16),
    "run-journal": Kind(run_folders.make_journal, 14),
    "run-json": Kind(run_folders.make_json, 12),
    "validation": Kind(run_folders.make_validation, 8),
    "run-files": Kind(run_folders.make_files, 10),
    "leases": Kind(leases.make_lease, 12),
    "no-run": Kind(run_folders.make_no_run, 8),
    "options": Kind(options.make_options, 30),
    "judge-options": Kind(options.make_judge_options, 16),
    "model-options": Kind(options.make_model_options, 10),
    "server": Kind(servers.make_server, 16),
    "server-episode": Kind(servers.make_episode, 24),
    "environment": Kind(environments.make_environment, 16),
    "output": Kind(environments.make_output, 10),
    "rows": Kind(rows.make_row, 14),
    "overwriting": Kind(overwriting.make_overwriting, 14),
    "disk": Kind(environments.make_disk, 10),
    "read-only": Kind(environments.make_read_only, 8),
    "cache": Kind(environments.make_cache, 10),
    "interrupt": Kind(environments.make_interrupt, 12),
    "remote": Kind(remotes.make_remote, 16, "extras"),
    "view": Kind(run_folders.make_view, 3, "extras"),
    "view-server": Kind(view_server.make_view_server, 8, "extras"),
    "plot": Kind(run_folders.make_plot, 6, "extras"),
    "sound": Kind(sound.make_core, 8),
    "sound-extras": Kind(sound.make_extras, 4, "extras"),
    "sound-torch": Kind(sound.make_torch, 4, "torch"),
    "checkpoint": Kind(checkpoints.make_checkpoint, 24, "torch"),
    "train-options": Kind(options.make_train_options, 6, "torch"),
}


def undisturbed(rest: str, here: Path, good: Path) -> Case:
    """Return the case that judges the good episodes of a source alone: ``rest`` is SOURCE.JUDGE, or of a store."""
    if ":" in rest:
        return remotes.undisturbed(rest, here, good)
    name, _, judge = rest.rpartition(".")
    copy_good(good, name, here)
    source = SOURCES[name]
    arguments = judge_command(here / "source" / source.path, judge, here / "run")
    return Case(
        "nothing", [[*arguments, "--episodes", ",".join(source.good)]], lies={} if "@" in judge else None
    )

"""``stepscore plan``: subgoals drafted from an instruction, or of all tasks of a source."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli import options
from stepscore.cli.outputs import Force, check_overwrite, new_file
from stepscore.cli.tables import err
from stepscore.errors import ModelError, OptionError

if TYPE_CHECKING:
    from stepscore.models import Model
    from stepscore.procedures import SubgoalDraft
    from stepscore.runs import CallOptions

_REPO_ID = re.compile(r"[\w.-]+/[\w.-]+")


@options.with_groups
def plan(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="INSTRUCTION-OR-SOURCE",
            help="Instruction of a task, or a source whose tasks are all drafted.",
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model", metavar="MODEL", help="Model that drafts the stages (`stepscore ls models`)."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_file, metavar="FILE", help="The subgoals file (YAML) to write."
        ),
    ],
    video: Annotated[
        str | None,
        typer.Option(
            "--video",
            metavar="SOURCE",
            help="Rollout of the INSTRUCTION whose frames are sent too.",
        ),
    ] = None,
    structured: options.Structured = None,
    model_options: options.ModelOptions = [],  # noqa: B006 - typer copies it
    *,
    engine: options.CallEngine,
    budget: options.BudgetFlags,
    force: Force = False,
) -> None:
    """Draft subgoals from an instruction or a source.

    For a SOURCE, every task is drafted into one file, with frames of its first episode if the model accepts images.
    """
    from stepscore.procedures import write_subgoals

    check_overwrite(out, force=force)
    chosen = options.open_model(model, model_options)
    if chosen.name == "embedded":
        raise OptionError(
            "The embedded judge was trained to judge, not to plan. Choose a larger model: --model hf/PATH-OR-ID, "
            "vllm/... or openai-api/...; or write the file by hand, as docs/judges/stepeval.md shows."
        )
    call_options = engine.call_options(budget)
    call_options.check([chosen])
    if _is_source(subject):
        if video is not None:
            raise OptionError(f"--video goes with an instruction; {subject} has videos of its own.")
        drafts, failures = _plan_source(subject, chosen, call_options, structured=structured)
    else:
        draft = _plan_instruction(subject, chosen, video, call_options, structured=structured)
        drafts, failures = [draft], {}
    write_subgoals(drafts, out)
    err().print(f"Wrote {out}. Review it, correct it, and set reviewed: true.")
    for task, error in failures.items():
        err().print(f"Not drafted: {task}: {error}", soft_wrap=True, markup=False)
    if failures:
        raise typer.Exit(1)


def _is_source(subject: str) -> bool:
    """Return whether a text is a path that exists, or has the form of a repo id; instructions have spaces."""
    try:
        return Path(subject).expanduser().exists() or _REPO_ID.fullmatch(subject) is not None
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, a user that does not exist
        return False


def _plan_instruction(
    instruction: str, model: Model, video: str | None, call_options: CallOptions, *, structured: bool | None
) -> SubgoalDraft:
    from stepscore.episodes import open_episodes
    from stepscore.procedures import plan_subgoals

    episode = open_episodes(video)[0] if video is not None else None
    with tempfile.TemporaryDirectory() as folder:
        draft = plan_subgoals(
            instruction,
            model,
            Path(folder),
            episode=episode,
            call_options=call_options,
            structured=structured,
        )
    _print_draft(draft)
    return draft


def _plan_source(
    source: str, model: Model, call_options: CallOptions, *, structured: bool | None
) -> tuple[list[SubgoalDraft], dict[str, str]]:
    """Draft all tasks of a source; an error if none could be drafted."""
    from stepscore.procedures import plan_tasks

    episodes = options.list_source(source)
    with tempfile.TemporaryDirectory() as folder:
        drafts, failures = plan_tasks(
            episodes,
            model,
            Path(folder),
            call_options=call_options,
            structured=structured,
            on_done=_print_draft,
        )
    if not drafts:
        why = list(dict.fromkeys(failures.values())) or ["no episode has an instruction"]
        others = f" ({len(why) - 1} other errors)" if len(why) > 1 else ""
        raise ModelError(f"None of {len(failures)} tasks of {source} could be drafted: {why[0]}{others}")
    return drafts, failures


def _print_draft(draft: SubgoalDraft) -> None:
    err().print(draft.task or draft.instruction, style="bold", markup=False)
    for number, subgoal in enumerate(draft.subgoals, start=1):
        err().print(f"{number}. {subgoal.name} ({subgoal.mode}): {subgoal.criterion}", markup=False)

"""The commands of ``stepscore``. A command's module is imported when the command is called, not to list it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from stepscore.cli import data, judging, results, tools, training, trust
from stepscore.cli.config import ConfiguredCommand

CONTEXT_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


class Listed(NamedTuple):
    """A command as ``stepscore --help`` lists it; ``target`` is ``module:attribute`` below ``stepscore.cli``."""

    target: str
    summary: str

    @property
    def panel(self) -> str:
        """Its heading in ``stepscore --help``: that of its folder."""
        return PANELS[self.target.partition(".")[0]]

    def load(self) -> Any:
        """Return the function, or the group of commands."""
        module, _, attribute = self.target.partition(":")
        return getattr(import_module(f"stepscore.cli.{module}"), attribute)


PANELS: Mapping[str, str] = {
    package.__name__.rpartition(".")[2]: package.PANEL
    for package in (judging, results, trust, data, training, tools)
}
"""Headings of ``stepscore --help`` by folder, in their order."""

COMMANDS: Mapping[str, Listed] = {
    "demo": Listed("judging.demo:demo", "Judge 32 bundled rollouts and compare their four policies."),
    "inspect": Listed("judging.inspect:inspect", "List the contents of a source and its unreadable files."),
    "judge": Listed("judging.judge:judge", "Judge every episode of SOURCE and write a run folder."),
    "metrics": Listed("results.metrics:metrics", "Print the metrics of runs with 95 % intervals."),
    "compare": Listed(
        "results.compare:compare", "Print differences between groups, with intervals and tests."
    ),
    "report": Listed(
        "results.report:report", "Write a page with leaderboards, failure modes and an explorer."
    ),
    "view": Listed("results.view:view", "Serve the page of runs and update it while they are judged."),
    "serve": Listed("results.serve:serve", "Serve a judge's progress and success to RL code."),
    "plot": Listed("results.plot:plot", "Draw figures for a paper, or an episode's video or clip."),
    "export": Listed(
        "results.export:export", "Write episodes for Rerun, or training questions for language models."
    ),
    "merge": Listed("results.merge:merge", "Merge shards, runs of one protocol, or labels files."),
    "audit": Listed("trust.audit:audit", "Probe a judge with episodes whose right answer is known."),
    "bench": Listed("trust.bench:bench", "Compare judges on labelled episodes: accuracy, cost and latency."),
    "pairs": Listed("trust.pairs:app", "Score a judge on pairs of timestamps in known order."),
    "calibrate": Listed("trust.calibrate:calibrate", "Fit a judge's score to labelled progress and success."),
    "tune": Listed("trust.tune:tune", "Choose a judge's options by labels and cost."),
    "plan": Listed("data.plan:plan", "Draft subgoals from an instruction or a source."),
    "annotate": Listed("data.annotate:annotate", "Name and time the stages of every episode with a model."),
    "progress-labels": Listed(
        "data.progress_labels:progress_labels", "Label progress from the stages of episodes."
    ),
    "sim": Listed("data.sim:sim", "Simulate labelled Meta-World rollouts as a LeRobot dataset."),
    "weights": Listed("training.weights:weights", "Turn a run into training weights for LeRobot or PyTorch."),
    "rewards": Listed("training.rewards:rewards", "Write the reward of every frame of a run."),
    "train": Listed("training.train:app", "Train a judge on labelled rollouts."),
    "ls": Listed("tools.ls:ls", "List judges, models, readers or metrics with their options."),
    "chat-template": Listed("tools.chat_template:chat_template", "Write a chat template for `vllm serve`."),
    "doctor": Listed("tools.doctor:doctor", "Show what is installed and which judges and models run here."),
    "cache": Listed("tools.cache:app", "Manage cached answers and downloaded recordings."),
}


class _Loading(Mapping[str, Any]):
    """The commands by name, each built when it is looked up; iterating over the names builds none."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build(name, COMMANDS[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Commands(TyperGroup):
    """The group of all commands. Listing them imports none; calling one imports that one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._has_options = True
        self.commands = cast(MutableMapping[str, Any], _Loading())

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a stand-in with the command's name, summary and panel, for help and completion."""
        listed = COMMANDS.get(cmd_name)
        if listed is None:
            return None
        return TyperCommand(cmd_name, help=listed.summary, rich_help_panel=listed.panel)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command, if there are any."""
        # Typer imports pydantic to read options, even those that are not given.
        self._has_options = not args or args[0].startswith("-")
        try:
            return super().parse_args(ctx, args)
        finally:
            self._has_options = True

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options before the command; none for a command line without any."""
        return super().get_params(ctx) if self._has_options else []

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import and return the called command."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found if found is None else self.commands[str(name)], rest


def _build(name: str, listed: Listed) -> Any:
    """Return the command or group of commands as the parser takes it."""
    loaded: typer.Typer | Callable[..., None] = listed.load()
    kind = TyperCommand if listed.panel == tools.PANEL else ConfiguredCommand
    if isinstance(loaded, typer.Typer):
        for info in loaded.registered_commands:
            info.cls = kind
        command: Any = get_command(loaded)
        command.name = name
    else:
        alone = typer.Typer(add_completion=False, context_settings=CONTEXT_SETTINGS)
        alone.command(name, cls=kind)(loaded)
        command = get_command(alone)
    command.rich_help_panel = listed.panel
    hide_flag_types(command)
    return command


def hide_flag_types(command: Any) -> None:
    """Keep ``<bool>`` out of the help of flags, which take no value."""
    context = typer.Context(command, **CONTEXT_SETTINGS)
    for option in command.get_params(context):
        if getattr(option, "is_flag", False) and option.metavar is None:
            option.metavar = ""
    if not isinstance(command, Commands):
        for inner in getattr(command, "commands", {}).values():
            hide_flag_types(inner)

"""Every command with its parameters, read from the functions themselves, and a line on which each one works."""

from __future__ import annotations

import io
import typing
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import typer

import stepscore
from stepscore.audit.pairs import make_progress_pairs, write_pairs
from stepscore.cli.commands import COMMANDS
from stepscore.cli.main import run
from stepscore.testing import write_toy_rollouts
from tests.paths import ROOT

HUGE = "9" * 30
NUMBERS = (
    *("0", "-1", "1", "nan", "inf", "-inf", "1e308", "1e400", HUGE, f"-{HUGE}", "9" * 5000, "999999999999"),
    *("", " ", "abc", "１２", "²", "1_000", "0x10", "true", "1e9", "\x00", "--", "\x1b[31m1"),
)
"""Values for options that take a number."""

TEXTS = (
    *("", " ", ",", "\x00", "\n", "a\nb", "\x1b[31m", "[red]", "[/]", "\udcff", "\u202e", "x" * 1_000_000),
    *("=", "a="),
)
"""Values for options that take a text."""


class Parameter(NamedTuple):
    """A parameter of a command: its flag (empty for an argument), the type of its value, and the key of a group."""

    flag: str
    kind: type
    key: str = ""

    def words(self, value: str) -> list[str]:
        """Return the option with a value."""
        return [self.flag, f"{self.key}={value}" if self.key else value]


@dataclass(frozen=True)
class Command:
    """A command: its words, and its parameters that take a value."""

    words: tuple[str, ...]
    parameters: tuple[Parameter, ...]

    @property
    def name(self) -> str:
        return " ".join(self.words)


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def commands() -> Iterator[Command]:
    for words, function in functions():
        yield Command(words, tuple(_parameters(function)))


def functions() -> Iterator[tuple[tuple[str, ...], Callable[..., Any]]]:
    """The words and the function of every command."""
    for name, listed in COMMANDS.items():
        loaded = listed.load()
        if not isinstance(loaded, typer.Typer):
            yield (name,), loaded
            continue
        for command in loaded.registered_commands:
            assert command.callback is not None
            yield (name, command.name or command.callback.__name__), command.callback


def _parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    for hint in typing.get_type_hints(function, include_extras=True).values():
        if typing.get_origin(hint) is not typing.Annotated:
            continue
        declared, info = typing.get_args(hint)[:2]
        kinds = [kind for kind in _leaves(declared) if kind is not type(None)]
        if kinds == [bool]:
            continue
        # In an annotation, typer keeps the first flag as the default.
        flag = "" if isinstance(info, typer.models.ArgumentInfo) else str(info.default)
        assert not flag or flag.startswith("-")
        yield Parameter(flag, kinds[0])
    for declared, group in getattr(function, "key_groups", {}).values():
        for key in group.keys(declared).values():
            yield Parameter(group.flag, key.kind, key.name.replace("_", "-"))


def _leaves(declared: Any) -> list[type]:
    inner = typing.get_args(declared)
    return [leaf for part in inner for leaf in _leaves(part)] if inner else [declared]


def invoke(arguments: list[str]) -> Ended:
    """Run a command in this process, as the entry point does."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    return Ended(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Inputs:
    """Small valid inputs for every command, and a folder for what they write."""

    source: Path
    run: Path
    folder: Path

    @property
    def labels(self) -> Path:
        """Labelled progress of the source."""
        return self.source.parent / "progress.csv"

    @property
    def pairs(self) -> Path:
        """Pairs made from it."""
        return self.source.parent / "pairs.jsonl"

    def line(self, words: tuple[str, ...], flag: str = "") -> list[str]:
        """Return the words of a command that works; ``flag`` is the option that will be added."""
        out, run = str(self.folder / "out"), str(self.run)
        lines = {
            ("demo",): ["-o", out],
            ("inspect",): [str(self.source), "--limit", "1"],
            ("judge",): [str(self.source), "--judge", "constant", "-o", out, "--limit", "1"],
            ("calibrate",): [run, "-o", out],
            ("audit",): [str(self.source), *_AUDITED, "-o", out, "--limit", "1"],
            ("bench",): [
                *(str(self.source), "--labels", str(self.labels)),
                *("--judges", "constant", "-o", out, "--limit", "1"),
            ],
            ("pairs", "make"): [str(self.source), "--labels", str(self.labels), "-o", f"{out}.jsonl"],
            ("pairs", "score"): [
                str(self.pairs),
                "--source",
                str(self.source),
                "--judge",
                "constant",
                "-o",
                out,
            ],
            ("merge",): [run, "-o", out],
            ("tune",): [str(self.source), "--labels", str(self.labels), *_TUNED, "-o", out],
            ("metrics",): [run],
            ("compare",): [run],
            ("report",): [run, "-o", out, "--no-videos"],
            ("view",): [run, "--no-videos"],
            ("serve",): ["--judge", "constant"],
            ("plot",): [run, "-o", out, "--kind", "leaderboard", "--format", "svg"],
            ("export",): [run, "--to", "rerun", "-o", f"{out}.rrd", "--videos", "none"],
            ("plan",): ["push it", "--model", "mock/x", "-o", out],
            ("annotate",): [
                *(str(self.source), "--model", "mock/x"),
                *("-o", f"{out}.parquet", "--limit", "1", "-E", "cache=false"),
            ],
            ("progress-labels",): [
                str(self.source),
                "--method",
                "linear",
                "-o",
                f"{out}.parquet",
                "--limit",
                "1",
            ],
            ("sim",): ["-o", out, "--tasks", "drawer-open", "--episodes-per-task", "1"],
            ("rewards",): [run, "-o", f"{out}.parquet"],
            ("weights",): [run, "-o", f"{out}.parquet", *_weighting(flag)],
            ("train", "vlm"): [str(self.folder / "nothing"), "-o", out],
            ("train", "sarm"): [str(self.folder / "nothing"), "-o", out],
            ("ls",): ["readers"],
            ("chat-template",): [str(ROOT / "src/stepscore/models/embedded/checkpoint"), "-o", out],
            ("doctor",): [],
            ("cache", "stats"): ["--path", f"{out}.sqlite"],
            ("cache", "prune"): ["--path", f"{out}.sqlite", "--all"],
            ("cache", "export"): [f"{out}.jsonl", "--path", f"{out}.sqlite"],
            ("cache", "recordings"): [],
        }
        return [*words, *lines[words]]


_TUNED = ("--judge", "constant", "points=2", "-T", "metric=progress-mae", "--limit", "3")
_AUDITED = ("--judge", "constant", "-T", "probes=frozen-first", "-T", "trivial=false")


def _weighting(flag: str) -> list[str]:
    """Return the method of ``stepscore weights`` that has an option."""
    rabc = ["--method", "rabc", "-W", "chunk-size=8"]
    if flag == "--top":
        return [*rabc, "--by", "MP"]
    return [*rabc, "--top", "0.5"] if flag == "--by" else rabc


def make_inputs(folder: Path) -> Inputs:
    source = write_toy_rollouts(folder / "toys", scenes=1)
    judge = stepscore.get_judge("recorded")
    judged = stepscore.score(stepscore.open_episodes(source), judge, out=folder / "run")
    made = Inputs(source, judged.path, folder)
    rows = [
        f"{name},progress,potential,{i / 4},,{min(1, i / 12)}" for name in _ids(source) for i in range(16)
    ]
    made.labels.write_text("\n".join(["episode_id,kind,name,start_s,end_s,value", *rows]), encoding="utf-8")
    labelled = stepscore.open_episodes(source, labels=made.labels)
    write_pairs(made.pairs, make_progress_pairs(labelled, per_span=4))
    return made


def _ids(source: Path) -> list[str]:
    return [episode.id for episode in stepscore.open_episodes(source)]

"""Hostile options: every option of every command, judge and model, with numbers and texts that nobody means."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.hostile import mutations as m
from tests.hostile.case import Case
from tests.hostile.good_inputs import SERVED

SLOW = ("demo", "sim")
"""Commands that compute for long whatever the option is; their options are tested elsewhere."""


def _value(rng: Random, kind: type, here: Path) -> str:
    from tests.cli.command_walk import NUMBERS, TEXTS

    if kind in (int, float):
        return rng.choice((*NUMBERS, *map(str, m.ODD_NUMBERS)))
    if kind is Path and rng.random() < 0.6:
        odd = here / "odd"
        odd.touch()
        what = m.replace_file(odd, rng)
        return str(odd) if rng.random() < 0.7 else str(odd / "below") if what else ""
    return rng.choice(
        (*TEXTS, *m.ODD_TEXTS, *NUMBERS, "/", ".", "/dev/full", "/dev/null", "/proc/nope", "a/" * 2000)
    )


def _short(value: str) -> str:
    return repr(value) if len(value) < 40 else f"{value[:30]!r}... ({len(value)} characters)"


def make_options(rng: Random, here: Path, good: Path) -> Case:
    """Give one option or argument of a command an odd value, on a line that works without it."""
    return _option_case(rng, here, good, trains=False)


def make_train_options(rng: Random, here: Path, good: Path) -> Case:
    """Do so with the commands that train."""
    return _option_case(rng, here, good, trains=True)


def _option_case(rng: Random, here: Path, good: Path, *, trains: bool) -> Case:
    from tests.cli.command_walk import Inputs, commands

    found = [
        c for c in commands() if (c.words[0] == "train") == trains and c.words[0] not in SLOW and c.parameters
    ]
    command = rng.choice(found)
    parameter = rng.choice(command.parameters)
    value = _value(rng, parameter.kind, here)
    walk = good / "made" / "walk"
    line = Inputs(walk / "toys", walk / "run", here).line(command.words, parameter.flag)
    if parameter.flag:
        line += parameter.words(value)
    elif len(line) > len(command.words):
        line[len(command.words)] = value
    case = Case(f"{command.name} {parameter.flag or 'argument'} {parameter.key} {_short(value)}", [line])
    if command.words in (("view",), ("serve",)):
        case.stop_s, case.codes = 1.5, [0, 1, 2, 130]
        case.commands[0] += ["--port", "0"] if parameter.flag != "--port" else []
    return case


def _pair(rng: Random, make: Callable[..., object]) -> str:
    """Return KEY=VALUE for one of the options that a function declares, or for none."""
    from tests.cli.command_walk import NUMBERS, TEXTS

    names = [
        n for n in inspect.signature(make).parameters if n not in ("model", "fitted", "requests", "script")
    ]
    name = (
        rng.choice(names)
        if names and rng.random() < 0.95
        else rng.choice(("", "no_such", "self", "model", "__class__"))
    )
    value = rng.choice(
        (*NUMBERS, *TEXTS, *m.ODD_TEXTS, *m.RAW.values(), "[]", "{}", "[1]", "null", "true", "/dev/zero", "/")
    )
    return f"{name}={value}" if rng.random() < 0.97 else rng.choice((name, "", "=", value))


def make_judge_options(rng: Random, here: Path, good: Path) -> Case:
    """Give an option of a judge an odd value."""
    from stepscore.judges import judge_registry

    name = rng.choice([n for n in judge_registry.names() if n not in ("sarm", "cascade")])
    pair = _pair(rng, judge_registry.get(name))
    line = [
        "judge",
        str(good / "jsonl" / "list.jsonl"),
        "--judge",
        name,
        "-o",
        str(here / "run"),
        "-J",
        pair,
        "--limit",
        "1",
        "-E",
        "cache=false",
    ]
    if name in SERVED:
        line += ["--model", "mock/-1.5" if name == "topreward" else 'mock/{"answer": "yes"}']
    if name == "recorded":
        line[1] = str(good / "videos")
    return Case(f"judge {name} -J {_short(pair)}", [line])


def make_model_options(rng: Random, here: Path, good: Path) -> Case:
    """Give an option of a model, or its name, an odd value; the server is not there."""
    from stepscore.models import model_registry

    backend = rng.choice(("mock", "openai-api", "vllm", "sglang"))
    model, pair = f"{backend}/{'-1.5' if backend == 'mock' else 'm'}", _pair(rng, model_registry.get(backend))
    address = rng.choice(
        (
            "http://127.0.0.1:9/v1",
            "http://127.0.0.1:9/v1",
            "ftp://x",
            "http://[::1",
            "",
            "http://u:p@h/",
            "http://x\ny",
            "//",
        )
    )
    given = ["-M", pair]
    if rng.random() < 0.2:
        model = rng.choice(
            (*m.ODD_TEXTS, "vllm/", "vllm//", "openai-api/../x", "/", f"{backend}/[red]", "x" * 5000)
        ).replace("\0", "?")
        given = []
    line = [
        "judge",
        str(good / "jsonl" / "list.jsonl"),
        "--judge",
        "topreward",
        "--model",
        model,
        "-o",
        str(here / "run"),
        *given,
    ]
    line += [
        "--limit",
        "1",
        "-E",
        "cache=false",
        "-E",
        "patience=0",
        *(["-M", f"base-url={address}"] if backend != "mock" else []),
    ]
    return Case(f"model {_short(model)} {_short(' '.join(given))} at {address!r}", [line])

"""Rows of a board, for ``bench --check``, that try to spend the user's money, to open files or to run code."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from tests.hostile.case import Case

PAID = ("openai-api/m", "openai-api/gemini/m", "vllm/m", "sglang/m", "hf/x", "sarm/x", "mock/-1.5")
FILES = (
    *("/etc/passwd", "~/.netrc", "../secret", "/proc/self/environ", "//host/share", "C:\\x", "labels.csv"),
    *("org/dataset", "s3://bucket/x", "http://127.0.0.1:9/v1"),
)
BROUGHT = ("base_url", "api_key", "headers", "trust_remote_code", "checkpoint")
"""Options of a model that no row may bring."""


def make_row(rng: Random, here: Path, good: Path) -> Case:
    """Make a row that names what the user does not name; the command is refused and the server asked nothing."""
    from stepscore.judges import judge_registry
    from stepscore.registry import declared_options

    board = good / "made" / "board" / "rows" / "linear-time.json"
    row = json.loads(board.read_text()) | {"options": {}, "model_options": {}}
    how = rng.choice(("option", "option", "option", "option", "model", "brought", "judge"))
    named: list[str] = []
    if how == "option":
        declared = [
            (name, option, one.what)
            for name, make in judge_registry
            for option, one in declared_options(make).items()
            if one.what != "text"
        ]
        judge, option, what = rng.choice(declared)
        value: Any = rng.choice(PAID if what == "model" else FILES)
        if what == "judge":
            value = f"{rng.choice(('topreward', 'gvl', 'no-such', 'cascade'))}@{rng.choice(PAID)}"
        value = rng.choice((value, value, [value], {"a": [value]}, {value: 1}))
        row |= {"judge": judge, "options": {option: value}, "model": rng.choice((None, "embedded"))}
        if rng.random() < 0.3:  # naming something else allows nothing
            named = ["--judges", "linear-time:points=3", "--models", "embedded"]
    elif how == "model":
        row |= {
            "judge": "topreward",
            "model": rng.choice((*PAID, "embedded/x", " embedded", "", "openai-api/")),
        }
    elif how == "brought":
        row |= {
            "judge": "topreward",
            "model": "embedded",
            "model_options": {rng.choice(BROUGHT): rng.choice(FILES)},
        }
    else:
        row["judge"] = rng.choice(("mine.py:Judge", "/etc/passwd", "os:system", "no-such", "cascade"))
    file = here / "row.json"
    file.write_text(json.dumps(row))
    data = [str(good / "jsonl" / "list.jsonl"), "--labels", str(good / "made" / "labels.csv"), "--limit", "1"]
    line = ["bench", *data, "--check", str(file), "-E", "base-url={server}", *named]
    said = json.dumps({key: row[key] for key in ("judge", "model", "options", "model_options")})
    return Case(f"row {said[:120]}", [line], codes=[2], lies={"log": str(here / "asked")}, unasked=True)

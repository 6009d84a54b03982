"""What must hold after every try: how commands end, and what they leave."""

from __future__ import annotations

import base64
import json
import re
import signal
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.hostile.case import KEY, Case, state_of

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.hostile.forks import Outcome

MAX_MEMORY = 1 << 30
"""Most resident memory of a command, in bytes."""

MAX_LOG = 4000
"""Most that is printed to stderr while clients attack, in characters."""

MAX_LINE = 4000
"""Longest error message, in characters."""

KEY_FORMS = (KEY.encode(), base64.b64encode(KEY.encode()).rstrip(b"="), KEY[::-1].encode())
COLOURS = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")
"""What a terminal is sent where FORCE_COLOR asks for it."""

UNCAUGHT = re.compile(
    r"Traceback \(most recent call last\)|Exception Group Traceback|Exception ignored in|Fatal Python error"
)
TABLES = ("episodes", "judgements", "curves", "verdicts", "calls")
"""Tables that are a function of input and protocol; ``usage`` holds times."""


def of_command(arguments: list[str], case: Case, outcome: Outcome, out: Path, err: Path) -> list[str]:
    """Return what is wrong with how a command ended, each with its cause first."""
    printed = err.read_bytes().decode("utf-8", "replace") if err.exists() else ""
    printed = COLOURS.sub("", printed)
    printed_out = out.read_bytes().decode("utf-8", "replace") if out.exists() else ""
    command = " ".join(word for word in arguments[:2] if not word.startswith("-") and "/" not in word)[:40]
    failures = []
    if outcome.hung:
        failures.append(f"hang: {command} ran {outcome.seconds:.0f} s, computing for {outcome.cpu_s:.0f} s")
    elif outcome.code < 0:
        failures.append(f"crash: {command} ended by {signal.Signals(-outcome.code).name}")
    if UNCAUGHT.search(printed) or UNCAUGHT.search(printed_out):
        failures.append(f"traceback: {command}: {_last_line(printed)}")
    elif outcome.code == 3:
        failures.append(f"unexpected error: {command}: {_last_line(printed)}")
    elif outcome.code >= 0 and outcome.code not in case.codes:
        failures.append(f"exit code {outcome.code}: {command}: {_last_line(printed)}")
    elif outcome.code == 2 and (wrong := _not_one_line(printed)):
        failures.append(f"error line: {command}: {wrong}")
    if outcome.code == 130:
        failures += [
            f"interrupt: {command}: {wrong}" for wrong in _interrupted(printed, out.with_name("run"))
        ]
    if outcome.memory > MAX_MEMORY:
        failures.append(f"memory: {command} took {outcome.memory / 2**20:.0f} MB")
    if case.attack is not None and len(printed) > MAX_LOG:
        failures.append(f"log: {command} printed {len(printed)} characters")
    if KEY in printed or KEY in printed_out:
        failures.append(f"key printed: {command}")
    return failures


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip(" |+-")]
    return lines[-1].strip()[:300] if lines else "(nothing printed)"


def _not_one_line(printed: str) -> str:
    """Return what is wrong with the message of a command that ended with 2; empty where it is one line."""
    lines = printed.split("\n")
    starts = [number for number, line in enumerate(lines) if line.startswith("Error: ")]
    if len(starts) != 1:
        return f"{len(starts)} lines begin with 'Error: ', the last printed is {_last_line(printed)!r}"
    after = [line for line in lines[starts[0] + 1 :] if line.strip()]
    if after:
        return f"its message goes on over {len(after)} more lines: {lines[starts[0]][:200]!r}"
    if len(lines[starts[0]]) > MAX_LINE:
        return f"its message has {len(lines[starts[0]])} characters: {lines[starts[0]][:200]!r}"
    return ""


def _interrupted(printed: str, run: Path) -> list[str]:
    """Return what is wrong with how an interrupted command ended: it prints one line, and a run keeps its status."""
    said = [line for line in printed.split("\n") if line.startswith("Interrupted")]
    wrong = [f"{len(said)} lines begin with 'Interrupted'"] if len(said) != 1 else []
    if (run / "run.json").is_file():
        status = json.loads((run / "run.json").read_text(encoding="utf-8"))["status"]
        wrong += [f"the run's status is {status!r}"] if status not in ("interrupted", "finished") else []
    return wrong


def after(case: Case, here: Path) -> list[str]:
    """Return what is wrong with the files a try left: a key in one of them, or more attempts than were allowed."""
    import sqlite3

    failures = []
    for path in sorted(here.rglob("*")):
        kept = path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 28
        if kept and _holds_key(path):
            failures.append(f"key kept: {path.relative_to(here)}")
    if case.attack is not None:
        answer = here / "attack.json"
        said = (
            json.loads(answer.read_text(encoding="utf-8")) if answer.is_file() else "the clients did not end"
        )
        failures += [f"served: {said}"] if said else []
    asked = here / "asked"
    if case.unasked and asked.exists():
        failures.append(f"spent: the server was asked {len(asked.read_text().splitlines())} times")
    for name, before in case.kept.items():
        if state_of(Path(name)) != before:
            failures.append(f"overwritten: {Path(name).name}")
    if case.max_calls is not None and (here / "run" / "attempts.sqlite").is_file():
        with closing(sqlite3.connect(here / "run" / "attempts.sqlite")) as attempts:
            (made,) = attempts.execute("SELECT COUNT(*) FROM attempts").fetchone()
        if made > case.max_calls:
            failures.append(f"budget: {made} attempts, {case.max_calls} allowed")
    return failures


def _holds_key(path: Path) -> bool:
    content = path.read_bytes()
    if path.suffix == ".parquet":  # its pages are compressed
        import pyarrow.parquet as pq

        with suppress(Exception):  # damaged on purpose
            content += str(pq.read_table(path, use_threads=False).to_pylist()).encode("utf-8", "replace")
    if path.name == "calls.sqlite":
        import sqlite3
        import zlib

        damage = (
            sqlite3.Error,
            zlib.error,
            TypeError,
            UnicodeDecodeError,
        )  # the last: of SQLite's own message
        with suppress(*damage), closing(sqlite3.connect(path)) as cache:
            for (value,) in cache.execute("SELECT value FROM calls"):
                content += zlib.decompress(value)
    return any(form in content for form in KEY_FORMS)


def rest_kept(before: Path, after: Path, *, stored: bool = False) -> list[str]:
    """Return how the rows of the undisturbed run's episodes differ in a run beside a bad episode.

    Args:
        before: The undisturbed run's folder.
        after: The other run's.
        stored: Whether the other's tables may be damaged, and are read as commands read them, made anew if need be.
    """
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    def in_folder(folder: Path) -> Callable[[str], pa.Table]:
        return lambda name: pq.read_table(folder / f"{name}.parquet", use_threads=False)

    def by_run(folder: Path) -> Callable[[str], pa.Table]:
        from stepscore.runs import open_run

        run = open_run(folder)
        return lambda name: getattr(run, name)()

    failures = []
    read_old, read_new = in_folder(before), (by_run if stored else in_folder)(after)
    good = read_old("episodes")["episode_id"]
    for name in TABLES:
        if not stored and not (after / f"{name}.parquet").is_file():
            return [f"rest lost: no table {name}"]
        old, new = read_old(name), read_new(name)
        new = new.filter(pc.is_in(new["episode_id"], good.combine_chunks()))
        if len(new) != len(old):
            failures.append(f"rest lost: {name} has {len(new)} rows of the good episodes, not {len(old)}")
            continue
        for column in new.column_names:
            if column not in old.column_names:
                if new[column].null_count != len(new):
                    failures.append(f"rest changed: {name} has a new column {column}")
            elif not _equal(old[column], new[column]):
                failures.append(f"rest changed: {name}.{column}")
        failures += [f"rest changed: {name} lacks {c}" for c in old.column_names if c not in new.column_names]
    return failures


def _equal(old: pa.ChunkedArray, new: pa.ChunkedArray) -> bool:
    # By text: for == no NaN is equal to itself, and 0.0 and -0.0 are.
    return repr(old.to_pylist()) == repr(new.to_pylist())

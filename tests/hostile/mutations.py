"""Damage that fits any input: bytes, values of JSON and YAML, cells of tables, files that are no files."""

from __future__ import annotations

import csv
import io
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

RAW = {
    "deep-list": "[" * 5000 + "]" * 5000,
    "deep-object": '{"a":' * 3000 + "1" + "}" * 3000,
    "digits": "9" * 5000,
    "surrogate": '"\\ud800 half a pair"',
    "overflow": "1e999",
    "nan": "NaN",
    "infinity": "-Infinity",
}
"""JSON texts that no Python value becomes; a placeholder stands for each until the text is written."""

ODD_NUMBERS = (10**30, -(10**30), 2**63, 2**31, -1, 0, 1e308, -1e308, 5e-324, 0.5, 1e18)
ODD_TEXTS = (
    "",
    " ",
    "\0",
    "a\0b",
    "x" * 1_000_000,
    "../../../../etc/passwd",
    "/etc/passwd",
    "/dev/zero",
    "x" * 5000 + "/y",
    "\u202e\ufeff\u2028",
    "\x1b[31mred\x1b[0m\x07",
    "{0.__class__}",
    "{chunk_index:>999999999}",
    "%s%n",
    "[bold]x[/nope]",
    "<script>alert(1)</script>",
    "nan",
    "1e999",
    "true",
    "2024-13-45",
    "line\nbreak\r\n",
    "http://127.0.0.1:9/x.mp4",
    "९",
)
ODD_OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"a": 1}, [1, "2", None], {"": ""})

FILE_KINDS = (
    "pipe",
    "folder",
    "loop",
    "device",
    "dangling",
    "empty",
    "socket",
    "sparse",
    "unreadable",
    "gone",
)
"""What stands in a file's place; ``unreadable`` matters to a user without all rights."""


def odd_value(rng: Random) -> Any:
    """Return a value that a field seldom expects."""
    pool = rng.choice((ODD_NUMBERS, ODD_TEXTS, ODD_OTHERS, [f"\x01{name}\x01" for name in RAW]))
    return rng.choice(pool)


def dump_json(value: Any) -> str:
    """Return JSON, with the texts of ``RAW`` in their places."""
    text = json.dumps(value)
    for name, raw in RAW.items():
        text = text.replace(json.dumps(f"\x01{name}\x01"), raw)
    return text


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def odd_json(value: Any, rng: Random, *, root: bool = True, keep: tuple[str, ...] = ()) -> tuple[Any, str]:
    """Return a copy with one thing wrong, and where: a value replaced, a field removed, renamed or added.

    Args:
        value: A JSON value.
        rng: Decides what.
        root: Whether the value as a whole may be replaced.
        keep: Names of fields that stay as they are.
    """
    value = json.loads(json.dumps(value))
    found = [p for p in places(value) if (p or root) and not any(name in keep for name in p)]
    path = rng.choice(found)
    where = ".".join(map(str, path)) or "(all)"
    if not path:
        odd = odd_value(rng)
        return odd, f"{where} = {_short(odd)}"
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    how = rng.random()
    if how < 0.75:
        holder[path[-1]] = odd_value(rng)
        return value, f"{where} = {_short(holder[path[-1]])}"
    removed = holder.pop(path[-1])
    if how < 0.85 or not isinstance(holder, dict):
        return value, f"{where} removed"
    new = rng.choice(("", "extra", str(path[-1]).upper(), "x" * 10_000))
    holder[new] = removed
    return value, f"{where} renamed {_short(new)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:40]}... ({len(text)} characters)"


def damage_bytes(content: bytes, rng: Random) -> bytes:
    """Return the content with bytes flipped, cut, repeated, inserted or zeroed."""
    how = rng.choice(("flip", "flip", "cut", "cut", "zero", "insert", "repeat", "head", "random"))
    data, size = bytearray(content), max(1, len(content))
    at = rng.randrange(size)
    if how == "flip":
        for _ in range(rng.choice((1, 3, 30))):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del data[at:]
    elif how == "zero":
        data[at : at + 64] = bytes(64)
    elif how == "insert":
        data[at:at] = rng.randbytes(rng.choice((1, 16, 4096)))
    elif how == "repeat":
        data[at:at] = data[at : at + 1000] * 20
    elif how == "head":
        data[: rng.choice((4, 16, 64))] = rng.randbytes(16)
    else:
        data = bytearray(rng.randbytes(rng.choice((1, 100, 5000))))
    return bytes(data)


def replace_file(path: Path, rng: Random, kinds: tuple[str, ...] = FILE_KINDS) -> str:
    """Put something else in a file's place, and return what."""
    kind = rng.choice(kinds)
    content = path.read_bytes() if path.is_file() else b""
    path.unlink(missing_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path.name)
        case "device":
            path.symlink_to(rng.choice(("/dev/zero", "/dev/null", "/dev/full")))
        case "dangling":
            path.symlink_to("nowhere")
        case "empty":
            path.touch()
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                folder = os.open(path.parent, os.O_RDONLY)  # a socket's path may have 107 bytes at most
                made.bind(f"/proc/self/fd/{folder}/{path.name}"[:107])
                os.close(folder)
        case "sparse":
            with path.open("wb") as file:
                file.write(content[:4096])
                file.truncate(1 << 36)
        case "unreadable":
            path.write_bytes(content)
            path.chmod(0)
    return kind


def damage_file(path: Path, rng: Random, structured: Callable[[Path, Random], str] | None = None) -> str:
    """Damage a file by its structure (most often), its bytes or its kind, and return what was done."""
    how = rng.random()
    if structured is not None and how < 0.6:
        return f"{path.name}: {structured(path, rng)}"
    if how < 0.85:
        path.write_bytes(damage_bytes(path.read_bytes(), rng))
        return f"{path.name}: damaged bytes"
    return f"{path.name}: {replace_file(path, rng)}"


def damage_json(path: Path, rng: Random) -> str:
    """Change one value of a JSON file."""
    value, what = odd_json(json.loads(path.read_text(encoding="utf-8")), rng)
    path.write_text(dump_json(value), encoding="utf-8")
    return what


def damage_jsonl(path: Path, rng: Random, *, keep: tuple[str, ...] = ()) -> str:
    """Change one value of one line, or repeat, empty or tear a line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    at, how = rng.randrange(len(lines)), rng.random()
    what = f"line {at + 1} "
    if how < 0.8:
        value, where = odd_json(json.loads(lines[at]), rng, root=not keep, keep=keep)
        lines[at], what = dump_json(value), what + where
    elif how < 0.87:
        lines.insert(rng.randrange(len(lines) + 1), lines[at])
        what += "twice"
    elif how < 0.94:
        lines[at] = lines[at][: rng.randrange(len(lines[at]))]
        what += "torn"
    else:
        lines[at] = rng.choice(("null", "[]", "{}", "3", '"text"', "\ufeff{}", "\0"))
        what += lines[at]
    path.write_text("\n".join(lines) + rng.choice(("\n", "\n", "")), encoding="utf-8", errors="surrogatepass")
    return what


def damage_csv(path: Path, rng: Random) -> str:
    """Change a cell, the header or the number of cells of a csv file."""
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    at = rng.randrange(len(rows)) if rng.random() < 0.85 else 0
    column = rng.randrange(len(rows[at]))
    odd = rng.choice((*ODD_TEXTS, *map(str, ODD_NUMBERS), "9" * 5000, '"', "[" * 3000, "{}", "[[]]"))
    if rng.random() < 0.85:
        rows[at][column] = odd
    elif rng.random() < 0.5:
        rows[at] += [odd] * rng.choice((1, 50))
    else:
        del rows[at][column:]
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    path.write_text(written.getvalue(), encoding="utf-8", errors="surrogatepass")
    return f"row {at}, column {column} = {_short(odd)}"


def yaml_text(value: Any, rng: Random) -> tuple[str, str]:
    """Return a hostile YAML text with ``value`` in it, and what is wrong with it."""
    good = dump_json(value)  # JSON is YAML
    bombs = {
        "aliases": "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "inside itself": "a: &a [*a]\n" + f"b: {good}\n",
        "recursive mapping": "&a\nx: *a\n",
        "deep": "[" * 20_000,
        "a date of month 13": "when: 2024-13-45\n",
        "tag": "!!python/object/apply:os.system ['true']\n",
        "digits": f"n: {'9' * 5000}\n",
        "twice": "a: 1\na: 2\n",
        "tab": "a:\n\t- b\n",
        "binary": "a: !!binary 'not base64!'\n",
        "set and time": "a: !!set {x, y}\nb: 12:30:45\nc: 0o17\nd: 1_000\ne: .inf\n",
        "keys": "? [1, 2]\n: x\n? {a: 1}\n: y\n1: z\ntrue: w\n",
        "merge": "a: &a {x: 1}\nb: {<<: *a, <<: [*a, *a]}\nc: {<<: 3}\n",
        "documents": f"{good}\n---\n{good}\n",
        "control": "a: \x07\x1b\n",
        "nothing": "",
    }
    what = rng.choice(sorted(bombs))
    return bombs[what], what


def damage_yaml(path: Path, rng: Random) -> str:
    """Change one value of a YAML file, or replace it by a hostile text."""
    import yaml

    value = yaml.safe_load(path.read_text(encoding="utf-8"))
    if rng.random() < 0.65:
        odd, what = odd_json(value, rng)
        path.write_text(dump_json(odd), encoding="utf-8")
        return what
    text, what = yaml_text(value, rng)
    path.write_text(text, encoding="utf-8")
    return what

"""Text, JSON and YAML files from anywhere: read whole, within limits, and refused with the file and the field.

Only regular files are opened (a named pipe would wait for ever), only so many bytes are read, and nothing that
parses can make later code recurse too deep, overflow a 64-bit column or grow without bound by YAML aliases. The
caller chooses the class of the error.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from stepscore.errors import StepScoreError

MAX_TEXT_BYTES = 1 << 28
"""Longest text file that is read whole, in bytes."""

MAX_HASHED_BYTES = 1 << 33
"""Largest file that is hashed as a whole, a table of curves for one: a sparse file may claim terabytes."""

MAX_DEPTH = 100
"""Deepest nesting of lists and mappings in a JSON or YAML text."""

MAX_ALIASED_NODES = 1_000_000
"""Most nodes that the aliases of a YAML text may stand for, together."""

INT64 = range(-(1 << 63), 1 << 63)
"""Integers that a column of a table can hold."""

Error = type[StepScoreError]


def check_regular(path: Path, error: Error) -> os.stat_result:
    """Return the file's status; raise ``error`` where it cannot be read or is no regular file."""
    try:
        status = os.stat(path)
    except OSError as problem:
        raise error(f"Cannot read {shown(path)}: {problem.strerror or problem}.") from problem
    except ValueError as problem:  # a NUL in the name
        raise error(f"Cannot read {shown(path)}: {problem}.") from problem
    if not stat.S_ISREG(status.st_mode):
        raise error(f"{shown(path)} is {kind_of_file(status.st_mode)}, not a file.")
    return status


def check_hashable(path: Path, error: Error) -> os.stat_result:
    """Return the status of a file that is to be hashed as a whole; raise ``error`` where it is too large for it."""
    status = check_regular(path, error)
    if status.st_size > MAX_HASHED_BYTES:
        raise error(
            f"{shown(path)} has {status.st_size / 1e9:.1f} GB; at most {MAX_HASHED_BYTES / 1e9:.1f} GB are read of "
            "it. Split it."
        )
    return status


def shown(path: str | Path) -> str:
    """Return a path as a message shows it: without control characters, and not a screen long."""
    text = "".join(char if char.isprintable() else "?" for char in str(path))
    return text if len(text) <= 400 else f"{text[:200]}…{text[-100:]}"


def read_bytes(path: Path, error: Error, *, max_bytes: int = MAX_TEXT_BYTES) -> bytes:
    """Return a regular file's content; raise ``error`` where it cannot be read or has more than ``max_bytes``."""
    size = check_regular(path, error).st_size
    content = b""
    if size <= max_bytes:
        try:
            with path.open("rb") as file:
                content = file.read(max_bytes + 1)  # it may grow meanwhile
        except OSError as problem:
            raise error(f"Cannot read {shown(path)}: {problem.strerror or problem}.") from problem
    if max(size, len(content)) > max_bytes:
        raise error(f"{shown(path)} has more than {max_bytes} bytes, the most that is read of such a file.")
    return content


def read_text(path: Path, error: Error, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return the text of a UTF-8 file, without a byte order mark."""
    content = read_bytes(path, error, max_bytes=max_bytes)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise error(f"{shown(path)}, line {line} is not UTF-8 (byte {problem.start}).") from problem


def read_json(path: Path, error: Error, *, max_bytes: int = MAX_TEXT_BYTES) -> Any:
    """Return the value in a JSON file."""
    return parse_json(read_text(path, error, max_bytes=max_bytes), shown(path), error)


def parse_json(text: str | bytes, where: str, error: Error, *, huge_integers: bool = False) -> Any:
    """Return the value of a JSON text; ``where`` (a file, or file and line) begins the message of an error.

    ``huge_integers`` leaves in place integers that no 64 bits hold, as some integer of 25 digits, for a caller that
    checks every number it takes.
    """
    huge = False

    def read_int(digits: str) -> int:
        nonlocal huge
        if len(digits) < 19:
            return int(digits)
        value = int(digits[:25])  # a longer one is too large at any length
        huge = huge or value not in INT64
        return value

    try:
        value = json.loads(text, parse_int=read_int)
    except RecursionError:
        _too_deep(where, error)
    except ValueError as problem:
        raise error(f"{where} is not JSON ({problem}).") from problem
    if huge and not huge_integers:
        _check_integers(value, where, error)
    opened = (
        text.count(b"[") + text.count(b"{") if isinstance(text, bytes) else text.count("[") + text.count("{")
    )
    if opened > MAX_DEPTH:
        _check_depth(value, where, error)
    return value


def read_yaml(path: Path, error: Error, *, max_bytes: int = MAX_TEXT_BYTES) -> Any:
    """Return the value in a YAML file, read by the safe loader."""
    return parse_yaml(read_text(path, error, max_bytes=max_bytes), shown(path), error)


def parse_yaml(text: str, where: str, error: Error) -> Any:
    """Return the value of a YAML text; ``where`` begins the message of an error."""
    import yaml

    check_yaml(text, where, error)
    try:
        loader = _safe_loader()(text)
        try:
            node = loader.get_single_node()
            _check_keys(node, where, error)
            value = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as problem:  # ValueError: a 13th month, 5,000 digits
        raise error(f"{where} is not YAML ({' '.join(str(problem).split())}).") from problem
    _check_integers(value, where, error)
    return value


def check_yaml(text: str, where: str, error: Error) -> None:
    """Raise ``error`` for a YAML text that is malformed, nested too deep, or grows too much by its aliases."""
    import yaml

    # Nodes in each open list or mapping and its anchor; the first is the document.
    open_nodes: list[tuple[str | None, int]] = [(None, 0)]
    sizes: dict[str, int] = {}
    aliased = 0

    def add(nodes: int) -> None:
        anchor, before = open_nodes[-1]
        open_nodes[-1] = (anchor, before + nodes)

    try:
        for event in yaml.parse(text, Loader=_safe_loader()):
            if isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append((event.anchor, 1))
                if len(open_nodes) > MAX_DEPTH:
                    _too_deep(where, error)
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, nodes = open_nodes.pop()
                if anchor is not None:
                    sizes[anchor] = nodes
                add(nodes)
            elif isinstance(event, yaml.AliasEvent):
                mark: Any = event.start_mark
                line, name = mark.line + 1, str(event.anchor)
                if any(anchor == name for anchor, _ in open_nodes):
                    raise error(f"{where}, line {line}: the alias *{name} stands inside itself.")
                nodes = sizes.get(name, 1)
                aliased += nodes
                if aliased > MAX_ALIASED_NODES:
                    raise error(
                        f"{where}, line {line}: its aliases stand for more than {MAX_ALIASED_NODES} values."
                    )
                add(nodes)
            elif isinstance(event, yaml.ScalarEvent):
                add(1)
    except yaml.YAMLError as problem:
        raise error(f"{where} is not YAML ({' '.join(str(problem).split())}).") from problem


def _check_keys(node: Any, where: str, error: Error) -> None:
    """Raise ``error`` where a mapping holds a key twice: YAML would keep the last and say nothing."""
    import yaml

    waiting, seen = [node], set[int]()
    while waiting:
        found = waiting.pop()
        if id(found) in seen:  # named by several aliases
            continue
        seen.add(id(found))
        if isinstance(found, yaml.SequenceNode):
            waiting += found.value
        elif isinstance(found, yaml.MappingNode):
            lines: dict[tuple[str, str], int] = {}
            for key, value in found.value:
                waiting += [key, value]
                if not isinstance(key, yaml.ScalarNode):
                    continue
                name, line = (key.tag, key.value), key.start_mark.line + 1
                if name in lines:
                    raise error(
                        f"{where}: {shown(key.value)!r} appears twice, in lines {lines[name]} and {line}."
                    )
                lines[name] = line


def _safe_loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _walk(value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value inside a value with its path, without recursion; what several places share, once."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    seen: set[int] = set()
    while waiting:
        path, found = waiting.pop()
        yield path, found
        if isinstance(found, dict | list):
            if id(found) in seen:
                continue
            seen.add(id(found))
            items = found.items() if isinstance(found, dict) else enumerate(found)
            waiting += [((*path, str(name)[:80]), item) for name, item in items]


def _check_integers(value: Any, where: str, error: Error) -> None:
    for path, found in _walk(value):
        if isinstance(found, int) and found not in INT64:
            raise error(f"{where}: field {'.'.join(path) or '(all)'} is an integer that no 64 bits hold.")


def _check_depth(value: Any, where: str, error: Error) -> None:
    if any(len(path) >= MAX_DEPTH for path, _ in _walk(value)):
        _too_deep(where, error)


def _too_deep(where: str, error: Error) -> NoReturn:
    raise error(f"{where} is nested more than {MAX_DEPTH} deep.") from None


def kind_of_file(mode: int) -> str:
    """Return what a file's mode says it is, in words: a folder, a named pipe ..."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")

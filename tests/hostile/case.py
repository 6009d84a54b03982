"""A hostile input, the commands that meet it, and how a name becomes one."""

from __future__ import annotations

import hashlib
import os
import random
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

KEY = "sk-hostile-5e1f6b0c9d7a4832"
"""The API key in the environment of every try; it may be found nowhere afterwards."""


@dataclass
class Case:
    """One hostile input and what is run on it. All paths are inside the try's own folder.

    Attributes:
        what: What was done to a good input, for a person.
        commands: Arguments of ``stepscore``, one command after the other; ``{server}`` is the server's address, here
            and in ``env``.
        rest: The undisturbed run whose episodes must be kept with identical rows: SOURCE.JUDGE, or ``made/NAME`` of
            a good run folder; empty where the input is one whole (an option, the only file) that may be refused.
        codes: Exit codes the commands may end with.
        env: Environment variables to set; ``None`` removes one.
        stdout: Where standard output goes: ``file``, ``ascii`` (a file that takes ASCII alone), ``full`` (a full
            disk), ``closed``.
        gone: Run in a folder that does not exist any more.
        disk: Bytes of the small disk at ``here/disk``; 0 for none.
        unprivileged: Run without root's right to read what its mode forbids.
        stop_s: Seconds after which Ctrl+C is sent to the first command.
        lies: What the server of this try lies about, see ``lying_server.py``; ``None`` for no server.
        store: The folder that a store serves, and its lies, see ``LyingStore``; ``None`` for no store. ``patient``: a
            command waits for hours, not for a second.
        attack: What clients of the served page do, see ``attacks.py``; ``None`` for no clients.
        files: Most files that the served command may have open; 0 for the usual number.
        max_calls: Most attempts that ``attempts.sqlite`` may hold afterwards.
        unasked: The server may be asked nothing.
        kept: What :func:`state_of` says of files, by path, that must stay as they are.
    """

    what: str
    commands: list[list[str]]
    rest: str = ""
    codes: list[int] = field(default_factory=lambda: [0, 1, 2])
    env: dict[str, str | None] = field(default_factory=dict)
    stdout: str = "file"
    gone: bool = False
    disk: int = 0
    unprivileged: bool = False
    stop_s: float | None = None
    lies: dict[str, Any] | None = None
    store: dict[str, Any] | None = None
    attack: list[dict[str, Any]] | None = None
    files: int = 0
    max_calls: int | None = None
    unasked: bool = False
    kept: dict[str, str] = field(default_factory=dict)

    def at(self, address: str) -> Case:
        """Return it with the address of its server."""
        env = {name: value and value.replace("{server}", address) for name, value in self.env.items()}
        lines = [[word.replace("{server}", address) for word in line] for line in self.commands]
        return replace(self, commands=lines, env=env)

    def to_json(self) -> dict[str, Any]:
        """Return its fields."""
        return asdict(self)


def state_of(path: Path) -> str:
    """Return what is at a path: a link's target, the digest of a file's content, or the kind of anything else."""
    mode = path.lstat().st_mode if os.path.lexists(path) else 0
    if stat.S_ISLNK(mode):
        return f"link to {os.readlink(path)}"
    return hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else oct(stat.S_IFMT(mode))


@dataclass(frozen=True)
class Kind:
    """One kind of hostile input.

    Attributes:
        make: Makes one in a folder, from good inputs in another: ``make(rng, here, good)``.
        weight: Share of the tries.
        group: ``core``, ``extras`` (h5py, matplotlib) or ``torch``: which imports its process needs.
    """

    make: Callable[[random.Random, Path, Path], Case]
    weight: int = 10
    group: str = "core"


def make_case(kinds: Mapping[str, Kind], name: str, here: Path, good: Path) -> Case:
    """Return the try of a name ``kind/seed/number``; the same name makes the same input anywhere."""
    return kinds[name.split("/")[0]].make(random.Random(name), here, good)

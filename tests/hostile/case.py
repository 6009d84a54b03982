"""A hostile input, the commands that meet it, and how a name becomes one."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

KEY = "sk-hostile-5e1f6b0c9d7a4832"
"""The API key in the environment of every try; it may be found nowhere afterwards."""


@dataclass
class Case:
    """One hostile input and what is run on it. All paths are inside the try's own folder.

    Attributes:
        what: What was done to a good input, for a person.
        commands: Arguments of ``stepscore``, one command after the other; ``{server}`` is the server's address.
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
        max_calls: Most attempts that ``attempts.sqlite`` may hold afterwards.
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
    max_calls: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return its fields."""
        return asdict(self)


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

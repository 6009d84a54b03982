"""One Registry: names to things, loaded on first use.

Each room has one table of built-ins whose values are ``"module:attribute"`` strings, so that listing
names imports nothing. Others join by an entry point of the room's group, or in a script by decorator::

    @judge_registry.register("mine")
    class Mine: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from stepscore.errors import OptionError, UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """Names of one kind of thing and where each is found.

    Args:
        kind: What is registered, for messages: ``"judge"``.
        builtins: Name to ``"package.module:attribute"``.
        group: Entry-point group through which other packages add theirs, e.g. ``"stepscore.judges"``.
    """

    def __init__(self, kind: str, builtins: Mapping[str, str], group: str) -> None:
        self.kind = kind
        self.group = group
        self._targets: dict[str, str | T] = dict(builtins)
        self._scanned = False

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that adds a thing under ``name`` for this process; a taken name is an error."""

        def add(thing: T) -> T:
            self._scan()
            if name in self._targets:
                raise OptionError(f"A {self.kind} named {name!r} is already registered; choose another name.")
            self._targets[name] = thing
            return thing

        return add

    def names(self) -> list[str]:
        """All names, sorted; imports none of the things."""
        self._scan()
        return sorted(self._targets)

    def get(self, name: str) -> T:
        """The thing called ``name``; an unknown name answers with the closest one."""
        self._scan()
        if name not in self._targets:
            raise UnknownNameError(self.kind, name, self._targets, hint=f"Run: stepscore ls {self.kind}s")
        target = self._targets[name]
        if isinstance(target, str):
            module, _, attribute = target.partition(":")
            thing: T = getattr(import_module(module), attribute)
            self._targets[name] = target = thing
        return target

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return ((name, self.get(name)) for name in self.names())

    def _scan(self) -> None:
        if not self._scanned:
            self._scanned = True
            for point in entry_points(group=self.group):
                # A built-in keeps its name: a package cannot silently replace it.
                self._targets.setdefault(point.name, point.value)

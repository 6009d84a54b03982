"""One Registry: names of judges, models, readers and metrics, each loaded on first use.

Each package has one table of built-ins whose values are ``"module:attribute"`` strings, so that listing
names imports nothing. Others are added by an entry point of the registry's group, or in a script by decorator::

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
    """The names of one kind of object, and where each is found.

    Args:
        kind: What is registered, for messages, e.g. ``"judge"``.
        builtins: Name to ``"package.module:attribute"``.
        group: Entry-point group through which other packages add theirs, e.g. ``"stepscore.judges"``.
    """

    def __init__(self, kind: str, builtins: Mapping[str, str], group: str) -> None:
        self.kind = kind
        self.group = group
        self._targets: dict[str, str | T] = dict(builtins)
        self._scanned = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that adds an object under ``name`` for this process; a taken name is an error."""

        def add(target: T) -> T:
            self._scan()
            if name in self._targets:
                raise OptionError(f"A {self.kind} named {name!r} is already registered; choose another name.")
            self._targets[name] = target
            return target

        return add

    def replace(self, name: str, target: T) -> None:
        """Add an object under a name for this process, in the place of one that has it."""
        self._scan()
        self._targets[name] = target

    def names(self) -> list[str]:
        """Return all names, sorted; nothing is imported."""
        self._scan()
        return sorted(self._targets)

    def get(self, name: str) -> T:
        """Return the object called ``name``, imported on first use; the error for an unknown name has the closest."""
        self._scan()
        if name not in self._targets:
            raise UnknownNameError(self.kind, name, self._targets, hint=f"Run: stepscore ls {self.kind}s")
        target = self._targets[name]
        if isinstance(target, str):
            module, _, attribute = target.partition(":")
            loaded: T = getattr(import_module(module), attribute)
            self._targets[name] = target = loaded
        return target

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return ((name, self.get(name)) for name in self.names())

    def _scan(self) -> None:
        if not self._scanned:
            self._scanned = True
            for point in entry_points(group=self.group):
                # A built-in keeps its name: a package cannot silently replace it.
                self._targets.setdefault(point.name, point.value)

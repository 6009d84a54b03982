"""One Registry: names of judges, models, readers and metrics, each loaded on first use.

Each package has one table of built-ins whose values are ``"module:attribute"`` strings, so that listing
names imports nothing. Others are added by an entry point of the registry's group, or in a script by decorator::

    @judge_registry.register("mine")
    class Mine: ...

An option that names a model, a file or a server says so beside its default, by :func:`names`. Options from a file
that somebody else wrote are checked by that (``audit/board/safe_row.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, Literal, TypeVar, get_args, get_type_hints

from stepscore.errors import OptionError, UnknownNameError, exits_as_errors

T = TypeVar("T")
Named = Literal["model", "judge", "path", "server", "code", "text"]


@dataclass(frozen=True)
class Declared:
    """What an option names.

    Attributes:
        what: ``model`` (a model string), ``judge`` (``JUDGE@MODEL``), ``path`` (a file, folder, source or hub id),
            ``server`` (a URL), ``code`` (which is run) or ``text`` (none of these); ``None`` if it does not say.
        allowed: Values that name nothing of the kind, the default among them.
    """

    what: Named | None = None
    allowed: tuple[object, ...] = ()


def names(what: Named, *allowed: object) -> Mapping[str, Declared]:
    """Return the metadata of a dataclass field that declares what the option names.

    ``demo: str | None = field(default=None, metadata=names("path"))``

    Args:
        what: See :class:`Declared`.
        allowed: Values that name nothing of the kind: those of templates in the package, where a path is another one.
    """
    return {_KEY: Declared(what, allowed)}


_KEY = "stepscore.names"


def declared_options(make: Callable[..., object]) -> dict[str, Declared]:
    """Return what each option of a dataclass names; options of anything else declare nothing.

    The values of a ``Literal`` are allowed, and so is every default.
    """
    if not is_dataclass(make):
        return {}
    try:
        hints = get_type_hints(make)
    except Exception:  # annotations of a third party may not resolve
        hints = {}
    found = {}
    for one in fields(make):
        stated: Declared = one.metadata.get(_KEY, Declared())
        default = () if one.default is MISSING else (one.default,)
        found[one.name] = Declared(stated.what, (*stated.allowed, *default, *_literals(hints.get(one.name))))
    return found


def _literals(hint: object) -> tuple[object, ...]:
    """Return the values of a ``Literal``, also of one in a union."""
    if getattr(hint, "__origin__", None) is Literal:
        return get_args(hint)
    return tuple(value for part in get_args(hint) for value in _literals(part) if isinstance(value, str))


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
        self._builtins = set(builtins)
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
        self._builtins.discard(name)

    def is_builtin(self, name: str) -> bool:
        """Return whether a name is of this package, and not of another package, a script or a file of the user's."""
        return name in self._builtins

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
            with exits_as_errors():
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

"""What an untrusted row may run: no model, file, server or code that the user did not name.

Options declare what they name (``stepscore.registry.names``). An option without a declaration, as in other
packages, may not have a value that could name a model or a file.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepscore._untrusted import shown
from stepscore.audit.board.entry import Entry
from stepscore.audit.board.row import BoardRow
from stepscore.errors import OptionError
from stepscore.judges import judge_registry
from stepscore.models import model_registry
from stepscore.registry import declared_options

REFUSED_OPTIONS = ("base_url", "api_key", "headers", "trust_remote_code")
"""Model options that no row may set: they decide where a key is sent and whose code runs."""
SAFE_MODEL = "embedded"
"""The model that needs no permission: it is in the package and free."""
_WORDS = {
    "model": "names a model",
    "judge": "names a judge or its model",
    "path": "names a file or a source",
    "server": "names a server",
    "code": "is run",
    None: "could name a model or a file",
}


def safe_entry(row: BoardRow, models: Mapping[str, Mapping[str, Any]], judges: Sequence[Entry] = ()) -> Entry:
    """Return the entry that a row measured, if it may run.

    Args:
        models: Models that the user names, with the user's options.
        judges: Judges that the user names; a row may set their options to the same values.

    Raises:
        OptionError: The row names an unknown judge, a judge of another package, a model or a file that the
            user does not
        name, or an option that no row may set. The message has the option that allows it.
    """
    if row.judge not in judge_registry.names():
        raise OptionError(
            f"Row {shown(row.label)} names the judge {shown(row.judge)!r}, which is not installed."
        )
    user = _User(models, judges)
    if not user.trusts(row.judge):
        raise OptionError(
            f"Row {shown(row.label)} names the judge {shown(row.judge)!r}, which is not part of StepScore. To run "
            f"it, name it too: --judges {_quoted(row.judge)}"
        )
    if row.model is not None and not user.allows_model(row.model):
        raise OptionError(
            f"Row {shown(row.label)} uses the model {shown(row.model)}. To allow it, name it too: "
            f"--models {_quoted(row.model)}"
        )
    own = models.get(row.model or "", {})
    backend = (row.model or "").partition("/")[0]
    if refused := sorted(set(row.model_options) & set(REFUSED_OPTIONS) - set(own)):
        raise OptionError(f"Row {shown(row.label)} sets the model's {refused[0]}, which rows must not set.")
    brought = {key: value for key, value in row.model_options.items() if key not in own}
    make = model_registry.get(backend) if backend in model_registry.names() else None
    for key, value, why in user.refused(make, brought, {}):
        given = Entry("x", row.model, {}, {key: value}).words()[2:]
        raise OptionError(_message(row, f"the model's {key}", value, why, given))
    named = [one.options for one in judges if one.judge == row.judge]
    for key, value, why in user.refused(judge_registry.get(row.judge), row.options, named):
        asks = [] if row.model is None else ["--models", row.model]
        given = [*Entry(row.judge, None, {key: value}).words(), *asks]
        if isinstance(value, str) and why in (_WORDS["model"], _WORDS["judge"]):
            judge, _, model = value.rpartition("@")
            given = ["--models", model] if model and (not judge or user.trusts(judge)) else given
        raise OptionError(_message(row, f"the judge's {key}", value, why, given))
    return Entry(row.judge, row.model, row.options, {**row.model_options, **own}, row.label)


def _message(row: BoardRow, option: str, value: object, why: str, given: Sequence[str]) -> str:
    words = " ".join(_quoted(word) for word in given)
    return (
        f"Row {shown(row.label)} sets {shown(option)} to {shown(repr(value))}, which {why}. To allow this value, "
        f"name it too: {words}"
    )


def _quoted(text: str) -> str:
    return shlex.quote(shown(text))


@dataclass(frozen=True)
class _User:
    """What the user names: models with their options, and judges with theirs."""

    models: Mapping[str, Mapping[str, Any]]
    judges: Sequence[Entry]

    def trusts(self, judge: str) -> bool:
        return judge_registry.is_builtin(judge) or any(one.judge == judge for one in self.judges)

    def allows_model(self, model: str) -> bool:
        return model == SAFE_MODEL or model in self.models

    def refused(
        self,
        make: Callable[..., object] | None,
        given: Mapping[str, Any],
        named: Iterable[Mapping[str, Any]],
    ) -> Iterator[tuple[str, object, str]]:
        """Yield each option with a forbidden value, and why; ``named`` are options that the user names."""
        declared = {} if make is None else declared_options(make)
        for option, value in given.items():
            if any(option in mine and _same(mine[option], value) for mine in named):
                continue
            stated = declared.get(option)
            if stated is not None and any(_same(value, one) for one in stated.allowed):
                continue
            what = None if stated is None else stated.what
            safe = {
                None: lambda value: not _may_name(value),
                "text": lambda value: True,
                "model": lambda value: isinstance(value, str) and self.allows_model(value),
                "judge": self._allows_judge,
            }.get(what, lambda value: False)
            if not safe(value):
                yield option, value, _WORDS[what]

    def _allows_judge(self, value: object) -> bool:
        """Return whether ``JUDGE@MODEL`` may be asked."""
        if not isinstance(value, str):
            return False
        judge, at, model = value.partition("@")
        return self.trusts(judge) and (not at or self.allows_model(model))


def _same(one: object, other: object) -> bool:
    """Compare values with their types: true is not 1."""
    return type(one) is type(other) and one == other


def _may_name(value: object) -> bool:
    """Return whether a value, or one inside it, could name a model or a file.

    Path-like values are not looked up: on some systems that contacts another machine.
    """
    if isinstance(value, Mapping):
        return any(_may_name(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple):
        return any(_may_name(part) for part in value)
    if not isinstance(value, str):
        return False
    if not value.strip() or any(sign in value for sign in "/\\:~@\0"):
        return True
    try:
        return (value != SAFE_MODEL and value in model_registry.names()) or os.path.lexists(value)
    except (OSError, ValueError):
        return True

"""Values under stable names: as they enter the key of a call, and as an answer is stored.

Every such type has a tag, and its fields their names, so that renaming a class or moving a module changes no
key: a cached answer is paid for once. A field that came later is left out where it has the value by which it changes
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, cast

import numpy as np


@dataclass(frozen=True, eq=False)
class Tagged:
    """A dataclass that has a stable form as JSON.

    Attributes:
        tag: Its stable name.
        later: Fields that came later, and the value with which each is left out.
    """

    __slots__ = ()
    tag: ClassVar[str]
    later: ClassVar[Mapping[str, object]] = {}

    def plain_fields(self) -> dict[str, Any]:
        """Return its fields as JSON values."""
        values = ((name, getattr(self, name)) for name in _names(cast(Hashable, type(self))))
        return {name: plain(v) for name, v in values if name not in self.later or v != self.later[name]}

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"is": self.tag, **self.plain_fields()}


@cache
def _names(kind: Hashable) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cast(type[Tagged], kind)))


def plain(value: object) -> Any:
    """Return a value as JSON can hold it: NaN as null, an infinity as its name, a tagged type as a mapping."""
    if isinstance(value, Tagged):
        return value.plain()
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value

"""Numbers, strings, estimates and ranks as the page holds them."""

from __future__ import annotations

from typing import Literal, NamedTuple, NotRequired, TypeAlias

from typing_extensions import TypedDict

Encoding: TypeAlias = Literal["f64", "u8", "u16", "u32"]


class Packed(TypedDict):
    """Numbers as little-endian base64.

    - "f64": the values, NaN for unknown.
    - "u8" | "u16" | "u32": unsigned integers q. The largest one of the type (255, 65535, 4294967295) is NaN, any
      other is `offset + q / scale` (one division, one addition, in that order).

    Progress has offset 0 and scale 40000 (u16) or 4e9 (u32): exact for every value of up to 4 or 9 decimals, within
    1.3e-10 otherwise. Other channels but `done_channel` are u16 over their own range: for drawing, not for measuring.
    """

    enc: Encoding
    b64: str
    scale: NotRequired[float]
    """1 if absent."""
    offset: NotRequired[float]
    """0 if absent."""


class Dict(TypedDict):
    """A column of few distinct strings: `values[codes[i]]`, null where codes[i] is -1."""

    values: list[str]
    codes: list[int]


class Est(NamedTuple):
    """An Estimate as in `metrics --json`.

    `method` is an index into PageData.methods ("wilson 95%", "too few episodes (3 < 5)"). `lo` and `hi` are null
    where there is no interval.
    """

    value: float | None
    lo: float | None
    hi: float | None
    n: int
    clusters: int
    coverage: float | None
    method: int


class Places(NamedTuple):
    """The best and the worst place that a group may have in its table.

    1 + the groups whose whole interval is better .. the groups that are not wholly worse. [1, 1] is a clear first;
    [1, 3] is tied with others for 1st to 3rd place ("=1"). A group without an interval is separated from none.
    """

    best: int
    worst: int


Rank: TypeAlias = Places | None
"""Groups without a value have no rank (null)."""

"""One shard of a run: which of the episodes are its own, and its share of the budget."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from stepscore.episodes import Episode, Episodes
from stepscore.errors import OptionError
from stepscore.models import Model, batch_size
from stepscore.models.calls import Budget, CallOptions

MAX_SHARDS = 100_000
"""Most shards of a run."""

_NUMBERS = re.compile(r"(?P<index>[0-9]{1,9}|slurm)/(?P<count>[0-9]{1,9})")
_BILLIONTHS = 10**9
FORMS = "Give I/N, from 1/N to N/N; slurm; or slurm/N."


class Span(NamedTuple):
    """Numbers of the episodes of a shard, in the order of their ids: from ``start`` to before ``stop``."""

    start: int
    stop: int


@dataclass(frozen=True)
class Shard:
    """Shard ``index`` of ``count``, counted from 1."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count <= MAX_SHARDS:
            raise OptionError(
                f"shard (--shard) is {self.index}/{self.count}; shards are counted from 1/{max(self.count, 1)}, and "
                f"there are at most {MAX_SHARDS}. {FORMS}"
            )

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def folder(self, run: Path) -> Path:
        """Return its folder inside a run folder, ``shards/0003-of-0050``."""
        return run / "shards" / f"{self.index:04d}-of-{self.count:04d}"

    def span(self, total: int, batch: int = 1) -> Span:
        """Return which of ``total`` episodes are its own.

        Shards are runs of whole batches of ``batch`` episodes, as even as whole batches can be, so that a model that
        answers several episodes in one pass meets the same ones together as in an undivided run.
        """
        batches = -(-total // batch)
        first, last = batches * (self.index - 1) // self.count, batches * self.index // self.count
        return Span(first * batch, min(last * batch, total))

    def share(self, budget: Budget, span: Span, total: int) -> Budget:
        """Return its share of a budget, in proportion to its episodes; the shares of all shards sum to the whole."""
        calls, cost = budget.max_calls, budget.max_cost
        billionths = None if cost is None else _part(round(cost * _BILLIONTHS), span, total)
        return Budget(
            None if calls is None else _part(calls, span, total),
            None if billionths is None else billionths / _BILLIONTHS,
        )


def parse_shard(text: str, environment: Mapping[str, str] | None = None) -> Shard:
    """Return the shard that a text names.

    Args:
        text: ``3/50``, counted from 1; ``slurm``, the task of a SLURM array, which is counted from the array's first;
            or ``slurm/50``, where the task's own number is that of the shard, so that one may be run again alone.
        environment: Where SLURM's variables are; by default the process's.
    """
    found = _NUMBERS.fullmatch(text.strip())
    if text.strip() == "slurm":
        return _slurm_shard(os.environ if environment is None else environment)
    if found is None:
        raise OptionError(f"--shard {text[:100]!r} is not a shard. {FORMS}")
    if found["index"] == "slurm":
        variables = os.environ if environment is None else environment
        return Shard(_slurm_number(variables, "SLURM_ARRAY_TASK_ID"), int(found["count"]))
    return Shard(int(found["index"]), int(found["count"]))


def _slurm_shard(variables: Mapping[str, str]) -> Shard:
    """Return the shard of a task, the array's first being shard 1 whatever its number."""
    number, count, first = (
        _slurm_number(variables, f"SLURM_ARRAY_TASK_{name}") for name in ("ID", "COUNT", "MIN")
    )
    step = _slurm_number({"SLURM_ARRAY_TASK_STEP": "1", **variables}, "SLURM_ARRAY_TASK_STEP")
    index, rest = divmod(number - first, max(step, 1))
    if rest or not 0 <= index < count:
        raise OptionError(
            f"--shard slurm: task {number} of an array of {count} that begins at {first} is not one of {count} "
            "tasks in a row. Give --array=1-N, or name the shard: --shard I/N"
        )
    return Shard(index + 1, count)


def _slurm_number(variables: Mapping[str, str], name: str) -> int:
    value = variables.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise OptionError(
            f"--shard slurm needs {name}, which is {f'{value[:50]!r}' if value else 'not set'}: it is set in a job "
            "of `sbatch --array=1-N`. Elsewhere name the shard: --shard I/N"
        )
    return int(value)


def _part(whole: int, span: Span, total: int) -> int:
    return whole * span.stop // total - whole * span.start // total if total else 0


class Cut(NamedTuple):
    """A shard's own episodes, and what tells whether others were cut from the same ones.

    Attributes:
        episodes: Its episodes.
        span: Their numbers among all.
        total: How many episodes all shards have.
        batch: Episodes that are never divided.
        digest: Hash of all ids.
    """

    episodes: Episodes | Sequence[Episode]
    span: Span
    total: int
    batch: int
    digest: str


def cut(episodes: Episodes | Sequence[Episode], shard: Shard, models: Iterable[Model] = ()) -> Cut:
    """Return the episodes of a shard: whole batches of the models that are asked, cut from all ids in their order."""
    ids = episodes.ids() if isinstance(episodes, Episodes) else [episode.id for episode in episodes]
    in_order = sorted(ids)
    batch = batch_size(models)
    span = shard.span(len(ids), batch)
    own: Episodes | Sequence[Episode]
    if in_order == ids:
        own = episodes[span.start : span.stop]
    elif isinstance(episodes, Episodes):
        own = episodes.select(in_order[span.start : span.stop])
    else:
        chosen = set(in_order[span.start : span.stop])
        own = [episode for episode in episodes if episode.id in chosen]  # an audit has reasons for its order
    digest = hashlib.sha256("\n".join(in_order).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return Cut(own, span, len(ids), batch, digest)


def share_of(options: CallOptions, shard: Shard, part: Cut) -> CallOptions:
    """Return call options with the shard's share of their budget."""
    return replace(options, budget=shard.share(options.budget, part.span, part.total))

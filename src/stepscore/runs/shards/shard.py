"""One shard of a run: its episodes, and its share of the budget."""

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
FORMS = "Use I/N (1/N to N/N), slurm, or slurm/N."


class Span(NamedTuple):
    """Numbers of a shard's episodes in the order of all ids: from ``start`` to before ``stop``."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """Number of episodes."""
        return self.stop - self.start


@dataclass(frozen=True)
class Shard:
    """Shard ``index`` of ``count``, counted from 1."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count <= MAX_SHARDS:
            raise OptionError(
                f"shard (--shard) must be from 1/{max(self.count, 1)}, with at most {MAX_SHARDS} shards, got "
                f"{self.index}/{self.count}. {FORMS}"
            )

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def folder(self, run: Path) -> Path:
        """Return its folder inside a run folder, ``shards/0003-of-0050``."""
        return run / "shards" / f"{self.index:04d}-of-{self.count:04d}"

    def span(self, total: int, batch: int = 1) -> Span:
        """Return its share of ``total`` episodes, in whole batches: a pass holds the same ones as without shards."""
        batches = -(-total // batch)
        first, last = batches * (self.index - 1) // self.count, batches * self.index // self.count
        return Span(first * batch, min(last * batch, total))

    def share(self, budget: Budget, span: Span, total: int) -> Budget:
        """Return its share of a budget by its episodes; the shares of all shards add up to the budget."""
        calls, cost = budget.max_calls, budget.max_cost
        billionths = None if cost is None else _part(round(cost * _BILLIONTHS), span, total)
        return Budget(
            None if calls is None else _part(calls, span, total),
            None if billionths is None else billionths / _BILLIONTHS,
        )


def parse_shard(text: str, environment: Mapping[str, str] | None = None) -> Shard:
    """Return the shard that a text names.

    Args:
        text: ``3/50``, counted from 1; ``slurm``, where the first task of a SLURM array is shard 1; or ``slurm/50``,
            where the task's number is that of the shard, so that a single one can be rerun.
        environment: SLURM's variables; by default those of this process.
    """
    variables = os.environ if environment is None else environment
    found = _NUMBERS.fullmatch(text.strip())
    if text.strip() == "slurm":
        return _slurm_shard(variables)
    if found is None:
        raise OptionError(f"Invalid --shard {text[:100]!r}. {FORMS}")
    if found["index"] == "slurm":
        return Shard(_slurm_number(variables, "SLURM_ARRAY_TASK_ID"), int(found["count"]))
    return Shard(int(found["index"]), int(found["count"]))


def _slurm_shard(variables: Mapping[str, str]) -> Shard:
    """Return the shard of a task; the first task of the array is shard 1, whatever its number."""
    number, count, first = (
        _slurm_number(variables, f"SLURM_ARRAY_TASK_{name}") for name in ("ID", "COUNT", "MIN")
    )
    step = _slurm_number({"SLURM_ARRAY_TASK_STEP": "1", **variables}, "SLURM_ARRAY_TASK_STEP")
    index, rest = divmod(number - first, max(step, 1))
    if rest or not 0 <= index < count:
        raise OptionError(
            f"--shard slurm: task {number} of an array of {count} from {first} is not one of {count} evenly spaced "
            "tasks. Use --array=1-N, or name the shard: --shard I/N"
        )
    return Shard(index + 1, count)


def _slurm_number(variables: Mapping[str, str], name: str) -> int:
    value = variables.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise OptionError(
            f"--shard slurm needs {name}, which is {f'{value[:50]!r}' if value else 'not set'}. Run it in a job of "
            "`sbatch --array=1-N`, or name the shard: --shard I/N"
        )
    return int(value)


def _part(whole: int, span: Span, total: int) -> int:
    return whole * span.stop // total - whole * span.start // total if total else 0


class Cut(NamedTuple):
    """A shard's episodes, their numbers among all, and the total, batch size and hash of all ids it was cut from."""

    episodes: Episodes | Sequence[Episode]
    span: Span
    total: int
    batch: int
    digest: str


def cut(episodes: Episodes | Sequence[Episode], shard: Shard, models: Iterable[Model] = ()) -> Cut:
    """Return the episodes of a shard: whole batches of the models, cut from the sorted ids."""
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
        own = [episode for episode in episodes if episode.id in chosen]  # keeps the order of an audit
    digest = hashlib.sha256("\n".join(in_order).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return Cut(own, span, len(ids), batch, digest)


def share_of(options: CallOptions, shard: Shard, part: Cut) -> CallOptions:
    """Return call options with the shard's share of their budget."""
    return replace(options, budget=shard.share(options.budget, part.span, part.total))

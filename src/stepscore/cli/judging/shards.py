"""What commands that judge one shard of the episodes print of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscore.cli.tables import err

if TYPE_CHECKING:
    from stepscore.runs import CallOptions, Cut, Shard


def print_shard(part: Cut, shard: Shard, call_options: CallOptions, what: str = "episodes") -> None:
    """Print how many episodes a shard has, and its share of the budget."""
    from stepscore.runs import share_of

    whole, share = call_options.budget, share_of(call_options, shard, part).budget
    limits = [f"{share.max_calls} of {whole.max_calls} calls"] if whole.max_calls is not None else []
    limits += [f"{share.max_cost:.6g} of {whole.max_cost:.6g} in money"] if whole.max_cost is not None else []
    budget = f"; its share of the budget: {', '.join(limits)}" if limits else ""
    err().print(f"Shard {shard}: {len(part.episodes)} of {part.total} {what}{budget}", soft_wrap=True)

"""The lines of ``stepscore judge`` about calls, tokens, latency and cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepscore.cli.tables import err, percent

if TYPE_CHECKING:
    from stepscore.runs import Run


def print_usage(run: Run) -> None:
    """Print the calls of the run's episodes, and attempts and cost of all starts and of this one."""
    import numpy as np

    rows = run.usage().to_pylist()
    calls = sum(row["calls"] or 0 for row in rows)
    spent = run.info.get("spent", {})
    now, total = spent.get("this_start"), spent.get("total")
    if not calls and not (total and total["attempts"]):
        return
    cached, images = (sum(row[name] or 0 for row in rows) for name in ("cached", "images"))
    read, written = (sum(row[name] or 0 for row in rows) for name in ("tokens_in", "tokens_out"))
    latencies = np.array([seconds for row in rows for seconds in row["latencies_s"]])
    latency = (
        f"p50 {np.quantile(latencies, 0.5):.2f} s, p95 {np.quantile(latencies, 0.95):.2f} s"
        if len(latencies)
        else "unknown (none was answered now)"
        if cached < calls
        else "unknown (all were in the cache)"
    )
    uncounted = run.calls().column("tokens_in").null_count
    unknown = f" (not counted: {counted(uncounted, 'call')})" if uncounted else ""
    err().print(
        f"{counted(calls, 'call')} ({cached} from the cache), {counted(images, 'image')}, "
        f"{read} tokens in, {written} out{unknown}; latency {latency}"
    )
    if now is not None and total is not None:
        if now != total:
            err().print(f"This start: {spent_text(now)}")
        err().print(f"{'All starts of the run' if now != total else 'Sent'}: {spent_text(total)}")
    if saved := run.info.get("prefix_cache"):
        print_prefix_cache(saved)


def print_prefix_cache(saved: Mapping[str, Any]) -> None:
    """Print the share of prompt tokens in the server's prefix cache, if any were looked up."""
    if looked_up := saved["looked_up"]:
        share = percent(saved["found"] / looked_up)
        err().print(
            f"Prefix cache of the server: {saved['found']} of {looked_up} prompt tokens found ({share} %), "
            "of all requests to it meanwhile"
        )


def spent_text(spent: Mapping[str, Any]) -> str:
    """Return attempts and cost for display: ``3 attempts (1 lost), cost at most 0.0400``."""
    states = [f"{spent[state]} {state}" for state in ("answered", "refused", "lost") if spent[state]]
    bound = "" if spent["exact"] else "at most "
    cost = "unknown" if spent["cost"] is None else f"{bound}{spent['cost']:.4f}"
    listed = f" ({', '.join(states)})" if states else ""
    return f"{counted(spent['attempts'], 'attempt')}{listed}, cost {cost}"


def counted(number: int, noun: str) -> str:
    """Return ``1 call`` or ``2 calls``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"

"""The prefix cache of a server: how many prompt tokens it did not have to compute.

vLLM and SGLang publish the counters in ``/metrics``, in the text format of Prometheus. They cover all requests to the
server, whoever sent them, and start at 0 with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from stepscore.models.base import Model
from stepscore.models.blocking import run_blocking

LOOKED_UP, FOUND = 0, 1
COUNTERS = {
    "vllm:prefix_cache_queries_total": LOOKED_UP,
    "vllm:prefix_cache_hits_total": FOUND,
    "sglang:prompt_tokens_total": LOOKED_UP,
    "sglang:cached_tokens_total": FOUND,
}
MAX_COUNT = 10**15
_LINE = re.compile(
    r"^([a-z_:]{1,60})(?:\{([^}\n]{0,1000})\})? (\d{1,16}(?:\.\d+)?(?:e\+?\d{1,2})?)$", re.MULTILINE
)
_MODEL = re.compile(r'(?:^|,)model_name="([^"]*)"')


@dataclass(frozen=True, slots=True)
class PrefixCacheCounts:
    """Prompt tokens that were looked up in the cache, and found there."""

    looked_up: int
    found: int

    def since(self, before: PrefixCacheCounts) -> PrefixCacheCounts:
        """Return the counts since an earlier reading, or since the server was restarted."""
        if self.looked_up < before.looked_up or self.found < before.found:
            return self
        return PrefixCacheCounts(self.looked_up - before.looked_up, self.found - before.found)


def read_prefix_cache(text: str, model: str) -> PrefixCacheCounts | None:
    """Return the counts of a model in a server's metrics; ``None`` if they are missing or impossible."""
    counts, seen = [0.0, 0.0], set()
    for name, labels, value in _LINE.findall(text):
        stated = _MODEL.search(labels)
        if name in COUNTERS and (stated is None or stated[1] == model):
            counts[COUNTERS[name]] += float(value)
            seen.add(COUNTERS[name])
    looked_up, found = counts
    if seen != {LOOKED_UP, FOUND} or not found <= looked_up <= MAX_COUNT:
        return None
    return PrefixCacheCounts(int(looked_up), int(found))


@runtime_checkable
class CachingServer(Protocol):
    """A model whose server counts prefix cache hits."""

    async def prefix_cache(self) -> PrefixCacheCounts | None:
        """Return the counts so far; ``None`` if they are unknown."""


class PrefixCacheUse:
    """The use of servers' prefix caches from now on."""

    def __init__(self, models: Iterable[Model]) -> None:
        self._servers = [model for model in models if isinstance(model, CachingServer)]
        self._before = [run_blocking(server.prefix_cache()) for server in self._servers]

    def so_far(self) -> PrefixCacheCounts | None:
        """Return the counts of all servers so far; ``None`` if one of them is unknown."""
        after = [run_blocking(server.prefix_cache()) for server in self._servers]
        known = [now.since(at) for now, at in zip(after, self._before, strict=True) if now and at]
        if not known or len(known) < len(after):
            return None
        return PrefixCacheCounts(sum(use.looked_up for use in known), sum(use.found for use in known))

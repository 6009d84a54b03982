"""The prefix cache of a server: how many tokens of the prompts it did not have to compute.

vLLM and SGLang keep what they computed of a prompt's beginning. Their counters are in ``/metrics``, in the text
format of Prometheus; they are of all requests to the server, whoever sent them, and begin at 0 when it starts.
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
    """Tokens of prompts: those looked up in the cache, and those found there."""

    looked_up: int
    found: int

    def since(self, before: PrefixCacheCounts) -> PrefixCacheCounts:
        """Return the counts since an earlier reading; since its start where the server was started again."""
        if self.looked_up < before.looked_up or self.found < before.found:
            return self
        return PrefixCacheCounts(self.looked_up - before.looked_up, self.found - before.found)


def read_prefix_cache(text: str, model: str) -> PrefixCacheCounts | None:
    """Return the counts of a model in a server's metrics; ``None`` where they hold none, or impossible ones."""
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
    """A model behind a server that counts what its prefix cache saves."""

    async def prefix_cache(self) -> PrefixCacheCounts | None:
        """Return the counts so far; ``None`` where they are not known."""


class PrefixCacheUse:
    """What the prefix caches of servers saved from now on.

    Args:
        models: The models of a run; those in this process count nothing.
    """

    def __init__(self, models: Iterable[Model]) -> None:
        self._servers = [model for model in models if isinstance(model, CachingServer)]
        self._before = [run_blocking(server.prefix_cache()) for server in self._servers]

    def so_far(self) -> PrefixCacheCounts | None:
        """Return the counts since this was made, all servers together; ``None`` where one does not say."""
        after = [run_blocking(server.prefix_cache()) for server in self._servers]
        known = [now.since(at) for now, at in zip(after, self._before, strict=True) if now and at]
        if not known or len(known) < len(after):
            return None
        return PrefixCacheCounts(sum(use.looked_up for use in known), sum(use.found for use in known))

from __future__ import annotations

import asyncio

import pytest

from stepscore.models.base import Model
from stepscore.models.calls.prefix_cache import PrefixCacheCounts, PrefixCacheUse, read_prefix_cache
from stepscore.models.mock import MockModel

VLLM = """# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="a"} 9039.0
vllm:prefix_cache_queries_total{engine="1",model_name="a"} 1.0e+03
vllm:prefix_cache_queries_total{engine="0",model_name="b"} 5.0
vllm:prefix_cache_queries_created{engine="0",model_name="a"} 1.7949353707535708e+09
vllm:prefix_cache_hits_total{engine="0",model_name="a"} 7040.0
vllm:prefix_cache_hits_total{engine="0",model_name="b"} 2.0
"""
SGLANG = """sglang:prompt_tokens_total{model_name="a"} 10
sglang:cached_tokens_total{cache_source="device",model_name="a"} 3
sglang:cached_tokens_total{cache_source="host",model_name="a"} 1
"""


def test_counters_of_a_model_are_added_up_over_engines() -> None:
    assert read_prefix_cache(VLLM, "a") == PrefixCacheCounts(10039, 7040)
    assert read_prefix_cache(VLLM, "b") == PrefixCacheCounts(5, 2)
    assert read_prefix_cache(SGLANG, "a") == PrefixCacheCounts(10, 4)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not found",
        VLLM.replace("hits", "misses"),
        VLLM.replace("7040.0", "70400.0"),
        VLLM.replace("7040.0", "-1"),
        VLLM.replace("7040.0", "NaN"),
        VLLM.replace("9039.0", "9e99"),
        "vllm:prefix_cache_hits_total" * 100_000,
    ],
)
def test_what_is_missing_or_impossible_is_unknown(text: str) -> None:
    assert read_prefix_cache(text, "a") is None


def test_a_server_that_was_started_again_counts_from_its_start() -> None:
    assert PrefixCacheCounts(50, 30).since(PrefixCacheCounts(20, 10)) == PrefixCacheCounts(30, 20)
    assert PrefixCacheCounts(15, 3).since(PrefixCacheCounts(20, 10)) == PrefixCacheCounts(15, 3)


class Served(MockModel):
    """A model whose server counts what it is told."""

    def __init__(self, *counts: PrefixCacheCounts | None) -> None:
        super().__init__("x")
        self._counts = iter(counts)

    async def prefix_cache(self) -> PrefixCacheCounts | None:
        await asyncio.sleep(0)
        return next(self._counts)


A, B = PrefixCacheCounts(1, 1), PrefixCacheCounts(5, 3)


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ([], None),
        ([MockModel("x")], None),
        ([Served(A, B)], PrefixCacheCounts(4, 2)),
        ([Served(None, B)], None),
        ([Served(A, None)], None),
        ([Served(A, B), MockModel("x"), Served(A, PrefixCacheCounts(9, 1))], PrefixCacheCounts(12, 2)),
    ],
)
def test_only_what_happened_meanwhile_counts(models: list[Model], expected: PrefixCacheCounts | None) -> None:
    assert PrefixCacheUse(models).so_far() == expected

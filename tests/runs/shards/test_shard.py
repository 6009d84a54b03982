"""Shards are whole batches of the sorted ids, and their budgets sum to the whole."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from stepscore.errors import OptionError
from stepscore.models import Request, Response
from stepscore.models.calls import Budget
from stepscore.models.mock import MockModel
from stepscore.runs import Shard, cut, parse_shard
from tests.fakes import episode


@dataclass
class Batched(MockModel):
    """A model that answers several videos in one pass."""

    batch: int = 1

    def is_batchable(self, request: Request) -> bool:
        return True

    async def answer_batch(self, requests: Sequence[Request]) -> Sequence[Response | Exception]:
        return [await self.answer(request) for request in requests]


@pytest.mark.parametrize(
    ("total", "count", "batch"), list(itertools.product([0, 1, 7, 40, 401], [1, 3, 8, 50], [1, 4, 7]))
)
def test_every_episode_is_in_one_shard_and_no_batch_is_divided(total: int, count: int, batch: int) -> None:
    spans = [Shard(index, count).span(total, batch) for index in range(1, count + 1)]
    assert [number for span in spans for number in range(*span)] == list(range(total))
    assert all(span.start % batch == 0 for span in spans if span.start < span.stop)
    batches = [-(-(span.stop - span.start) // batch) for span in spans]
    assert max(batches) - min(batches) <= 1


def test_shards_are_cut_from_the_sorted_ids_whatever_the_order_and_keep_it() -> None:
    episodes = [episode(f"e{number:02d}") for number in range(10)]
    backwards = cut(episodes[::-1], Shard(2, 3))
    assert [each.id for each in backwards.episodes] == ["e05", "e04", "e03"]
    assert backwards.digest == cut(episodes, Shard(1, 3)).digest != cut(episodes[1:], Shard(1, 3)).digest


def test_the_batch_of_the_models_is_never_divided() -> None:
    episodes = [episode(f"e{number:02d}") for number in range(10)]
    parts = [cut(episodes, Shard(index, 2), [Batched(batch=4)]) for index in (1, 2)]
    assert [len(part.episodes) for part in parts] == [4, 6]


@pytest.mark.parametrize("calls", [0, 1, 7, 1000])
@pytest.mark.parametrize(("total", "count"), [(400, 50), (7, 50), (401, 8), (1, 1), (0, 3)])
def test_the_shares_of_a_budget_sum_to_the_whole(calls: int, total: int, count: int) -> None:
    shards = [Shard(index, count) for index in range(1, count + 1)]
    shares = [shard.share(Budget(calls, 12.3456789), shard.span(total), total) for shard in shards]
    assert sum(share.max_calls or 0 for share in shares) == (calls if total else 0)
    billionths = [round((share.max_cost or 0.0) * 10**9) for share in shares]
    assert sum(billionths) == (12_345_678_900 if total else 0)
    assert Shard(1, 2).share(Budget(), Shard(1, 2).span(5), 5) == Budget()


def test_a_shard_is_named_from_one_on() -> None:
    assert parse_shard("3/50") == Shard(3, 50)
    assert str(Shard(3, 50)) == "3/50"
    for wrong in ("0/50", "51/50", "3", "3/0", "-1/4", "a/b", "1/1000000000", "", "9" * 500):
        with pytest.raises(OptionError, match="--shard"):
            parse_shard(wrong)


def slurm(**values: int) -> dict[str, str]:
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in values.items()}


def test_a_slurm_array_is_counted_from_its_first_task() -> None:
    assert parse_shard("slurm", slurm(ID=3, COUNT=50, MIN=1)) == Shard(3, 50)
    assert parse_shard("slurm", slurm(ID=0, COUNT=50, MIN=0)) == Shard(1, 50)
    assert parse_shard("slurm", slurm(ID=14, COUNT=4, MIN=8, STEP=2)) == Shard(4, 4)


def test_one_task_of_a_slurm_array_is_run_again_by_its_number() -> None:
    again = slurm(ID=7, COUNT=1, MIN=7)
    assert parse_shard("slurm/50", again) == Shard(7, 50)
    assert parse_shard("slurm", again) == Shard(1, 1)  # which a folder of 50 shards refuses


def test_what_slurm_does_not_say_is_not_guessed() -> None:
    with pytest.raises(OptionError, match="SLURM_ARRAY_TASK_ID, which is not set"):
        parse_shard("slurm", {})
    with pytest.raises(OptionError, match="SLURM_ARRAY_TASK_ID, which is 'x'"):
        parse_shard("slurm/4", {"SLURM_ARRAY_TASK_ID": "x"})
    with pytest.raises(OptionError, match="not one of 3 evenly spaced"):
        parse_shard("slurm", slurm(ID=9, COUNT=3, MIN=1))

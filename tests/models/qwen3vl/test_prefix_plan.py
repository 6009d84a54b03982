"""The plan holds every prompt it stands for, token for token, with nothing else in sight. No weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.errors import ModelError, OptionError
from stepscore.models.qwen3vl.inputs import VisionTokens
from stepscore.models.qwen3vl.prefix_batches import PassCost, chunks, suffixes_of
from stepscore.models.qwen3vl.prefix_plan import PrefixPlan, PromptLayout, plan_shared_prefixes, target_ids
from stepscore.types import FloatArray
from tests.models import tiny

MADE = tiny.tokenizer()
TOKENS = tiny.vision_tokens(MADE)
GRID = (2, 3)
ALL = PassCost(row=0, pair=0, rows=10**9)


def encode(text: str) -> list[int]:
    ids: list[int] = MADE.encode(text).ids
    return ids


def layout(head: str = tiny.HEAD) -> PromptLayout:
    return PromptLayout(encode, TOKENS, GRID, 2, head)


def whole_text(times: FloatArray, head: str, length: int, tail: str) -> str:
    """The prompt of one prefix as one text."""
    shown = [*times[:length], *([times[length - 1]] if length % 2 else [])]
    block = "<|vision_start|>" + "<|video_pad|>" * 6 + "<|vision_end|>"
    pairs = zip(shown[::2], shown[1::2], strict=True)
    return head + "".join(f"<{(a + b) / 2:.1f} seconds>{block}" for a, b in pairs) + tail


def obvious_positions(ids: list[int]) -> list[tuple[int, int, int]]:
    """Token by token: text counts on, a block's tokens stand in rows and columns."""
    found: list[tuple[int, int, int]] = []
    at = inside = 0
    for token in ids:
        if token == TOKENS.video:
            row, column = divmod(inside, GRID[1])
            found.append((at, at + row, at + column))
            inside += 1
            continue
        if inside:
            at, inside = at + max(GRID), 0
        found.append((at, at, at))
        at += 1
    return found


def seen_prompts(
    plan: PrefixPlan, limit: int = 10**15
) -> dict[tuple[int, int], tuple[list[int], list[tuple[int, ...]]]]:
    """For every branch and tail, the tokens and positions that its last token sees, in order."""
    found = {}
    for parts in chunks(plan, PassCost(1, 1, 10**9), limit):
        s = suffixes_of(plan, parts)
        ids = np.concatenate([plan.base.ids[: s.reach], s.span.ids])
        places = np.concatenate([plan.base.positions[:, : s.reach], s.span.positions], axis=1)
        visible = s.visible(s.reach)
        for branch, tail, row in s.reads:
            seen = visible[row]
            assert (branch, tail) not in found
            found[branch, tail] = ids[seen].tolist(), [tuple(place) for place in places[:, seen].T.tolist()]
    return found


@pytest.mark.parametrize("limit", [10**15, 20_000, 1])
@pytest.mark.parametrize("head", [tiny.HEAD, "", "Watch:", "The robot <"])
def test_every_prefix_sees_its_own_prompt_and_nothing_else(head: str, limit: int) -> None:
    times = np.array([0.0, 0.3, 1.1, 1.2, 2.0, 3.7, 4.0])
    tails = tiny.tails(*tiny.INSTRUCTIONS)
    plan = plan_shared_prefixes(layout(head), times, range(1, 8), tails, tiny.CANDIDATES)
    found = seen_prompts(plan, limit)
    for k, branch in enumerate(plan.which):
        for s, tail in enumerate(tails):
            ids = encode(whole_text(times, head, k + 1, tail))
            assert found[branch, s] == (ids, obvious_positions(ids))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.lists(
        st.sampled_from(["open", "open it", "push the puck", "a", "open it now"]), min_size=1, max_size=4
    ),
    st.lists(st.floats(0.05, 3.0), min_size=9, max_size=9),
    st.integers(0, 40_000),
)
def test_any_lengths_texts_times_and_cuts(
    lengths: list[int], words: list[str], gaps: list[float], limit: int
) -> None:
    times = np.cumsum(gaps)
    tails = [f"Task: {word} Done:" for word in words]
    plan = plan_shared_prefixes(layout(), times, lengths, tails, (" True",))
    found = seen_prompts(plan, limit)
    assert len(found) == len(set(lengths)) * len(tails)
    for k, length in enumerate(lengths):
        for s, tail in enumerate(tails):
            ids = encode(whole_text(times, tiny.HEAD, length, tail))
            assert found[plan.which[k], s] == (ids, obvious_positions(ids))


def test_every_token_of_a_suffix_sees_only_what_comes_before_it_in_its_prompt() -> None:
    plan = plan_shared_prefixes(
        layout(), np.arange(5.0), (2, 3, 5), tiny.tails(*tiny.INSTRUCTIONS), (" True",)
    )
    s = suffixes_of(plan, chunks(plan, ALL, 10**15)[0])
    visible = s.visible(s.reach)
    for row in range(len(s.span)):
        seen = np.flatnonzero(visible[row])
        own = seen[seen >= s.reach] - s.reach
        assert own[-1] == row
        assert seen[seen < s.reach].tolist() == list(range(s.ends[row]))
        assert visible[row, : s.ends[row]].all()


def test_the_video_and_what_texts_share_are_read_once() -> None:
    tails = tiny.tails(*tiny.INSTRUCTIONS)
    plan = plan_shared_prefixes(layout(), np.arange(8.0), (4, 8), tails, (" True",))
    alone = [plan_shared_prefixes(layout(), np.arange(8.0), (4, 8), [tail], (" True",)) for tail in tails]
    assert plan.blocks == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert len(plan.base) == len(alone[0].base)
    assert plan.tokens < sum(one.tokens for one in alone) - 2 * len(plan.base)
    assert plan.encoded_blocks == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_the_doubled_frame_of_an_odd_prefix_is_a_block_of_its_own() -> None:
    plan = plan_shared_prefixes(layout(), np.arange(5.0), (3, 4, 5), tiny.tails(), (" True",))
    assert plan.encoded_blocks == [(0, 1), (2, 3), (2, 2), (4, 4)]
    assert [b.block for b in plan.branches] == [(2, 2), None, (4, 4)]


def test_repeated_and_unsorted_lengths_are_planned_once() -> None:
    plan = plan_shared_prefixes(layout(), np.arange(6.0), (6, 2, 6, 4), tiny.tails(), (" True",))
    assert len(plan.branches) == 3
    assert plan.which == (2, 0, 2, 1)


def test_passes_keep_to_the_limit_and_cover_everything_once() -> None:
    tails = tiny.tails(*tiny.INSTRUCTIONS)
    plan = plan_shared_prefixes(layout(), np.arange(16.0), range(1, 17), tails, (" True",))
    cost = PassCost(row=100, pair=2, rows=10**9)
    limit = 60_000
    passes = chunks(plan, cost, limit)
    assert len(passes) > 3
    covered = [(branch, tail) for parts in passes for branch, these in parts for tail in these]
    assert sorted(covered) == [(b, t) for b in range(16) for t in range(3)]
    for parts in passes:
        s = suffixes_of(plan, parts)
        rows = len(s.span)
        assert rows * 100 + rows * (s.reach + rows) * 2 <= limit or len(s.reads) == 1
    assert max(len(suffixes_of(plan, p).span) for p in chunks(plan, PassCost(0, 0, 70), 1)) <= 70


@pytest.mark.parametrize(
    ("tail", "candidate"),
    [("The answer is: ", "True"), ("The answer is:", " True False"), ("The answer is:", ""), ("is Tr", "ue")],
)
def test_a_candidate_that_is_not_one_token_is_refused_by_name(tail: str, candidate: str) -> None:
    with pytest.raises(ModelError, match="not exactly one token") as refused:
        target_ids(encode, [tail], [candidate])
    assert repr(candidate) in str(refused.value)


def test_targets_are_the_tokens_that_follow() -> None:
    targets = target_ids(encode, tiny.tails(*tiny.INSTRUCTIONS), tiny.CANDIDATES)
    assert targets.tolist() == [[encode(" True")[0], encode(" False")[0]]] * 3


@pytest.mark.parametrize("lengths", [(), (0,), (3, 9)])
def test_lengths_outside_the_video_are_refused(lengths: tuple[int, ...]) -> None:
    with pytest.raises(OptionError, match="1 to 8"):
        plan_shared_prefixes(layout(), np.arange(8.0), lengths, tiny.tails(), (" True",))


@pytest.mark.parametrize(("tails", "candidates"), [((), (" True",)), (("is:",), ()), (("",), (" True",))])
def test_nothing_to_score_is_refused(tails: tuple[str, ...], candidates: tuple[str, ...]) -> None:
    with pytest.raises(OptionError):
        plan_shared_prefixes(layout(), np.arange(8.0), (2,), tails, candidates)


def test_vision_tokens_are_four_different_ones() -> None:
    assert isinstance(TOKENS, VisionTokens)
    assert len({TOKENS.start, TOKENS.end, TOKENS.image, TOKENS.video}) == 4

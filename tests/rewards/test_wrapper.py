"""The reward wrapper: its sums telescope, whatever the judge does not know, and no optimal policy changes."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stepscore.errors import OptionError
from stepscore.rewards import PotentialShaping, RewardWrapper
from tests.rewards.chain import Chain, ScriptedJudge, by_state

MISLEADING = {0: 0.9, 1: 0.3, 2: 0.1, 3: 0.6}
"""A potential that is highest where the task is farthest from done."""
GAMMA = 0.9
KNOWN: dict[str, Callable[[int], bool]] = {
    "always": lambda number: True,
    "every other": lambda number: number % 2 == 0,
    "from the third": lambda number: number >= 2,
    "once": lambda number: number == 1,
    "never": lambda number: False,
}


def play(env: Any, actions: tuple[int, ...]) -> tuple[list[float], list[dict[str, float]], bool, bool]:
    env.reset()
    rewards, facts, ended, late = [], [], False, False
    for action in actions:
        _, reward, ended, late, info = env.step(action)
        rewards.append(float(reward))
        facts.append(info.get("stepscore", {}))
        if ended or late:
            break
    return rewards, facts, ended, late


def discounted(rewards: list[float]) -> float:
    return float(np.sum(GAMMA ** np.arange(len(rewards)) * rewards))


def sequences() -> list[tuple[int, ...]]:
    return list(itertools.product((0, 1), repeat=6))


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("every", [1, 2, 3])
def test_the_discounted_sum_telescopes_over_gaps(known: str, every: int) -> None:
    judge = by_state(MISLEADING, KNOWN[known])
    env = RewardWrapper(Chain(), judge, "go right", gamma=GAMMA, every=every)
    for actions in sequences():
        _, facts, ended, late = play(env, actions)
        assert ended or late
        shaped = discounted([fact["reward"] for fact in facts])
        first = MISLEADING[1] if KNOWN[known](0) else 0.0
        if ended:  # phi = 0 at the true end
            assert shaped == pytest.approx(-first, abs=1e-12)
            continue
        # At a time limit the learner bootstraps V'(h) = V(s) - Phi(h), with the potential of the history.
        seen = [(n, fact["progress"]) for n, fact in enumerate(facts, 1) if not math.isnan(fact["progress"])]
        last, phi = seen[-1] if seen else (0, first)
        assert shaped == pytest.approx(GAMMA**last * phi - first, abs=1e-12)
    assert judge.opened == judge.closed


@pytest.mark.parametrize("known", KNOWN)
def test_no_optimal_policy_changes(known: str) -> None:
    """All 64 action sequences of the chain: shaping keeps the order of the returns, with V = 0 after the limit."""
    env = RewardWrapper(Chain(), by_state(MISLEADING, KNOWN[known]), "go right", gamma=GAMMA)
    plain, shaped = [], []
    for actions in sequences():
        own = play(Chain(), actions)[0]
        rewards, facts, ended, _ = play(env, actions)
        seen = [(n, f["progress"]) for n, f in enumerate(facts, 1) if not math.isnan(f["progress"])]
        last, phi = seen[-1] if seen else (0, MISLEADING[1] if KNOWN[known](0) else 0.0)
        plain.append(discounted(own))
        shaped.append(discounted(rewards) - (0.0 if ended else GAMMA**last * phi))
    np.testing.assert_allclose(np.diff(shaped), np.diff(plain), atol=1e-9)
    best = sequences()[int(np.argmax(shaped))]
    assert best[:2] == (1, 1)


def test_adding_the_progress_itself_does_change_the_optimal_policy() -> None:
    """What the wrapper avoids: progress as a reward pays for staying where it is high."""
    totals = []
    for actions in sequences():
        _, facts, _, _ = play(RewardWrapper(Chain(), by_state(MISLEADING), "go right", gamma=GAMMA), actions)
        totals.append(discounted([fact["env_reward"] + fact["progress"] for fact in facts]))
    assert sequences()[int(np.argmax(totals))][0] == 0


def test_gaps_are_counted_and_pay_nothing() -> None:
    env = RewardWrapper(Chain(limit=4), by_state(MISLEADING, KNOWN["every other"]), "go right", gamma=GAMMA)
    _, facts, _, _ = play(env, (0, 0, 0, 0))
    assert [math.isnan(fact["progress"]) for fact in facts] == [True, False, True, False]
    assert [fact["reward"] for fact in facts][::2] == [0.0, 0.0]
    # Two steps from phi to phi': gamma^-1 (gamma^2 phi' - phi).
    assert facts[1]["reward"] == pytest.approx((GAMMA**2 * MISLEADING[0] - MISLEADING[1]) / GAMMA)
    counts = env.counts
    assert (counts.episodes, counts.frames, counts.known, counts.unknown) == (1, 5, 3, 2)


def test_weights_of_both_rewards() -> None:
    env = RewardWrapper(Chain(), by_state(MISLEADING), "go right", gamma=GAMMA, weight=2.0, env_reward=10.0)
    rewards, facts, ended, _ = play(env, (1, 1))
    assert ended
    assert facts[-1]["env_reward"] == 1.0
    assert rewards[-1] == pytest.approx(10.0 + 2.0 * (0.0 - MISLEADING[2]))


def test_the_relative_form_is_the_clipped_change() -> None:
    env = RewardWrapper(Chain(limit=4), by_state(MISLEADING), "go right", form="relative")
    assert play(env, (0, 1, 1, 0))[0] == pytest.approx([0.2, -0.2, -0.2, 0.2])


@pytest.mark.parametrize("every", [1, "episode"])
def test_terminal_success_is_paid_once_at_the_end(every: Any) -> None:
    judge = ScriptedJudge(lambda number, state: 0.5, lambda state: 0.9 if state == 0 else 0.1)
    env = RewardWrapper(Chain(limit=3), judge, "go", form="terminal", env_reward=0.0, every=every)
    assert play(env, (0, 0, 0))[0] == [0.0, 0.0, 1.0]
    assert play(env, (0, 1, 0))[0] == [0.0, 0.0, 1.0]
    assert play(env, (1, 0, 1))[0] == [0.0, 0.0, 0.0]
    assert env.counts.frames == 12


def test_success_ends_an_episode_only_where_it_is_asked_to() -> None:
    judge = ScriptedJudge(lambda number, state: 0.5, lambda state: 0.9 if state == 0 else 0.1)
    assert len(play(RewardWrapper(Chain(), judge, "go"), (0, 0, 0))[0]) == 3
    env = RewardWrapper(Chain(), judge, "go", success_ends=True, gamma=GAMMA)
    rewards, _, ended, _ = play(env, (0, 0, 0))
    assert ended
    assert rewards == [-0.5]  # phi is 0 after it


def test_frames_are_shown_at_the_judges_rate() -> None:
    env = Chain()
    env.metadata = {**env.metadata, "render_fps": 6}
    wrapper = RewardWrapper(env, by_state(MISLEADING), "go right")
    play(wrapper, (0, 0, 0, 0))
    assert wrapper.counts.frames == 2  # the first, and every third of a judge of 2 frames a second


def test_wrong_use_says_what_to_do() -> None:
    judge = by_state(MISLEADING)
    with pytest.warns(UserWarning, match="prefers no policy"):
        RewardWrapper(Chain(), judge, "go", env_reward=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RewardWrapper(Chain(), judge, "go", env_reward=0.0, form="terminal")
    with pytest.raises(OptionError, match="form must be"):
        RewardWrapper(Chain(), judge, "go", form="dense")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="every must be"):
        RewardWrapper(Chain(), judge, "go", every=0)
    with pytest.raises(OptionError, match="gamma must be"):
        PotentialShaping(0.0)
    blind = Chain()
    blind.render_mode = "human"
    with pytest.raises(OptionError, match="render_mode='rgb_array'"):
        RewardWrapper(blind, judge, "go")
    RewardWrapper(blind, judge, "go", render=lambda: np.zeros((4, 4, 3), np.uint8))

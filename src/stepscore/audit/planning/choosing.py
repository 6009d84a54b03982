"""Choose the episodes of each probe: a seeded subset, spread over scenes, within a budget.

Judging all episodes once costs 1; by default an audit costs at most :data:`BUDGET`. The cost of asking again
is set aside. The rest is spent in this order (a video of twice the length costs twice as much):

1. every probe gets :data:`FIRST_SCENES` scenes, headline probes first, then the cheapest;
2. a probe of a share gets the scenes that a perfect judge needs to pass, if there are enough;
3. headline probes get up to :data:`HEADLINE_SCENES` scenes;
4. all probes get one more scene each, in turns;
5. all probes get one more episode each, in turns, up to :data:`PROBE_EPISODES`.

A probe takes one episode of every scene before a second one. A changed episode that two probes share is
judged once; a truncated video that needs no new call is free. A probe that cannot afford :data:`MIN_SCENES`
scenes gets none in step 1, so that others can decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from stepscore._progress import track
from stepscore.audit.planning.audit_plan import AuditPlan, spread_over_scenes
from stepscore.audit.planning.takers import Budget, Taker
from stepscore.audit.probe import MIN_SCENES, Context, Probe
from stepscore.audit.repeats import AGAIN_COST
from stepscore.episodes import Episode

BUDGET = 10.0
"""Most cost of an audit, as a multiple of judging the episodes once."""

AGAIN_SHARE, MOST_AGAIN = 0.5, 40
"""Share of the episodes that are judged again and sampled twice as densely, and most of them."""

FIRST_SCENES = 10
"""Scenes that every probe gets before any gets more."""

PROBE_EPISODES = 1000
"""Most episodes of a probe: a share is then known within 3 points."""

HEADLINE_SCENES = 40
"""Scenes that a headline probe gets before the others get more than their first."""


def make_plan(
    episodes: Sequence[Episode],
    probes: Sequence[Probe],
    context: Context,
    *,
    full: bool = False,
    causal: bool = False,
    again_cost: float = AGAIN_COST,
) -> AuditPlan:
    """Choose the episodes of every probe.

    Args:
        context: Its seed also draws the subsets.
        full: Take all episodes for every probe, whatever the cost.
        causal: Whether the judge never looks ahead, so that truncated videos are free.
        again_cost: Cost of asking again about an episode; 0 if the judge is not asked again.
    """
    readable = [episode for episode in episodes if episode.error is None and episode.views]
    labelled = any(episode.labels.success is not None for episode in readable)
    everyone = successes = spread_over_scenes(readable, context.seed)
    if labelled:
        successes = spread_over_scenes([one for one in readable if one.labels.success], context.seed)
    takers = [Taker(probe, successes if probe.successes else everyone, context) for probe in probes]
    asked = {one.id for one in (everyone if full else everyone[: again_count(len(everyone))]) if again_cost}
    if full:
        for taker in track(takers, "Choosing episodes for probes", len(takers)):
            while taker.next():
                taker.take()
    else:
        left = (BUDGET - 1.0) * len(readable) - again_cost * len(asked)
        _give_out(takers, Budget(left, causal))
    probed = [each for taker in takers for each in taker.taken]
    why = {taker.probe.name: taker.why(readable=bool(readable)) for taker in takers}
    return AuditPlan(
        tuple(readable),
        tuple(probed),
        {taker.probe.name: len(taker.eligible) for taker in takers},
        {name: reason for name, reason in why.items() if reason},
        labelled,
        tuple(one for one in readable if one.id in asked),
        tuple(short for taker in takers if (short := taker.shortfall()) is not None),
    )


def again_count(n: int) -> int:
    """Return how many of ``n`` episodes the judge is asked about again."""
    return min(n, MOST_AGAIN, max(FIRST_SCENES, math.floor(AGAIN_SHARE * n)))


def _give_out(takers: Sequence[Taker], budget: Budget) -> None:
    """Spend the budget in the order of the module's docstring."""
    first = sorted(takers, key=lambda taker: (not taker.probe.headline, taker.probe.length))
    for taker in track(first, "Choosing episodes for probes", len(first)):
        if budget.reaches(taker, MIN_SCENES):
            budget.buy_up_to(taker, FIRST_SCENES)
    for taker in first:
        if taker.taken and budget.reaches(taker, taker.probe.scenes_to_pass):
            budget.buy_up_to(taker, taker.probe.scenes_to_pass)
    # A probe that the budget left out would decide nothing by what remains; one with too few scenes shows its effect.
    first = [taker for taker in first if taker.taken or taker.up_to(MIN_SCENES)[1] < MIN_SCENES]
    headline = [taker for taker in first if taker.probe.headline]
    _in_turn(
        headline,
        lambda taker: len(taker.scenes) < HEADLINE_SCENES and taker.next_is_new and budget.buy(taker),
    )
    _in_turn(
        first, lambda taker: len(taker.taken) < PROBE_EPISODES and taker.next_is_new and budget.buy(taker)
    )
    _in_turn(first, lambda taker: len(taker.taken) < PROBE_EPISODES and budget.buy(taker))


def _in_turn(takers: Sequence[Taker], take: Callable[[Taker], bool]) -> None:
    """Let every probe take one more until none does."""
    while takers:
        takers = [taker for taker in takers if take(taker)]

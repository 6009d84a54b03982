"""How far each reading of TOPReward's advantage weights moves the demonstrations of examples/better_policy.

    python -m benchmarks.tables.awr_weights

Plays the demonstrations of that experiment (its tasks, seed and choice; nothing is rendered, no policy is trained)
and weights their frames by the simulator's potential under every reading. Prints, as means over the tasks: the
effective sample size as a share of the frames, the share of weights at the cap, and the mean weight of a frame of
each kind of demonstration, where the mean over all frames is 1.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable

import numpy as np

from examples.better_policy.demonstrations import choose_demonstrations
from examples.better_policy.setting import Setting
from stepscore.curation import RunFrames, Weighting, topreward_awr
from stepscore.curation.frames import EpisodeFrames
from stepscore.sim import Rollout, SimEnv, get_task

KINDS = ("good", "wasteful", "failed")
READINGS: dict[str, Callable[[RunFrames], Weighting]] = {
    f"{advantage}, {role}": lambda frames, advantage=advantage, role=role: topreward_awr(  # type: ignore[misc]
        frames, advantage=advantage, tau_role=role
    )
    for advantage in ("progress", "change", "plain-change")
    for role in ("inverse-temperature", "prefactor")
}


def frames_of(rollouts: list[Rollout]) -> RunFrames:
    """The frames of the rollouts as one dataset, with the potential as progress."""
    starts = np.cumsum([0, *(len(rollout.potential) for rollout in rollouts)])
    return RunFrames(
        tuple(
            EpisodeFrames(
                id=f"episode_{number:06d}",
                number=number,
                first_index=int(starts[number]),
                n_frames=len(rollout.potential),
                fps=rollout.fps,
                task=rollout.plan.task,
                success=bool(rollout.success[-1]),
                times=np.arange(len(rollout.potential)) / rollout.fps,
                values=np.asarray(rollout.potential, dtype=np.float64),
            )
            for number, rollout in enumerate(rollouts)
        )
    )


def weight_shares(weighting: Weighting, kinds: np.ndarray) -> list[float]:
    """Effective sample size, share at the cap, and mean weight of each kind; an unknown frame has the mean weight."""
    known = weighting.weights
    weights = np.where(np.isnan(known), np.nanmean(known), known)
    weights /= weights.mean()
    effective = float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))
    return [
        effective,
        weighting.facts["at the cap"],
        *(float(weights[kinds == kind].mean()) for kind in KINDS),
    ]


def main() -> None:
    setting = Setting()
    found: dict[str, list[list[float]]] = defaultdict(list)
    for task in setting.tasks:
        env = SimEnv(get_task(task))
        try:
            chosen = [(kind, rollout) for kind, _, rollout in choose_demonstrations(env, setting)]
        finally:
            env.close()
        frames = frames_of([rollout for _, rollout in chosen])
        kinds = np.repeat([kind for kind, _ in chosen], frames.lengths)
        for name, weigh in READINGS.items():
            found[name].append(weight_shares(weigh(frames), kinds))
        print(f"{task}: {len(chosen)} demonstrations, {len(frames)} frames", file=sys.stderr, flush=True)
    print("| advantage, tau | effective sample size, % | at the cap, % | weight good / wasteful / failed |")
    print("|---|---|---|---|")
    for name, rows in found.items():
        effective, cap, *means = np.mean(rows, axis=0)
        weights = " / ".join(f"{mean:.2f}" for mean in means)
        print(f"| {name} | {100 * effective:.1f} | {100 * cap:.1f} | {weights} |")


if __name__ == "__main__":
    main()

"""A kit of scripted judges, each with one known fault, and the outcome that every probe must have on them.

The judges see the true progress of what is shown, as labels follow every perturbation, and spoil it in their way.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepscore.audit import PROBES, AuditPlan, Judged
from stepscore.episodes import Episode, Label, Labels
from stepscore.judges import Ask
from stepscore.models import Model
from stepscore.types import Curve, FloatArray, Judgement
from tests.fakes import FakeView

POINTS = 16
TASKS = {
    "open the drawer": "close the drawer",
    "close the window": "open the window",
    "turn on the lamp": "turn off the lamp",
    "lift the cup": "lower the cup",
}
COUNTERFACTUALS = {task: [f"{other} slowly", f"push {task.split()[-1]}"] for task, other in TASKS.items()}


def scripted_episodes(scenes: int = 10, seed: int = 0) -> list[Episode]:
    """Return episodes of four tasks and two policies; ``good`` succeeds nearly always, ``bad`` seldom."""
    rng = np.random.default_rng(seed)
    episodes = []
    for task in TASKS:
        for scene in range(scenes):
            for policy, rate in (("good", 0.9), ("bad", 0.3)):
                success = bool(rng.uniform() < rate)
                n = int(rng.integers(40, 80))
                end = 1.0 if success else float(rng.uniform(0.2, 0.7))
                reached = rng.uniform(0.65, 0.85)
                progress = np.minimum(np.arange(n) / (n - 1) / reached, 1.0) * end
                rows = [
                    Label("progress", "potential", i / 10, value=float(p)) for i, p in enumerate(progress)
                ]
                episodes.append(
                    Episode(
                        id=f"{task.replace(' ', '-')}/{policy}/{scene:02d}",
                        instruction=task,
                        task=task,
                        policy=policy,
                        pair=f"{task} {scene}",
                        views={
                            "top": FakeView(n, 10.0, f"{task} {policy} {scene}"),
                            "wrist": FakeView(n, 10.0, f"w {task} {policy} {scene}"),
                        },
                        labels=Labels((Label("success", "holds", value=float(success)), *rows)),
                    )
                )
    return episodes


Spoil = Callable[[FloatArray, FloatArray, Episode, np.random.Generator], FloatArray]


@dataclass(frozen=True)
class PlantedJudge:
    """The truth, spoilt.

    Attributes:
        name: What is wrong with it.
        spoil: Takes true progress and times of the points, the episode and a random generator; returns progress.
        recorded: Recorded episodes by id, for a judge that sees the task done whatever the instruction.
        others: True progress at every frame under another instruction, by recorded id and instruction, where known.
        success_at: Progress that it calls a success.
    """

    name: str
    spoil: Spoil
    recorded: Mapping[str, Episode] = field(default_factory=dict)
    others: Mapping[tuple[str, str], FloatArray] = field(default_factory=dict)
    success_at: float = 0.97
    version: int = 1
    models: tuple[Model, ...] = ()

    def options(self) -> Mapping[str, object]:
        """Return its fault."""
        return {"fault": self.name}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return what :meth:`judge_now` does."""
        return self.judge_now(episode)

    def judge_now(self, episode: Episode) -> Judgement:
        """Return the spoilt truth; unknown where the truth is, or where all cameras are black."""
        times = episode.view(episode.main_view).timestamps()
        at = times[np.round(np.linspace(0, len(times) - 1, min(POINTS, len(times)))).astype(int)]
        digest = hashlib.sha256(f"{self.name} {episode.id}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
        progress = np.clip(self.spoil(self._truth(episode, at), at, episode, rng), 0.0, 1.0)
        last = progress[-1]
        score = math.nan if math.isnan(last) else float(last >= self.success_at)
        return Judgement(Curve(at, progress), success_score=score)

    def _truth(self, episode: Episode, at: FloatArray) -> FloatArray:
        changes = _changes(episode)
        labels, recorded_id = episode.labels, str(episode.metadata.get("changed_from"))
        if self.recorded and changes and not labels.potentials:
            labels = self.recorded[recorded_id].labels
        if "blank" in changes and episode.metadata["changed"][-1].get("view") is None:  # type: ignore[index]
            return np.full(len(at), np.nan)
        if not labels.potentials:
            other = self.others.get((recorded_id, episode.instruction))
            if other is None:
                return np.full(len(at), np.nan)
            return np.asarray(np.interp(at, episode.view(episode.main_view).timestamps(), other))
        times, values = labels.progress()
        return np.asarray(np.interp(at, times, values))


def _changes(episode: Episode) -> list[str]:
    return [str(change["change"]) for change in episode.metadata.get("changed", ())]  # type: ignore[attr-defined]


def _state_shown(truth: FloatArray, at: FloatArray, episode: Episode, rng: np.random.Generator) -> FloatArray:
    """Return how far the task is by the image alone, whether it was done before or not."""
    if "twice" not in _changes(episode):
        return truth
    second = at > episode.view(episode.main_view).timestamps()[-1] / 2
    return 2 * truth - second


def _by_instruction(episode: Episode) -> float:
    return hashlib.sha256(episode.instruction.encode()).digest()[0] / 255


def planted_judges(
    episodes: Sequence[Episode],
    others: Mapping[tuple[str, str], FloatArray] | None = None,
    *,
    favoured: str = "bad",
    success_at: float = 0.97,
) -> dict[str, PlantedJudge]:
    """Return the judges by fault; ``none`` is the oracle.

    Args:
        episodes: The episodes as recorded.
        others: The truth under other instructions, as :class:`PlantedJudge` takes it.
        favoured: The policy that one of them favours.
        success_at: Progress that they call a success.
    """
    recorded = {episode.id: episode for episode in episodes}

    def late(truth: FloatArray, at: FloatArray, episode: Episode, rng: np.random.Generator) -> FloatArray:
        return np.asarray(np.interp(at - 0.1, at, truth))

    faults: dict[str, Spoil] = {
        "none": lambda truth, at, episode, rng: truth,
        "clock": lambda truth, at, episode, rng: at / at[-1],
        "always yes": lambda truth, at, episode, rng: np.ones(len(at)),
        "ignores the instruction": _state_shown,
        "ignores the video": lambda truth, at, episode, rng: np.full(len(at), _by_instruction(episode)),
        "last frame only": _state_shown,
        "one frame late": late,
        "noisy": lambda truth, at, episode, rng: truth + rng.normal(0, 0.07, len(at)),
        "favours a policy": lambda truth, at, episode, rng: truth + 0.3 * (episode.policy == favoured),
        "quantised": lambda truth, at, episode, rng: np.round(truth * 5) / 5,
        "saturates early": lambda truth, at, episode, rng: 2 * truth,
        "never falls": lambda truth, at, episode, rng: np.maximum.accumulate(truth),
    }
    return {
        fault: PlantedJudge(
            fault, spoil, recorded if fault == "ignores the instruction" else {}, others or {}, success_at
        )
        for fault, spoil in faults.items()
    }


def answers(judge: PlantedJudge, plan: AuditPlan) -> dict[str, Judged]:
    """Return what a judge says of every episode of a plan, without a run folder."""
    judged = {}
    for episode in plan.to_judge(causal=False, probes=tuple(PROBES.values())):
        said = judge.judge_now(episode)
        assert said.curve is not None
        judged[episode.id] = Judged(said.curve.times, said.curve.progress, said.success_score)
    return judged


def agrees(outcome: str, expected: str) -> bool:
    """Return whether an outcome is the stated one; what must pass may warn on a small sample."""
    if expected == "pass":
        return outcome in ("pass", "warn")
    return outcome != "pass" if expected == "not pass" else outcome == expected


SOUND = dict.fromkeys(PROBES, "pass") | {
    # Nobody sees black images, and an oracle of the recorded task knows nothing of another.
    **dict.fromkeys(("blank", "blank-success"), "undecided"),
    **dict.fromkeys(("other-task", "opposite", "counterfactual", "negated"), "undecided"),
}
"""Outcomes of a judge without a fault."""

_OTHER_GOALS = ("other-task", "opposite", "counterfactual", "negated")
_UNGROUNDED = dict.fromkeys(_OTHER_GOALS, "fail")
_LEVEL = {  # of a judge whose curve is level whatever is shown
    **dict.fromkeys(("beyond-length", "round-trip", "undone", "reversed", "twice"), "fail"),
    **dict.fromkeys(("retry", "repeated"), "undecided"),
    "blank": "pass",
}
EXPECTED: Mapping[str, dict[str, str]] = {
    "none": SOUND,
    "clock": SOUND
    | _UNGROUNDED
    | dict.fromkeys(
        (
            "beyond-length",
            "frozen-first",
            "frozen-last",
            "blank",
            "still-success",
            "blank-success",
            "round-trip",
            "undone",
            "reversed",
            "shuffled",
            "retry",
            "repeated",
            "truncated-25",
            "truncated-50",
            "truncated-75",
            "early-success",
            "paused",
        ),
        "fail",
    ),
    "always yes": SOUND
    | _UNGROUNDED
    | _LEVEL
    | dict.fromkeys(("still-success", "blank-success", "early-success"), "fail"),
    "ignores the instruction": SOUND | _UNGROUNDED | {"twice": "fail"},
    "ignores the video": SOUND
    | _LEVEL
    | {"blank-success": "pass", "still-success": "pass", "early-success": "pass", "paraphrase": "fail"}
    | dict.fromkeys(_OTHER_GOALS, "not pass"),
    "last frame only": SOUND | {"twice": "fail"},
    "one frame late": SOUND,
    "noisy": SOUND,
    "favours a policy": SOUND,
    "quantised": SOUND,
    "saturates early": SOUND | {"early-success": "fail"},
    "never falls": SOUND
    | dict.fromkeys(("undone", "reversed", "retry", "repeated"), "fail")
    | dict.fromkeys(("round-trip", "shuffled"), "not pass"),
}
"""The outcome of every probe on every planted judge, stated before it was first run.

"not pass" stands where chance decides between fail and warn. A judge that looks at the last frame alone is found
where the same view recurs and means something else ("twice"), and nowhere else. One that favours a policy is found by
its agreement with labels.
"""

EXPECTED_IN_SIMULATION: Mapping[str, Mapping[str, str]] = {
    fault: outcomes
    | (
        dict.fromkeys(_OTHER_GOALS, "pass")
        if all(outcomes[probe] == "undecided" for probe in _OTHER_GOALS)
        else {}
    )
    for fault, outcomes in EXPECTED.items()
} | {
    # Another goal that holds at the start ("leave it as it is") is never seen to be lost.
    "never falls": EXPECTED["never falls"] | dict.fromkeys(_OTHER_GOALS, "not pass"),
}
"""The same where the simulator knows the truth under another instruction, stated before it was first run."""

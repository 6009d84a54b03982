"""Probes of the instruction: the same video under another goal, and the same goal in other words."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from stepscore._untrusted import read_yaml, shown
from stepscore.audit.probe import DISTANCE, Bound, Case, Context, Probe
from stepscore.episodes import Episode, perturb
from stepscore.errors import ManifestError, OptionError

WINS = 0.75
"""Share of episodes in which the right instruction must win: half-way between chance and always."""


def wins(case: Case) -> float:
    """Return 1 if progress ends higher under the right instruction, 0 if lower, one half for a tie."""
    right, other = case.plain.last, case.probed.last
    if math.isnan(right) or math.isnan(other):
        return math.nan
    return 0.5 if right == other else float(right > other)


def _of_task(texts: Mapping[str, Sequence[str]], episode: Episode, what: str, seed: int) -> str:
    found = texts.get(episode.task or "") or texts.get(episode.instruction) or ()
    own = episode.instruction.strip().lower()
    usable = [text for text in found if text.strip().lower() != own]
    if not usable:
        raise OptionError(f"No {what} is given for the task of episode {episode.id}.")
    number = hashlib.sha256(f"{what}\0{seed}\0{episode.id}".encode()).digest()[:8]
    return usable[int.from_bytes(number, "big") % len(usable)]


def _other_task(episode: Episode, context: Context) -> Episode:
    return perturb(episode, "other-instruction", among=context.instructions, seed=context.seed)


def _counterfactual(episode: Episode, context: Context) -> Episode:
    text = _of_task(context.counterfactuals, episode, "counterfactual instruction", context.seed)
    return perturb(episode, "other-instruction", text=text)


def _paraphrase(episode: Episode, context: Context) -> Episode:
    if context.paraphrases:
        text = _of_task(context.paraphrases, episode, "paraphrase", context.seed)
        return perturb(episode, "paraphrase", paraphrases=(text.replace("{0}", "{ 0}"),))
    number = int.from_bytes(hashlib.sha256(f"{context.seed}\0{episode.id}".encode()).digest()[:2], "big")
    return perturb(episode, "paraphrase", number=number)


def _grounding(name: str, change: object, expectation: str, *, headline: bool = False) -> Probe:
    assert callable(change)
    return Probe(
        name=name,
        family="instruction",
        change=change,
        effect=wins,
        bound=Bound(WINS, "above"),
        expectation=expectation,
        effect_name="share in which the right instruction wins",
        successes=True,
        headline=headline,
        rate=True,
    )


INSTRUCTION_PROBES = (
    _grounding(
        "other-task",
        _other_task,
        "a success ends higher under its own instruction than under another task's",
        headline=True,
    ),
    _grounding(
        "opposite",
        lambda episode, context: perturb(episode, "opposite-instruction"),
        "a success ends higher under its own instruction than under the opposite",
    ),
    _grounding(
        "counterfactual",
        _counterfactual,
        "a success ends higher under its own instruction than under another goal for the same objects",
    ),
    _grounding(
        "negated",
        lambda episode, context: perturb(episode, "negated"),
        "a success ends higher under its own instruction than under its negation",
    ),
    Probe(
        name="paraphrase",
        family="instruction",
        change=_paraphrase,
        effect=lambda case: abs(case.probed.last - case.plain.last),
        bound=Bound(DISTANCE, "below"),
        expectation="the same goal in other words is scored alike",
        effect_name="distance at the end",
    ),
)


MAX_TEXT = 10_000
"""Most characters of one instruction."""


def read_texts(path: Path) -> dict[str, tuple[str, ...]]:
    """Read ``task or instruction: [text, ...]`` from a YAML file; a single text counts as a list of one."""
    content = read_yaml(path, ManifestError)
    if not isinstance(content, dict) or not content:
        raise ManifestError(
            f"{shown(path)}: expected tasks with texts, as in\n  open the drawer: [close the drawer]"
        )
    found: dict[str, tuple[str, ...]] = {}
    for task, given in content.items():
        texts = [given] if isinstance(given, str) else given
        good = isinstance(texts, list) and all(
            isinstance(t, str) and 0 < len(t.strip()) <= MAX_TEXT for t in texts
        )
        if not isinstance(task, str) or not good or not texts:
            raise ManifestError(f"{shown(path)}: {str(task)[:80]!r} needs a text or a list of texts.")
        found[task] = tuple(text.strip() for text in texts)
    return found

"""Make pairs of frames from episodes with labelled progress."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepscore.audit.pairs.pair import SPANS, Pair, Played, Span, span_of
from stepscore.episodes import Episode
from stepscore.errors import OptionError
from stepscore.metrics import hop_between
from stepscore.types import FloatArray

PER_EPISODE = 2
"""Largest number of pairs per episode, span and direction, so that no episode dominates."""

MIN_GAP_S = 0.2
"""Shortest time between the two timestamps of a pair, in seconds."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    episode: Episode
    played: Played
    before_s: float
    after_s: float
    change: float
    hop: float
    span: Span


def make_progress_pairs(
    episodes: Iterable[Episode], *, per_span: int = 200, seed: int = 0, potential: str | None = None
) -> tuple[Pair, ...]:
    """Draw pairs for every span, half of which are advances and half regressions.

    Args:
        episodes: The episodes; those without labelled progress are skipped.
        per_span: Largest number of pairs for each span.
        potential: Name of the progress labels, if there are several.

    Raises:
        OptionError: No episode has labelled progress, or ``per_span`` is invalid.
    """
    if int(per_span) != per_span or per_span < 2:
        raise OptionError(f"per_span must be an integer of at least 2, got {per_span}.")
    offered: dict[tuple[Span, bool], list[_Candidate]] = defaultdict(list)
    labelled = 0
    for episode in episodes:
        if episode.error is not None or not episode.labels.potentials:
            continue
        labelled += 1
        for candidate in _offers(episode, seed, potential):
            offered[candidate.span, candidate.change > 0].append(candidate)
    if not labelled:
        raise OptionError(
            "No episode has labelled progress, which pairs are made from. Join labels: --labels FILE, "
            "or write some: stepscore progress-labels"
        )
    pairs: list[Pair] = []
    for span in SPANS:
        rising, falling = (_spread(offered[span, up], seed) for up in (True, False))
        half = min(int(per_span) // 2, len(rising), len(falling))
        for candidate in (*rising[:half], *falling[:half]):
            pairs.append(_pair(candidate, len(pairs)))
    return tuple(pairs)


def _pair(found: _Candidate, number: int) -> Pair:
    episode = found.episode
    return Pair(
        id=f"pair_{number:06d}",
        episode=episode.id,
        played=found.played,
        before_s=round(found.before_s, 6),
        after_s=round(found.after_s, 6),
        change=round(found.change, 6),
        span=found.span,
        task=episode.task or episode.instruction,
        scene=episode.pair or "",
        hop=round(found.hop, 6),
    )


def _offers(episode: Episode, seed: int, potential: str | None) -> list[_Candidate]:
    """Return a few pairs of one episode for every span and direction."""
    times, truth = episode.labels.progress(potential)
    last_s = float(episode.view(episode.main_view).timestamps()[-1])
    known = ~np.isnan(truth) & (times <= last_s)
    times, truth = times[known], truth[known]
    if len(times) < 2:
        return []
    digest = hashlib.sha256(f"pairs\0{seed}\0{episode.id}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    recorded = _drawn(times, truth, rng)
    found = [
        _Candidate(episode, "forwards", one.before_s, one.after_s, one.change, one.hop, one.span)
        for one in recorded
    ]
    # A success whose progress never falls has no regressions, so play its rises backwards.
    found += [
        _Candidate(
            episode,
            "backwards",
            last_s - one.after_s,
            last_s - one.before_s,
            -one.change,
            one.undone,
            one.span,
        )
        for one in recorded
        if one.change > 0
    ]
    return found


class _Drawn(NamedTuple):
    """Two timestamps of a recording, with the change between them, the hop, and the hop in reverse."""

    before_s: float
    after_s: float
    change: float
    hop: float
    undone: float
    span: Span


def _drawn(times: FloatArray, truth: FloatArray, rng: np.random.Generator) -> list[_Drawn]:
    count: dict[tuple[Span, bool], int] = defaultdict(int)
    found = []
    for _ in range(400):
        i, j = sorted(rng.integers(0, len(times), 2).tolist())
        change = float(truth[j] - truth[i])
        span = span_of(change)
        if span is None or times[j] - times[i] < MIN_GAP_S or count[span, change > 0] >= PER_EPISODE:
            continue
        count[span, change > 0] += 1
        hop, undone = (float(hop_between(*two)) for two in ((truth[i], truth[j]), (truth[j], truth[i])))
        found.append(_Drawn(float(times[i]), float(times[j]), change, hop, undone, span))
    return found


def _spread(candidates: Sequence[_Candidate], seed: int) -> list[_Candidate]:
    """Order candidates so that any prefix covers tasks and episodes evenly."""
    by_task: dict[str, list[_Candidate]] = defaultdict(list)
    for one in candidates:
        by_task[one.episode.task or one.episode.instruction].append(one)

    def drawn(one: _Candidate) -> bytes:
        text = f"{seed}\0{one.episode.id}\0{one.played}\0{one.before_s:.6f}\0{one.after_s:.6f}"
        return hashlib.sha256(text.encode()).digest()

    queues = [sorted(group, key=drawn) for _, group in sorted(by_task.items())]
    ordered: list[_Candidate] = []
    place = 0
    while any(place < len(queue) for queue in queues):
        ordered += [queue[place] for queue in queues if place < len(queue)]
        place += 1
    return ordered

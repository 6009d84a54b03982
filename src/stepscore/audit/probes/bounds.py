"""What probes measure against: the bounds that several of them share."""

from __future__ import annotations

from stepscore.episodes import Episode

GAIN = 0.1
"""Change of progress up to which a judge that sees nothing happen may drift, and above which it must follow."""

DISTANCE = 0.15
"""Mean distance of two curves that should be one."""

ORDER = 0.5
"""Rank correlation between a judge that follows (1) and one that does not (0)."""


def end_of(episode: Episode) -> float:
    """Return the timestamp of the last frame of the main view."""
    return float(episode.view(episode.main_view).timestamps()[-1])

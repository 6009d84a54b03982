"""The videos of changed episodes, taken from the recorded ones: nothing is encoded for them.

A change of timing is shown as the judge saw it, by the recorded frames in the order of the change. Where images were
changed, or the video is another's, the recorded video is shown and the page says what the judge saw instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stepscore.episodes import Episode, View, perturb
from stepscore.errors import StepScoreError
from stepscore.report.page.episodes import EpisodeIndex
from stepscore.report.run_sources import RunSources

TIMING = frozenset(
    (
        "frozen",
        "reversed",
        "cut",
        "slowed",
        "paused",
        "thinned",
        "round-trip",
        "retry",
        "repeated",
        "shuffled",
    )
)
INSTRUCTION = frozenset(("paraphrase", "negated", "other-instruction", "opposite-instruction"))
MAX_TEXT = 300


class ChangedSources(RunSources):
    """The sources of some runs, in which a changed episode has the videos of the one that it was changed from.

    Args:
        sources: The sources.
        index: The page's episodes; only what was recorded, judged and is among them is shown.
    """

    def __init__(self, sources: RunSources, index: EpisodeIndex) -> None:
        super().__init__(())
        self._sources, self._index = sources, index

    def views(self, row: Mapping[str, Any]) -> Mapping[str, View | str]:
        """Return every camera of an episode, or why it cannot be used; timing is changed as the judge saw it."""
        made = changes_of(row)
        if made is None:
            return self._sources.views(row)
        place = self._index.places.get((row["source"], made.recorded))
        if place is None:
            return {}
        recorded = self._index.rows[place]
        views = self._sources.views(recorded)
        if not all(change["change"] in TIMING for change in made.changes):
            return views
        try:
            changed = self._sources.episode(recorded)
            for change in made.changes:
                changed = _changed(changed, change)
        except (StepScoreError, TypeError, ValueError, OverflowError):
            return views
        return {name: changed.views.get(name, view) for name, view in views.items()}


class Changes:
    """What was changed of an episode.

    Args:
        recorded: Id of the episode as recorded.
        changes: Names and options of the perturbations, in order.
    """

    def __init__(self, recorded: str, changes: Sequence[Mapping[str, Any]]) -> None:
        self.recorded, self.changes = recorded, changes

    @property
    def text(self) -> str:
        """Return them in words: ``frozen (at first)``, ``other-instruction: close the drawer``."""
        return "; ".join(_described(change) for change in self.changes)[:MAX_TEXT]

    @property
    def note(self) -> str:
        """Return what to know of the video shown; empty if it is what the judge saw."""
        seen = [one for one in self.changes if one["change"] not in TIMING | INSTRUCTION]
        if not seen:
            return ""
        return (
            f"As recorded; the judge saw it changed: {'; '.join(_described(one) for one in seen)[:MAX_TEXT]}"
        )


def changes_of(row: Mapping[str, Any]) -> Changes | None:
    """Return the changes of an episode's row; ``None`` for a recorded one or if unknown."""
    try:
        metadata = json.loads(row["metadata"] or "{}")
        recorded, changes = metadata["changed_from"], metadata["changed"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    good = isinstance(recorded, str) and isinstance(changes, list) and changes
    if not good or not all(isinstance(one, dict) and isinstance(one.get("change"), str) for one in changes):
        return None
    return Changes(recorded, changes)


def _changed(episode: Episode, change: Mapping[str, Any]) -> Episode:
    options = {name: value for name, value in change.items() if name != "change"}
    return perturb(episode, change["change"], **options)


def _described(change: Mapping[str, Any]) -> str:
    options = {name: value for name, value in change.items() if name != "change" and value is not None}
    if set(options) == {"instruction"}:
        return f"{change['change']}: {options['instruction']}"
    said = ", ".join(f"{name} {value}" for name, value in options.items())
    return f"{change['change']} ({said})" if said else str(change["change"])

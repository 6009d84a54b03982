"""Labelled episodes to train on: a source, the labels and subgoals that belong to it, and what they lack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stepscore.episodes import Episode, files_beside, open_episodes
from stepscore.errors import SourceError
from stepscore.procedures import success_from_stages


@dataclass(frozen=True)
class LabelledSource:
    """A source and its labels.

    Attributes:
        source: Folder or file of the episodes.
        labels: A labels file; ``None`` for the one next to the data, where there is one.
        subgoals: A subgoals file; as with labels.
        success_from_stages: Whether an episode with stages and no success label gets its success from them.
    """

    source: Path
    labels: Path | None = None
    subgoals: Path | None = None
    success_from_stages: bool = False

    def episodes(self, log: Callable[[str], None] = lambda text: None) -> list[Episode]:
        """Return its episodes with labels joined.

        Args:
            log: Called with a line about files that were found next to the data, one about labels of other episodes,
                and one about success labels made from stages.
        """
        beside = files_beside(self.source)
        labels, subgoals = self.labels or beside.get("labels"), self.subgoals or beside.get("subgoals")
        given = {"labels": self.labels, "subgoals": self.subgoals}
        found = [file.name for option, file in beside.items() if given[option] is None]
        if found:
            log(f"{self.source}: used {' and '.join(found)}, found next to the data.")
        listed = open_episodes(self.source, labels=labels, subgoals=subgoals)
        episodes = list(listed)
        if not episodes:
            raise SourceError(f"{self.source} has no episodes.")
        for problem in listed.problems[:1]:
            log(f"{problem.where}: {problem.why}")
        if self.success_from_stages:
            derived = success_from_stages(episodes)
            count = sum(new is not old for new, old in zip(derived, episodes, strict=True))
            log(f"{self.source}: {count} of {len(episodes)} success labels made from stages.")
            return derived
        return episodes

"""What a filter removed: each episode with its reason and label, and how labels see the filter as a whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stepscore.curation.selection import EpisodeSelection
from stepscore.runs import Run


@dataclass(frozen=True)
class RemovedEpisode:
    """A removed episode.

    Attributes:
        id: Its id.
        reason: Why it was removed.
        success: Whether it succeeded by label; ``None`` without a label.
        link: Its address in a report page.
    """

    id: str
    reason: str
    success: bool | None
    link: str


@dataclass(frozen=True)
class Removal:
    """The removed episodes, and how many labelled failures and successes the filter kept and removed.

    Attributes:
        episodes: The removed episodes, failures by label first, then unlabelled ones, then successes.
        failures: Labelled failures of the run.
        failures_kept: Those of them that are kept.
        successes: Labelled successes of the run.
        successes_removed: Those of them that are removed.
    """

    episodes: tuple[RemovedEpisode, ...]
    failures: int
    failures_kept: int
    successes: int
    successes_removed: int

    @property
    def text(self) -> str:
        """Return what labels say of the filter, in a sentence; empty without labels."""
        if not self.failures + self.successes:
            return ""
        return (
            f"Labelled failures kept: {self.failures_kept} of {self.failures}. "
            f"Labelled successes removed: {self.successes_removed} of {self.successes}."
        )

    def row(self) -> dict[str, Any]:
        """Return the removal as JSON values."""
        return asdict(self)


def removed_episodes(run: Run, selection: EpisodeSelection, page: Path | None = None) -> Removal:
    """Return what a selection removed from a run.

    Args:
        run: The run.
        selection: What is kept and dropped.
        page: The report that links lead into; without one a link is the part after the page's address.
    """
    labels: dict[str, bool | None] = {
        row["episode_id"]: row["success"]
        for row in run.episodes().select(["episode_id", "success"]).to_pylist()
    }
    base = f"{page or ''}#/explorer/{quote(run.path.name, safe='')}/"
    removed = [
        RemovedEpisode(name, reason, labels.get(name), base + quote(name, safe=""))
        for name, reason in selection.dropped.items()
    ]
    order = {False: 0, None: 1, True: 2}
    gone = [labels.get(name) for name in selection.dropped]
    kept = [labels.get(name) for name in selection.kept]
    return Removal(
        tuple(sorted(removed, key=lambda episode: order[episode.success])),
        failures=gone.count(False) + kept.count(False),
        failures_kept=kept.count(False),
        successes=gone.count(True) + kept.count(True),
        successes_removed=gone.count(True),
    )


def report_of(run: Run) -> Path | None:
    """Return the report page beside a run folder or in the folder above; ``None`` where there is none."""
    for folder in (run.path.parent / "report", run.path.parent.parent / "report"):
        if (folder / "index.html").is_file():
            return folder / "index.html"
    return None

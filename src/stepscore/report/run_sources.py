"""The recordings of a run, opened again: only those that were judged, and nothing from elsewhere.

A run folder may come from a stranger, and what it says about its source is then the stranger's word. So a recorded
source is looked for on this machine alone, its files must lie inside it, and a recording is used only if its
fingerprint is the one that was judged, which only someone who has the file can know. Where the user names the source,
by ``--source``, it may be on the Hub, and links and manifests in it may name files outside.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepscore._untrusted import shown
from stepscore.episodes import Episode, Episodes, Signal, View, open_episodes
from stepscore.episodes.remote import (
    RemoteSignals,
    cache_only,
    dataset_folder,
    dataset_url,
    is_url,
    offline_view,
)
from stepscore.errors import EpisodeError, SourceError, StepScoreError, exits_as_errors
from stepscore.runs import Run

_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}(?:@[\w.%-]{1,95})?", re.ASCII)


class RunSources:
    """The sources of some runs, each opened once, when one of its episodes is asked for.

    Args:
        runs: The runs; of two with the same source, the first says with which reader.
        source: Where the recordings are, instead of where the runs say.
    """

    def __init__(self, runs: Iterable[Run], source: str | None = None) -> None:
        self._readers: dict[str, str] = {}
        for run in runs:
            for recorded in (str(run.info["source"]), *_sources(run)):
                self._readers.setdefault(recorded, str(run.info["reader"]))
        self._given = source
        self._opened: dict[str, Episodes | StepScoreError] = {}

    def episode(self, row: Mapping[str, Any]) -> Episode:
        """Return the episode of a row of the ``episodes`` table, with the views that were judged.

        Raises:
            SourceError: Its source is not there.
            EpisodeError: It is not there, is not what was judged, or has a file outside of the source.
        """
        source = self._open(str(row["source"]))
        with cache_only() if self._given is None else nullcontext():
            episode: Episode = source[row["episode_id"]]
            if not episode.views:
                raise EpisodeError(
                    f"Episode {episode.id} of {shown(source.source)} has no video, only a recorded curve."
                )
            judged = episode.with_views([view["name"] for view in row["views"]])
            views = {name: self._usable(view, source) for name, view in judged.views.items()}
            _check_fingerprint(judged, row, source)
        return replace(judged, views=views)

    def views(self, row: Mapping[str, Any]) -> Mapping[str, View | str]:
        """Return every camera of an episode, or for each of them why it cannot be used; fetches nothing."""
        if not row["views"]:
            return {}
        try:
            source = self._open(str(row["source"]))
            with cache_only():
                judged = self.episode(row).views
                every = source[row["episode_id"]].views
        except StepScoreError as error:
            return dict.fromkeys((view["name"] for view in row["views"]), str(error))
        return {
            name: judged.get(name) or self._usable_or_reason(view, source) for name, view in every.items()
        }

    def records_signals(self, row: Mapping[str, Any]) -> bool:
        """Return whether the source of an episode records numbers beside its videos; ``False`` if it is not there."""
        with suppress(StepScoreError), cache_only():
            return (
                bool(row["views"])
                and self._open(str(row["source"]))[row["episode_id"]].signal_reader is not None
            )
        return False

    def signals(self, row: Mapping[str, Any]) -> tuple[Signal, ...]:
        """Return state, action and other numbers of an episode; empty where its source records none. Fetches nothing.

        Raises:
            SourceError: Its source is not there.
            EpisodeError: As for :meth:`episode`, or its file of numbers cannot be read.
        """
        source = self._open(str(row["source"]))
        if not self.records_signals(row):
            return ()
        with cache_only():
            episode = self.episode(row)
            reader = episode.signal_reader
            if reader is not None and self._given is None and not isinstance(reader, RemoteSignals):
                _check_file(reader.path, source)
            try:
                with exits_as_errors():
                    return episode.signals()
            except StepScoreError:
                raise
            except (
                Exception
            ) as error:  # a reader is anyone's code, and one bad episode must not hide the others
                raise EpisodeError(f"{type(error).__name__}: {error}") from error

    def _usable_or_reason(self, view: View, source: Episodes) -> View | str:
        try:
            return self._usable(view, source)
        except StepScoreError as error:
            return str(error)

    def _usable(self, view: View, source: Episodes) -> View:
        """Return the view if its files may be read; of a recorded source, one that fetches nothing."""
        if self._given is not None:
            return view
        if (offline := offline_view(view)) is not view:
            return offline
        _check_inside(view, source)
        return view

    def _open(self, recorded: str) -> Episodes:
        if recorded not in self._opened:
            try:
                self._opened[recorded] = self._open_once(recorded)
            except StepScoreError as error:
                self._opened[recorded] = error
        opened = self._opened[recorded]
        if isinstance(opened, StepScoreError):
            raise opened
        return opened

    def _open_once(self, recorded: str) -> Episodes:
        if self._given is not None:
            return open_episodes(self._given)
        if not recorded:
            raise SourceError(
                "The run does not record the source of its episodes, so their frames cannot be read. "
                "Name it: --source SOURCE"
            )
        try:
            with cache_only():
                return open_episodes(_local_path(recorded), reader=self._readers.get(recorded) or None)
        except StepScoreError as error:
            raise SourceError(f"Its source cannot be opened. {error}") from error


def _local_path(recorded: str) -> str:
    """Return where a recorded source is on this machine: its path, or the place of what was fetched of it."""
    # On Windows, looking at a path of another machine already sends it the user's name.
    elsewhere = os.name == "nt" and recorded.startswith(("\\\\", "//"))
    if not elsewhere and os.path.exists(recorded):
        _check_narrow(recorded)
        return os.path.abspath(recorded)
    if is_url(recorded) or _REPO_ID.fullmatch(recorded):
        with suppress(StepScoreError):
            return str(dataset_folder(recorded if is_url(recorded) else dataset_url(recorded)))
    raise SourceError(f"{shown(recorded)} is not on this machine. Name where it is: --source SOURCE")


def _check_narrow(recorded: str) -> None:
    """Refuse a folder that holds everything of this machine or of the user: listing it would take hours."""
    folder = Path(os.path.realpath(recorded))
    if folder == Path(folder.anchor) or Path(os.path.realpath(os.path.expanduser("~"))).is_relative_to(
        folder
    ):
        raise SourceError(
            f"{shown(recorded)} is not searched unless you name it, since it holds all files of yours. "
            "If the recordings are there, say so: --source SOURCE"
        )


def _sources(run: Run) -> list[str]:
    return [str(source) for source in run.episodes().column("source").unique().to_pylist()]


def _check_fingerprint(judged: Episode, row: Mapping[str, Any], source: Episodes) -> None:
    if row["fingerprint"] != judged.fingerprint:
        raise EpisodeError(
            f"Episode {judged.id} of {shown(source.source)} has changed since it was judged: its curve belongs to "
            "other frames. Judge it again: stepscore judge"
        )


def _check_inside(view: View, source: Episodes) -> None:
    for path in _files(view):
        _check_file(path, source)


def _check_file(path: Path, source: Episodes) -> None:
    root = os.path.realpath(source.source)
    if os.path.isfile(root):
        root = os.path.dirname(root)
    if not Path(os.path.realpath(path)).is_relative_to(_cached_dataset(root)):
        raise EpisodeError(
            f"{shown(path)} is outside of its source {shown(source.source)}. "
            "If the source is your own, say so: --source SOURCE"
        )


def _files(view: View) -> list[Path]:
    """Return the files of a view, as far as it names them; of images in one folder, the folder and the links."""
    images = getattr(view, "images", None)
    if isinstance(images, tuple):
        return [*{path.parent for path in images}, *(path for path in images if os.path.islink(path))]
    path = getattr(images if images is not None else view, "path", None)
    return [path] if isinstance(path, Path) else []


def _cached_dataset(root: str) -> Path:
    """Return the folder of a dataset in the Hub's cache for a snapshot in it, whose files are links to it."""
    path = Path(root)
    for folder in (path, *path.parents):
        if folder.name == "snapshots" and folder.parent.name.startswith("datasets--"):
            return folder.parent
    return path

"""LeRobot datasets on the Hugging Face Hub: fetched file by file, when they are needed.

:func:`dataset_folder` fetches ``meta/`` into the Hub's own cache. The folder of a dataset there is
``datasets--<user>--<name>/snapshots/<commit>/``, so a path inside it states which repository and which commit it
belongs to; :func:`fetch` downloads such a file when it is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stepscore.episodes.remote.cache_only import is_cache_only
from stepscore.episodes.view import View, ViewInfo
from stepscore.errors import MissingExtraError, SourceError, VideoError
from stepscore.types import FloatArray, Frames

_LISTING_FILES = ("meta/*", "*_progress.parquet")


class HubSnapshot(NamedTuple):
    """A dataset at one commit, in the Hub's cache."""

    repo_id: str
    commit: str
    cache: Path
    folder: Path


def dataset_folder(repo_id: str, revision: str | None = None) -> Path:
    """Fetch ``meta/`` and recorded progress of a dataset; return its folder in the Hub's cache.

    Args:
        repo_id: The dataset, ``user/name``.
        revision: A branch, tag or commit; ``None`` is the default branch.
    """
    hub = _hub(f"Reading {repo_id} from the Hub")
    try:
        folder = hub.snapshot_download(
            repo_id,
            repo_type="dataset",
            revision=revision,
            allow_patterns=list(_LISTING_FILES),
            **({"local_files_only": True} if is_cache_only() else {}),
        )
    except Exception as error:  # the Hub's errors share no base with those of its HTTP library
        raise SourceError(
            f"Cannot fetch dataset {repo_id!r} from the Hub: {str(error).rstrip('. ')}. "
            "A local dataset is given by the path of the folder that holds meta/info.json."
        ) from error
    return Path(folder)


def snapshot_of(path: Path) -> HubSnapshot | None:
    """Return the snapshot that holds ``path``, by the names of the folders; ``None`` outside the cache."""
    for folder in (path, *path.parents):
        repo = folder.parent.parent
        if folder.parent.name == "snapshots" and repo.name.startswith("datasets--"):
            repo_id = "/".join(repo.name.split("--")[1:])
            return HubSnapshot(repo_id, folder.name, repo.parent, folder)
    return None


def fetch(path: Path) -> Path:
    """Return ``path``, after fetching it where it is a missing file of a snapshot."""
    snapshot = None if path.exists() else snapshot_of(path)
    if snapshot is None:
        return path
    name = path.relative_to(snapshot.folder).as_posix()
    if is_cache_only():
        raise VideoError(f"{name} of dataset {snapshot.repo_id!r} has not been fetched.")
    hub = _hub(f"Fetching {name} of {snapshot.repo_id}")
    try:
        hub.hf_hub_download(
            snapshot.repo_id,
            name,
            repo_type="dataset",
            revision=snapshot.commit,
            cache_dir=snapshot.cache,
        )
    except Exception as error:  # as above
        raise VideoError(f"Cannot fetch {name} of dataset {snapshot.repo_id!r}: {error}.") from error
    return path


@dataclass(frozen=True)
class FetchedView:
    """A view whose file is fetched when it is first read.

    Attributes:
        path: The file to fetch.
        view: The view that reads it.
    """

    path: Path
    view: View

    def info(self) -> ViewInfo:
        """See :class:`stepscore.episodes.view.View`."""
        return self._fetched().info()

    def timestamps(self) -> FloatArray:
        """See :class:`stepscore.episodes.view.View`."""
        return self._fetched().timestamps()

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """See :class:`stepscore.episodes.view.View`."""
        return self._fetched().read(indices, size)

    def digest(self) -> bytes:
        """See :class:`stepscore.episodes.view.View`."""
        return self._fetched().digest()

    def location(self) -> str:
        """See :class:`stepscore.episodes.view.View`; fetches nothing."""
        return self.view.location()

    def _fetched(self) -> View:
        fetch(self.path)
        return self.view


def _hub(what: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtraError(what, "hub") from None
    return huggingface_hub

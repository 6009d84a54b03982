"""LeRobot datasets on the Hugging Face Hub: fetched file by file, as they are asked for.

:func:`dataset_folder` fetches ``meta/`` into the Hub's own cache. There a dataset lies in
``datasets--<user>--<name>/snapshots/<commit>/``, so a path inside it tells by itself which repository and
which commit it belongs to; :func:`fetch` brings such a file when it is not there yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stepscore.episodes.view import View, ViewInfo
from stepscore.errors import MissingExtraError, SourceError, VideoError
from stepscore.types import FloatArray, Frames

_FIRST = ("meta/*", "*_progress.parquet")


class HubSnapshot(NamedTuple):
    """A dataset at one commit, in the Hub's cache."""

    repo_id: str
    commit: str
    cache: Path
    folder: Path


def dataset_folder(repo_id: str, revision: str | None = None) -> Path:
    """The folder of a dataset in the Hub's cache, with its ``meta/`` and recorded progress fetched.

    Args:
        repo_id: ``user/name``.
        revision: A branch, tag or commit; ``None`` is the default branch.
    """
    hub = _hub(f"Reading {repo_id} from the Hub")
    try:
        folder = hub.snapshot_download(
            repo_id, repo_type="dataset", revision=revision, allow_patterns=list(_FIRST)
        )
    except Exception as error:  # the Hub's errors share no base with those of its HTTP library
        raise SourceError(
            f"Cannot fetch dataset {repo_id!r} from the Hub: {error}. "
            "A local dataset is given by the path of the folder that holds meta/info.json."
        ) from error
    return Path(folder)


def snapshot_of(path: Path) -> HubSnapshot | None:
    """The snapshot in which ``path`` lies, told by the names of the folders; ``None`` outside the cache."""
    for folder in (path, *path.parents):
        repo = folder.parent.parent
        if folder.parent.name == "snapshots" and repo.name.startswith("datasets--"):
            repo_id = "/".join(repo.name.split("--")[1:])
            return HubSnapshot(repo_id, folder.name, repo.parent, folder)
    return None


def fetch(path: Path) -> Path:
    """``path``, after fetching it where it is a file of a snapshot that is not there yet."""
    snapshot = None if path.exists() else snapshot_of(path)
    if snapshot is None:
        return path
    name = path.relative_to(snapshot.folder).as_posix()
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
    """A view whose file is fetched when it is first asked for something.

    Attributes:
        path: The file.
        view: The view of it.
    """

    path: Path
    view: View

    def info(self) -> ViewInfo:
        """See :class:`stepscore.episodes.view.View`."""
        return self._there().info()

    def timestamps(self) -> FloatArray:
        """See :class:`stepscore.episodes.view.View`."""
        return self._there().timestamps()

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """See :class:`stepscore.episodes.view.View`."""
        return self._there().read(indices, size)

    def digest(self) -> bytes:
        """See :class:`stepscore.episodes.view.View`."""
        return self._there().digest()

    def location(self) -> str:
        """See :class:`stepscore.episodes.view.View`; fetches nothing."""
        return self.view.location()

    def _there(self) -> View:
        fetch(self.path)
        return self.view


def _hub(what: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtraError(what, "hub") from None
    return huggingface_hub

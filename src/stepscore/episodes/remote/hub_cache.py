"""What is in the Hub's own cache on this machine: datasets and files that were downloaded whole.

A dataset's folder there is ``datasets--<user>--<name>/snapshots/<commit>/``, so a path inside it states which
repository and which commit it belongs to.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from stepscore.episodes.remote.hub import HubFolder, hub_folder


class HubSnapshot(NamedTuple):
    """A dataset at one commit, in the Hub's cache."""

    repo_id: str
    commit: str
    cache: Path
    folder: Path


def snapshot_of(path: Path) -> HubSnapshot | None:
    """Return the snapshot that holds ``path``, by the names of the folders; ``None`` outside the cache."""
    for folder in (path, *path.parents):
        repo = folder.parent.parent
        if folder.parent.name == "snapshots" and repo.name.startswith("datasets--"):
            repo_id = "/".join(repo.name.split("--")[1:])
            return HubSnapshot(repo_id, folder.name, repo.parent, folder)
    return None


def cached_snapshot(folder: HubFolder) -> Path | None:
    """Return the folder of a dataset in the Hub's cache, where its ``meta/info.json`` was downloaded."""
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(
            folder.repo_id, folder.path("meta/info.json"), repo_type=folder.kind, revision=folder.revision
        )
    except (ImportError, ValueError):  # ValueError: an id that the Hub cannot have
        return None
    return Path(found).parents[1] if isinstance(found, str) else None


def hub_copy(url: str, name: str, size: int) -> Path | None:
    """Return the place of a file in the Hub's cache, where all of it was downloaded at this very commit."""
    folder = hub_folder(url)
    if folder is None or not folder.is_pinned:
        return None
    repository = f"{folder.kind}s--{folder.repo_id.replace('/', '--')}"
    try:
        from huggingface_hub import constants

        path = Path(constants.HF_HUB_CACHE, repository, "snapshots", str(folder.revision), folder.path(name))
        return path if os.stat(path).st_size == size else None
    except (ImportError, OSError):
        return None

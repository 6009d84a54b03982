"""The files of a dataset at a URL: names, sizes and versions, as its store lists them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from stepscore.episodes.remote.stores import limits, s3
from stepscore.episodes.remote.stores.filesystem import open_filesystem
from stepscore.episodes.remote.stores.hub import hub_folder
from stepscore.episodes.remote.stores.hub_api import list_repository
from stepscore.episodes.remote.stores.reasons import no_answer, reason
from stepscore.episodes.remote.stores.waiting import wait_for_store
from stepscore.errors import SourceError, StepScoreError

LISTING = ".files.json"
"""The file list, kept in the dataset's folder on this machine."""

PINNED = ".pinned.json"
"""For a branch or tag of the Hub: the URL at the commit that was read last."""

OWN_ENDINGS = (".ranges", ".lock")
"""Endings of files that are kept beside the fetched ones."""

_TAGS = (
    "ETag",
    "etag",
    "md5Hash",
    "blob_id",
    "xet_hash",
    "checksum",
    "LastModified",
    "updated",
    "mtime",
    "created",
)
"""What stores call the version of a file, the most exact first."""

Files = dict[str, tuple[int, str]]


def list_files(url: str) -> Files:
    """Return size and version of every file of a dataset, by POSIX path.

    Raises:
        SourceError: There is no LeRobot dataset, its store does not list it, or the list does not end.
    """
    files: Files = {}
    try:
        for name, entry in _entries(url):
            size = entry.get("size")
            # A store may hold any name; only one that stays inside of the folder has a place on this machine.
            if _is_inside(name) and isinstance(size, int) and size >= 0:
                files[name] = (size, _tag(entry))
                if len(files) > limits.LISTED_FILES:
                    raise SourceError(
                        f"{url} has more than {limits.LISTED_FILES} files, the most of a dataset."
                    )
    except StepScoreError:
        raise
    except Exception as error:  # file systems share no base of their errors
        if isinstance(error, FileNotFoundError) and not no_answer(error):
            raise _no_dataset(url) from None
        raise SourceError(f"Cannot list {url}: {reason(error)}.") from error
    if "meta/info.json" not in files:
        if hub_folder(url) is not None:
            raise _no_dataset(url)
        raise SourceError(
            f"Cannot list {url}: its store lists files without their sizes. Download the dataset and pass its folder."
        )
    return files


def _no_dataset(url: str) -> SourceError:
    return SourceError(
        f"There is no meta/info.json in {url}. At a URL, LeRobot datasets are read; copy other recordings "
        "to this machine."
    )


def _entries(url: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    hub = hub_folder(url)
    if hub is not None:
        return list_repository(hub)
    filesystem, root = open_filesystem(url)
    root = root.rstrip("/")
    if url.partition("://")[0] in s3.PROTOCOLS:
        return s3.list_bucket(filesystem, root)
    filesystem.invalidate_cache()
    # First of all, since a folder that is none may be a bucket of millions of files.
    wait_for_store(filesystem, "info", f"{root}/meta/info.json", seconds=limits.REQUEST_S)
    listed = wait_for_store(filesystem, "find", root, detail=True, seconds=limits.LISTING_S)
    return [(path.removeprefix(root).lstrip("/"), entry) for path, entry in listed.items()]


def _is_inside(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return bool(name) and not PurePosixPath(name).is_absolute() and ".." not in parts and "\0" not in name


def _tag(entry: Mapping[str, Any]) -> str:
    return next((str(entry[key]) for key in _TAGS if entry.get(key)), "")


def why_no_place(name: str, files: Container[str]) -> str:
    """Return why one of the files of a dataset cannot be kept on this machine; empty where it can."""
    path = PurePosixPath(name)
    if len(name.encode("utf-8", "replace")) > limits.PATH_BYTES:
        return f"its path has more than {limits.PATH_BYTES} bytes"
    if any(len(part.encode("utf-8", "replace")) > limits.NAME_BYTES for part in path.parts):
        return f"its name has more than {limits.NAME_BYTES} bytes"
    if path.as_posix() != name or name in (LISTING, PINNED) or name.endswith(OWN_ENDINGS):
        return "its name is not usable on this machine"
    if any(parent.as_posix() in files for parent in path.parents):
        return "a folder of its path is also the name of a file"
    return ""

"""A LeRobot dataset at a URL: its file list, and the small files that say what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from stepscore._files import user_cache_folder, write_json
from stepscore._reading import read_json
from stepscore.episodes.remote.cache_only import is_cache_only
from stepscore.episodes.remote.filesystem import checked_url, open_filesystem, reason
from stepscore.episodes.remote.hub import (
    ATTEMPTS,
    hub_folder,
    is_offline,
    pinned,
    refusal,
    wait_before_retry,
)
from stepscore.episodes.remote.hub_cache import cached_snapshot
from stepscore.episodes.remote.ranges import RemoteFile, remote_folder
from stepscore.errors import SourceError, StepScoreError

MAX_FILES = 2_000_000
"""Most files of a dataset."""

LISTING = ".files.json"
"""The file list, kept in the dataset's folder on this machine."""

PINNED = ".pinned.json"
"""For a branch or tag of the Hub: the URL at the commit that was read last."""

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


@dataclass(frozen=True)
class RemoteDataset:
    """A dataset on another machine.

    Attributes:
        url: Its URL; on the Hub, at one commit.
        files: Size and version of every file, by POSIX path in the dataset.
    """

    url: str
    files: Mapping[str, tuple[int, str]]

    @property
    def name(self) -> str:
        """Its repo id on the Hub; elsewhere the last part of its URL."""
        hub = hub_folder(self.url)
        return PurePosixPath(self.url).name if hub is None else hub.name

    def file(self, path: Path) -> RemoteFile | None:
        """Return the file whose place on this machine is ``path``; ``None`` where the dataset has no such file."""
        name = self.relative(path)
        found = self.files.get(name)
        return None if found is None else RemoteFile(self.url, name, *found)

    def relative(self, path: Path) -> str:
        """Return the name in the dataset of a place on this machine."""
        return path.relative_to(remote_folder(self.url)).as_posix()


def dataset_folder(source: str) -> Path:
    """Fetch ``meta/`` and recorded progress of a dataset; return its folder on this machine.

    On the Hub, the dataset is pinned to the commit that its revision is at now. Where nothing may be asked (see
    ``cache_only``, and ``HF_HUB_OFFLINE``), it is what was fetched before.

    Args:
        source: URL of the folder that holds ``meta/info.json``.

    Raises:
        SourceError: There is no LeRobot dataset, or it cannot be read.
    """
    url = checked_url(source)
    hub = hub_folder(url)
    if is_cache_only() or (hub is not None and is_offline(hub)):
        return _fetched_before(url)
    at = url if hub is None else pinned(hub).url
    folder = remote_folder(at)
    known: RemoteDataset | None = None
    if hub is not None:  # what is in a commit never changes
        with suppress(SourceError, KeyError, TypeError, ValueError):  # a damaged list is made anew
            known = remote_dataset(folder)
    files = _list_files(at) if known is None else known.files
    small = [
        file for name, found in files.items() if (file := RemoteFile(at, name, *found)).describes_dataset()
    ]
    with ThreadPoolExecutor(8, thread_name_prefix="stepscore-fetch") as threads:
        try:
            list(threads.map(RemoteFile.fetch_all, small))
        except StepScoreError as error:
            raise SourceError(f"Cannot read the dataset {url}: {error}") from error
    if known is None:
        write_json(folder / LISTING, {"url": at, "files": files}, indent=None)
    if at != url:
        write_json(remote_folder(url) / PINNED, {"url": at}, make_folder=True)
    _forget_removed(folder, {file.name for file in small})
    return folder


def _fetched_before(url: str) -> Path:
    """Return the dataset's folder as it was fetched or downloaded last; nothing is asked."""
    noted = remote_folder(url) / PINNED
    found: list[tuple[float, Path]] = []
    with suppress(OSError, SourceError, KeyError, TypeError):
        folder = remote_folder(read_json(noted, SourceError)["url"] if noted.is_file() else url)
        if (folder / "meta" / "info.json").is_file():
            listing = noted if noted.is_file() else folder / LISTING
            found.append((listing.stat().st_mtime, folder))
    hub = hub_folder(url)
    snapshot = None if hub is None else cached_snapshot(hub)
    # Of the same commit, ours knows every file, and takes those that were downloaded from there.
    if snapshot is not None and not any(snapshot.name in folder.name for _, folder in found):
        found.append((snapshot.stat().st_mtime, snapshot))
    if not found:
        raise SourceError(f"Nothing of {url if hub is None else hub.name} has been fetched to this machine.")
    return max(found)[1]


def remote_dataset(folder: Path) -> RemoteDataset | None:
    """Return the dataset whose place on this machine is ``folder``; ``None`` for any other folder."""
    if folder.parent != user_cache_folder() / "remote" or not (folder / LISTING).is_file():
        return None
    return _read_listing(folder / LISTING, (folder / LISTING).stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _read_listing(path: Path, _mtime_ns: int) -> RemoteDataset:
    content = read_json(path, SourceError)
    return RemoteDataset(
        content["url"], {name: (size, tag) for name, (size, tag) in content["files"].items()}
    )


def _list_files(url: str) -> dict[str, tuple[int, str]]:
    hub = hub_folder(url)
    # On the Hub a new one: those that are kept may still be of another endpoint, and keep what they list.
    filesystem, root = open_filesystem(url, new=hub is not None)
    root = root.rstrip("/")
    import stamina

    retried = () if hub is None else wait_before_retry  # others repeat by themselves
    try:
        for attempt in stamina.retry_context(on=retried, attempts=ATTEMPTS, timeout=None):
            with attempt:
                filesystem.invalidate_cache()
                if hub is None:
                    # First of all, since a folder that is none may be a bucket of millions of files.
                    filesystem.info(f"{root}/meta/info.json")
                listed: dict[str, dict[str, Any]] = filesystem.find(root, detail=True)
                if hub is not None and f"{root}/meta/info.json" not in listed:
                    raise FileNotFoundError
    except FileNotFoundError:
        raise SourceError(
            f"There is no meta/info.json in {url}. At a URL, LeRobot datasets are read; copy other recordings "
            "to this machine."
        ) from None
    except Exception as error:  # file systems share no base of their errors
        if hub is not None:
            raise refusal(hub, error) from error
        raise SourceError(f"Cannot list {url}: {reason(error)}.") from error
    if len(listed) > MAX_FILES:
        raise SourceError(f"{url} has {len(listed)} files; at most {MAX_FILES} are listed.")
    files: dict[str, tuple[int, str]] = {}
    for path, entry in listed.items():
        name = path.removeprefix(root).lstrip("/")
        size = entry.get("size")
        # A store may hold any name; only one that stays inside of the folder has a place on this machine.
        inside = (
            name and not PurePosixPath(name).is_absolute() and ".." not in name.replace("\\", "/").split("/")
        )
        if inside and isinstance(size, int) and size >= 0:
            files[name] = (size, _tag(entry))
    if "meta/info.json" not in files:
        raise SourceError(
            f"{url} can be read, but its server lists files without their sizes, which are needed to read by range."
        )
    return files


def _tag(entry: Mapping[str, Any]) -> str:
    return next((str(entry[key]) for key in _TAGS if entry.get(key)), "")


def _forget_removed(folder: Path, present: set[str]) -> None:
    """Remove files of ``meta/`` and recorded progress that the dataset no longer has: readers list folders."""
    for path in (*(folder / "meta").rglob("*.parquet"), *folder.glob("*_progress.parquet")):
        if path.relative_to(folder).as_posix() not in present:
            path.unlink(missing_ok=True)
            path.with_name(f"{path.name}.ranges").unlink(missing_ok=True)

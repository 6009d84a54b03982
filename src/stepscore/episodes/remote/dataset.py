"""A LeRobot dataset at a URL: its file list, and the small files that say what is in it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from stepscore._files import user_cache_folder, write_json
from stepscore._threads import Threads
from stepscore._untrusted import read_json, shown
from stepscore.episodes.remote import limits, s3
from stepscore.episodes.remote.cache import LISTING, is_cache_only
from stepscore.episodes.remote.filesystem import checked_url, open_filesystem
from stepscore.episodes.remote.hub import hub_folder, is_offline
from stepscore.episodes.remote.hub_cache import cached_snapshot
from stepscore.episodes.remote.hub_http import list_repository, pinned
from stepscore.episodes.remote.limits import wait_for_store
from stepscore.episodes.remote.ranges import RemoteFile, remote_folder
from stepscore.episodes.remote.reasons import no_answer, reason
from stepscore.errors import SourceError, StepScoreError


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

    def described(self) -> list[RemoteFile]:
        """Return the files that listing reads, which have a place on this machine."""
        files = (RemoteFile(self.url, name, *found) for name, found in self.files.items())
        return [
            file for file in files if file.describes_dataset() and not why_no_place(file.name, self.files)
        ]

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the files that are left out, each with the reason."""
        for name in self.files:
            if why := why_no_place(name, self.files):
                yield shown(name), f"the file is left out: {why}"

    def file(self, path: Path) -> RemoteFile | None:
        """Return the file whose place on this machine is ``path``; ``None`` if there is none."""
        name = self.relative(path)
        found = self.files.get(name)
        return None if found is None or why_no_place(name, self.files) else RemoteFile(self.url, name, *found)

    def relative(self, path: Path) -> str:
        """Return the name in the dataset of a place on this machine."""
        return path.relative_to(remote_folder(self.url)).as_posix()


def dataset_folder(source: str) -> Path:
    """Fetch ``meta/`` and recorded progress of a dataset; return its folder on this machine.

    On the Hub, the dataset is pinned to the commit that its revision is at now. Where nothing may be asked (see
    ``cache_only``, and ``HF_HUB_OFFLINE``), it is what was fetched before.

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
        with suppress(SourceError, KeyError, TypeError, ValueError):  # a damaged list is made again
            known = remote_dataset(folder)
    dataset = RemoteDataset(at, list_files(at)) if known is None else known
    small = dataset.described()
    _check_meta(url, small)
    with Threads(8, "stepscore-fetch") as threads:
        try:
            list(threads.map(RemoteFile.fetch_all, small))
        except StepScoreError as error:
            raise SourceError(f"Cannot read the dataset {url}: {error}") from error
    if known is None:
        write_json(folder / LISTING, {"url": at, "files": dataset.files}, indent=None)
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


def _check_meta(url: str, described: Sequence[RemoteFile]) -> None:
    """Refuse a dataset whose own description is too large, before any of it is fetched."""
    for file in described:
        if file.size > limits.META_FILE_BYTES:
            raise SourceError(
                f"{shown(file.url)} is listed with {file.size:,} bytes; at most {limits.META_FILE_BYTES:,} are "
                "fetched of a file of meta/. If it is that large, download the dataset and pass its folder."
            )
    size = sum(file.size for file in described)
    if len(described) > limits.META_FILES or size > limits.META_BYTES:
        raise SourceError(
            f"meta/ of {url} is listed with {len(described):,} files and {size:,} bytes; at most "
            f"{limits.META_FILES:,} files and {limits.META_BYTES:,} bytes are fetched. If it is that large, download "
            "the dataset and pass its folder."
        )


def _forget_removed(folder: Path, present: set[str]) -> None:
    """Remove files of ``meta/`` and recorded progress that the dataset no longer has: readers list folders."""
    for path in (*(folder / "meta").rglob("*.parquet"), *folder.glob("*_progress.parquet")):
        if path.relative_to(folder).as_posix() not in present:
            path.unlink(missing_ok=True)
            path.with_name(f"{path.name}.ranges").unlink(missing_ok=True)


PINNED = ".pinned.json"
"""For a branch or tag of the Hub: the URL at the commit that was read last."""

OWN_ENDINGS = (".ranges", ".lock")
"""Endings of the bookkeeping files next to the fetched ones."""

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
    """Return size and version of every file of a dataset, by POSIX path; SourceError if it cannot be listed."""
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
    # First, because a folder that is not a dataset may be a bucket of millions of files.
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

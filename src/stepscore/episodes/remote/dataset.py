"""A LeRobot dataset at a URL: its file list, and the small files that say what is in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from stepscore._files import user_cache_folder, write_json
from stepscore._threads import Threads
from stepscore._untrusted import read_json, shown
from stepscore.episodes.remote.cache_only import is_cache_only
from stepscore.episodes.remote.hub_cache import cached_snapshot
from stepscore.episodes.remote.listing import LISTING, PINNED, list_files, why_no_place
from stepscore.episodes.remote.ranges import RemoteFile, remote_folder
from stepscore.episodes.remote.stores import limits
from stepscore.episodes.remote.stores.filesystem import checked_url
from stepscore.episodes.remote.stores.hub import hub_folder, is_offline
from stepscore.episodes.remote.stores.hub_api import pinned
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
        """Return the file whose place on this machine is ``path``; ``None`` where there is none."""
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

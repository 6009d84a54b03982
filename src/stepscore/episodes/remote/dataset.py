"""A LeRobot dataset at a URL: its file list, and the small files that say what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from stepscore._files import user_cache_folder, write_json
from stepscore._reading import read_json
from stepscore.episodes.remote.cache_only import is_cache_only
from stepscore.episodes.remote.filesystem import checked_url, open_filesystem, reason
from stepscore.episodes.remote.ranges import RemoteFile, remote_folder
from stepscore.errors import SourceError, StepScoreError

MAX_FILES = 2_000_000
"""Most files of a dataset."""

LISTING = ".files.json"
"""The file list, kept in the dataset's folder on this machine."""

_TAGS = ("ETag", "etag", "md5Hash", "blob_id", "checksum", "LastModified", "updated", "mtime", "created")
"""What stores call the version of a file, the most exact first."""


@dataclass(frozen=True)
class RemoteDataset:
    """A dataset on another machine.

    Attributes:
        url: Its URL.
        files: Size and version of every file, by POSIX path in the dataset.
    """

    url: str
    files: Mapping[str, tuple[int, str]]

    @property
    def name(self) -> str:
        """The last part of its URL."""
        return PurePosixPath(self.url).name

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

    Args:
        source: URL of the folder that holds ``meta/info.json``.

    Raises:
        SourceError: There is no LeRobot dataset, or it cannot be read.
    """
    url = checked_url(source)
    folder = remote_folder(url)
    if is_cache_only():
        if not (folder / LISTING).is_file():
            raise SourceError(f"Nothing of {url} has been fetched to this machine.")
        return folder
    files = _list_files(url)
    small = [
        RemoteFile(url, name, *found)
        for name, found in files.items()
        if name.startswith("meta/") or ("/" not in name and name.endswith("_progress.parquet"))
    ]
    with ThreadPoolExecutor(8, thread_name_prefix="stepscore-fetch") as threads:
        try:
            list(threads.map(RemoteFile.fetch_all, small))
        except StepScoreError as error:
            raise SourceError(f"Cannot read the dataset {url}: {error}") from error
    write_json(folder / LISTING, {"url": url, "files": files}, indent=None)
    _forget_removed(folder, {file.name for file in small})
    return folder


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
    filesystem, root = open_filesystem(url)
    root = root.rstrip("/")
    try:
        if not filesystem.exists(f"{root}/meta/info.json"):
            raise SourceError(
                f"There is no meta/info.json in {url}. At a URL, LeRobot datasets are read; copy other recordings "
                "to this machine."
            )
        filesystem.invalidate_cache()
        listed: dict[str, dict[str, Any]] = filesystem.find(root, detail=True)
    except StepScoreError:
        raise
    except Exception as error:  # file systems share no base of their errors
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
    return files


def _tag(entry: Mapping[str, Any]) -> str:
    return next((str(entry[key]) for key in _TAGS if entry.get(key)), "")


def _forget_removed(folder: Path, present: set[str]) -> None:
    """Remove files of ``meta/`` and recorded progress that the dataset no longer has: readers list folders."""
    for path in (*(folder / "meta").rglob("*.parquet"), *folder.glob("*_progress.parquet")):
        if path.relative_to(folder).as_posix() not in present:
            path.unlink(missing_ok=True)
            path.with_name(f"{path.name}.ranges").unlink(missing_ok=True)

"""Atomic writes: a file appears under its name only when it is whole.

It is written under a temporary name in the same folder and then renamed, so that a reader never sees half of
it, and a killed process leaves what was there before.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stepscore._untrusted import kind_of_file
from stepscore.errors import RunError

if TYPE_CHECKING:
    import pyarrow as pa


def user_cache_folder() -> Path:
    """Return ``$STEPSCORE_CACHE``, else the folder of this package in the user's cache folder."""
    if folder := os.environ.get("STEPSCORE_CACHE"):
        return Path(folder)
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(base or Path.home() / ".cache") / "stepscore"
    except RuntimeError as error:
        raise RunError(
            "There is no home folder for the call cache. Set STEPSCORE_CACHE to a folder, or judge with -E "
            "cache=false."
        ) from error


@contextmanager
def atomic_path(path: Path, *, make_folder: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` at the end, or remove it on an error.

    Two writers of one file, in any processes or threads, do not disturb each other: the last to finish wins.

    Args:
        path: The file.
        make_folder: Make its folder if it is not there.

    Raises:
        RunError: The file cannot be written; the message names it.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        _refuse_device(path)
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise RunError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        # Where the folder cannot be used either, the error above says it.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _refuse_device(path: Path) -> None:
    """Raise an OSError for a device, pipe or socket: a rename would put a file in the place even of /dev/null."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # there is nothing, or writing it says what is wrong
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, f"it is {kind_of_file(mode)}, not a file")


def create_once(path: Path, text: str) -> bool:
    """Write a new UTF-8 file, whole from the first; return ``False`` where there is one: of many writers one wins.

    A link is made to a file that is written already, which also NFS does at once or not at all.

    Raises:
        RunError: The file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            # The answer to a first try may have been lost on its way from a file server.
            return os.stat(temporary).st_nlink == 2
        except OSError:  # a file system without links
            return _create_without_link(path, text)
    except OSError as error:
        raise RunError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return True


def _create_without_link(path: Path, text: str) -> bool:
    try:
        with path.open("xb") as file:
            file.write(text.encode())
    except FileExistsError:
        return False
    return True


def remove_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Remove the temporary files of these names that killed processes left; no other may be writing them now."""
    for name in names:
        for path in folder.glob(f"{glob.escape(f'.{name}.')}*.tmp"):
            with suppress(OSError):
                path.unlink()


def write_text(path: Path, text: str, *, errors: str = "strict", make_folder: bool = False) -> None:
    """Write a UTF-8 file.

    Args:
        path: The file.
        text: Its content.
        errors: Treatment of characters that UTF-8 cannot hold, as in :meth:`str.encode`.
        make_folder: Make its folder if it is not there.
    """
    with atomic_path(path, make_folder=make_folder) as temporary:
        temporary.write_text(text, encoding="utf-8", errors=errors)


def write_json(
    path: Path,
    value: object,
    *,
    indent: int | None = 2,
    sort_keys: bool = False,
    ensure_ascii: bool = False,
    allow_nan: bool = True,
    make_folder: bool = False,
) -> None:
    """Write a value as JSON and a newline; options as in :func:`json.dumps` and :func:`atomic_path`."""
    text = json.dumps(
        value, indent=indent, sort_keys=sort_keys, ensure_ascii=ensure_ascii, allow_nan=allow_nan
    )
    write_text(path, text + "\n", make_folder=make_folder)


def write_parquet(path: Path, table: pa.Table, *, make_folder: bool = False) -> None:
    """Write a table as Parquet; ``make_folder`` as in :func:`atomic_path`."""
    import pyarrow.parquet as pq

    with atomic_path(path, make_folder=make_folder) as temporary:
        pq.write_table(table, temporary)

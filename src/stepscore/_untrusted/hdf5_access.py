"""Read an HDF5 file without following references to other files.

HDF5 lets a file store an array in another file (external storage, virtual datasets) or link to another file's
objects (external links), so an untrusted recording could display any local file as frames. Only data in the
file itself is read, only through the filters built into HDF5, and only up to the amount the file can hold.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from stepscore._untrusted.files import check_regular
from stepscore._untrusted.limits import MAX_READ_BYTES
from stepscore.errors import MissingExtraError, StepScoreError, VideoError

MAX_ATTRIBUTE_CELLS = 1 << 16
_MAX_LINKS = 8
_DEFLATE = 1
_FILTERS = {
    _DEFLATE: "gzip",
    2: "shuffle",
    3: "fletcher32",
    4: "szip",
    5: "nbit",
    6: "scaleoffset",
    32000: "lzf",
}
_MAX_RATIO = 2000
"""Largest allowed compression ratio of an array; gzip reaches 1,032."""
_UNCHECKED_CHUNK = 640 << 10
"""A compressed chunk of at most this many bytes cannot exceed ``MAX_READ_BYTES`` by much."""


@contextmanager
def open_h5(path: Path) -> Iterator[Any]:
    """Open the file; raise VideoError if the file or an object in it cannot be read."""
    try:
        import h5py
    except ImportError:
        raise MissingExtraError(f"Reading {path.name}", "hdf5") from None
    check_regular(path, VideoError)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except StepScoreError:
        raise
    except (
        Exception
    ) as error:  # h5py raises OSError, KeyError, RuntimeError, TypeError ... on damaged objects
        raise VideoError(f"Cannot read {path} as HDF5: {error}.") from error


def member(group: Any, name: str) -> Any:
    """Return the object at a path below a group, or ``None``; VideoError for a link to another file."""
    return _follow(group, name, _MAX_LINKS)


def members(group: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over names and objects of a group; VideoError for a link to another file."""
    for name in group:
        found = member(group, name)
        if found is not None:
            yield name, found


def _follow(group: Any, name: str, links: int) -> Any:
    import h5py

    if name.startswith("/"):
        group = group.file
    for part in filter(None, name.split("/")):
        if part == ".":
            continue
        link = group.get(part, getlink=True) if isinstance(group, h5py.Group) else None
        if link is None:
            return None
        where = f"{group.file.filename}:{group.name.rstrip('/')}/{part}"
        if isinstance(link, h5py.SoftLink):
            if not links:
                raise VideoError(f"{where} is a link to a link, more than {_MAX_LINKS} times.")
            group = _follow(group, link.path, links - 1)
        elif isinstance(link, h5py.HardLink):
            group = group[part]
        else:
            raise VideoError(
                f"{where} is a link to another file ({getattr(link, 'filename', 'of an unknown kind')}); only data "
                "in the file itself is read. Copy it into one file: h5repack --merge IN OUT"
            )
    return group


def is_group(found: Any) -> bool:
    """Return whether an object has members."""
    import h5py

    return isinstance(found, h5py.Group)


def attribute(found: Any, name: str) -> Any:
    """Return an attribute's value; ``None`` if it is missing or has too many cells for a setting."""
    if name not in found.attrs:
        return None
    shape = found.attrs.get_id(name).shape
    return found.attrs[name] if math.prod(shape or ()) <= MAX_ATTRIBUTE_CELLS else None


def checked_dataset(dataset: Any, where: str) -> Any:
    """Return the dataset; VideoError if its data is in another file or incomplete."""
    import h5py

    if not isinstance(dataset, h5py.Dataset):
        raise VideoError(f"{where} is not in the file." if dataset is None else f"{where} is not an array.")
    if dataset.is_virtual:
        raise VideoError(
            f"{where} is a virtual dataset, made of other files. Copy it into one file: h5repack"
        )
    if dataset.external:
        raise VideoError(
            f"{where} is kept in another file ({dataset.external[0][0]!r}); only data in the file itself "
            "is read."
        )
    plist = dataset.id.get_create_plist()
    for number in range(plist.get_nfilters()):
        code = plist.get_filter(number)[0]
        if code not in _FILTERS:
            raise VideoError(
                f"{where} is compressed by filter {code}; readable: {', '.join(_FILTERS.values())}. "
                "Repack it: h5repack -f GZIP=4 IN OUT"
            )
    stored = _stored(dataset).bytes
    if dataset.nbytes > max(stored, 1 << 10) * _MAX_RATIO:
        raise VideoError(
            f"{where} claims {dataset.nbytes} bytes {dataset.shape}, but only {stored} are stored."
        )
    if dataset.chunks is not None and math.prod(dataset.chunks) * dataset.dtype.itemsize > MAX_READ_BYTES:
        raise VideoError(f"{where} has chunks {dataset.chunks}; at most {MAX_READ_BYTES >> 20} MiB are read.")
    return dataset


def check_rows(dataset: Any, rows: Iterable[int], where: str) -> None:
    """Raise VideoError if reading one of these rows would decompress more than ``MAX_READ_BYTES``."""
    if dataset.chunks is None or not dataset.id.get_create_plist().get_nfilters():
        return
    chunk_bytes = math.prod(dataset.chunks) * dataset.dtype.itemsize
    counts = [-(-n // size) for n, size in zip(dataset.shape[1:], dataset.chunks[1:], strict=True)]
    if math.prod(counts) * chunk_bytes > MAX_READ_BYTES:
        raise VideoError(
            f"{where}: a row is spread over {math.prod(counts)} chunks {dataset.chunks}. Repack it by rows: h5repack"
        )
    if _stored(dataset).largest_chunk <= _UNCHECKED_CHUNK:
        return
    # A compressed chunk may unpack to more than its declared size, and HDF5 unpacks all of it.
    begins = {row // dataset.chunks[0] * dataset.chunks[0] for row in rows}
    for begin, *place in product(sorted(begins), *map(range, counts)):
        first = (begin, *(at * size for at, size in zip(place, dataset.chunks[1:], strict=True)))
        if dataset.id.get_chunk_info_by_coord(first).size > _UNCHECKED_CHUNK:
            _check_chunk(dataset, first, chunk_bytes, where)


class _Stored(NamedTuple):
    """Stored size of a dataset in bytes; ``largest_chunk`` is an upper bound of the compressed chunk sizes."""

    bytes: int
    largest_chunk: int


_MAX_KNOWN = 4096
_known: dict[tuple[object, ...], _Stored] = {}


def _stored(dataset: Any) -> _Stored:
    """Return the stored sizes, cached until the file changes because HDF5 has to visit every chunk."""
    status = os.stat(dataset.file.filename)
    key = (dataset.file.filename, dataset.name, status.st_ino, status.st_size, status.st_mtime_ns)
    found = _known.get(key)
    if found is None:
        stored = largest = dataset.id.get_storage_size()
        if dataset.chunks is not None and stored > _UNCHECKED_CHUNK and hasattr(dataset.id, "chunk_iter"):
            sizes: list[int] = [0]
            dataset.id.chunk_iter(lambda chunk: sizes.append(chunk.size))
            largest = max(sizes)
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        found = _known[key] = _Stored(stored, largest)
    return found


def _check_chunk(dataset: Any, first: tuple[int, ...], chunk_bytes: int, where: str) -> None:
    plist = dataset.id.get_create_plist()
    if _DEFLATE not in {plist.get_filter(number)[0] for number in range(plist.get_nfilters())}:
        return
    mask, content = dataset.id.read_direct_chunk(first)
    inflate = zlib.decompressobj()
    left, pending = chunk_bytes + (1 << 10), content
    while not mask and pending and not inflate.eof:
        left -= len(inflate.decompress(pending, 1 << 20))
        pending = inflate.unconsumed_tail
        if left < 0:
            raise VideoError(f"{where} has a chunk that holds more than its {chunk_bytes} bytes.")

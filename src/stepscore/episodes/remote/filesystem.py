"""Open remote file systems by URL with fsspec."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from stepscore.episodes.remote import s3
from stepscore.episodes.remote.reasons import reason
from stepscore.errors import MissingExtraError, SourceError

_EXTRAS = {"s3": "remote", "s3a": "remote", "hf": "hub"}
"""Extras that install the packages fsspec needs for a protocol."""

_PACKAGES = {
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "sftp": "paramiko",
    "ssh": "paramiko",
}
"""Packages fsspec needs for other protocols."""


def is_url(source: object) -> bool:
    """Return whether a source is a URL rather than a path."""
    return "://" in str(source)


def checked_url(source: str) -> str:
    """Return the URL of a folder without a trailing slash; runs record the URL, so secrets are rejected.

    Raises:
        SourceError: The URL contains a user name, a key or a query, chains several file systems, or points to
            a web server.
    """
    url = source.rstrip("/")
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise SourceError(
            f"The URL of a source may hold no name, key or query, since runs record it: {parts.scheme}://... "
            "Put credentials where its file system looks for them, e.g. AWS_ACCESS_KEY_ID."
        )
    if "::" in url or not parts.scheme or not (parts.netloc or parts.path):
        raise SourceError(f"{url[:200]!r} is not the URL of a folder, such as s3://bucket/dataset.")
    if parts.scheme in ("http", "https"):
        # Send no request, because a web server answers for a folder with a page of links of unknown length.
        raise SourceError(
            f"Cannot list {url[:200]}: web servers have no list of a folder's files and their sizes. "
            "Download the dataset and pass its folder; for a dataset on the Hub, pass its repo id (user/name)."
        )
    return url


def open_filesystem(url: str, *, new: bool = False) -> tuple[Any, str]:
    """Return fsspec's file system for a URL, and the path inside that file system.

    Args:
        url: The URL.
        new: Create a new file system object instead of reusing a cached one.

    Raises:
        MissingExtraError: fsspec, or the package it needs for S3 or the Hub, is not installed.
        SourceError: The protocol is unknown, needs another package, or the store cannot be opened.
    """
    protocol = urlsplit(url).scheme
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError(f"Reading {protocol}:// addresses", _EXTRAS.get(protocol, "remote")) from None
    try:
        options = s3.client_options() if protocol in s3.PROTOCOLS else {}
        filesystem, path = url_to_fs(url, skip_instance_cache=new, **options)
    except ImportError:
        if protocol in _EXTRAS:
            raise MissingExtraError(f"Reading {protocol}:// addresses", _EXTRAS[protocol]) from None
        package = _PACKAGES.get(protocol, f"fsspec's package for {protocol}")
        raise SourceError(
            f"Reading {protocol}:// addresses needs another package: pip install {package}"
        ) from None
    except Exception as error:  # fsspec's file systems have no common error class
        raise SourceError(f"Cannot open {url}: {reason(error)}.") from error
    return filesystem, str(path)

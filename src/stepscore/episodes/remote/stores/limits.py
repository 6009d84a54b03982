"""Limits on what another machine may take: seconds, bytes, requests and files.

A store is untrusted: it may send for ever, or nothing, and list files of any size. The limits have no option.
"""

from __future__ import annotations

REQUEST_S = 60.0
"""Seconds for a whole answer, repeated attempts of a store's client included; larger answers have longer."""

SLOWEST_BYTES_PER_S = 1 << 16
"""Bytes a second for which an answer has longer."""

RETRYING_S = 900.0
"""Seconds for all attempts of one request to the Hub, which may ask to be left alone for minutes."""

LISTING_S = 600.0
"""Seconds for listing a dataset in a store whose requests cannot be counted."""

LISTING_REQUESTS = 10_000
"""Most requests for listing a dataset in a bucket or on the Hub."""

LISTED_FILES = 2_000_000
"""Most files of a dataset."""

ANSWER_BYTES = 1 << 25
"""Longest answer that is no file: a page of a listing has a megabyte at most."""

ERROR_BYTES = 1 << 16
"""Longest answer that refuses a request."""

META_FILE_BYTES = 1 << 30
"""Largest file of ``meta/``; readers refuse text files over 256 MiB."""

META_BYTES = 1 << 33
"""Most bytes of ``meta/`` and recorded progress, together."""

META_FILES = 20_000
"""Most files of ``meta/`` and recorded progress."""

KEPT_FREE_BYTES = 1 << 30
"""Bytes that fetching leaves free on the disk."""

NAME_BYTES = 200
"""Longest name of a file or folder, in bytes: file systems have 255, and endings are added."""

PATH_BYTES = 1024
"""Longest path of a file in a dataset, in bytes, as in S3."""


def time_for(size: int) -> float:
    """Return the seconds that an answer of so many bytes may take."""
    return REQUEST_S + size / SLOWEST_BYTES_PER_S

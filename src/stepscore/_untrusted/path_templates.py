"""Path templates of a LeRobot dataset: the known fields in plain form, and no path that leaves the dataset.

``str.format`` can do more than a path needs: ``{chunk_index:>999999999}`` makes a text of a gigabyte, and
``{video_key.__class__}`` walks through Python's objects. A template is checked once, when the dataset is opened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath, PureWindowsPath
from string import Formatter

from stepscore.errors import SourceError

_V3 = ("chunk_index", "file_index", "video_key")
_V2 = ("episode_chunk", "episode_index", "video_key")
_NUMBER = re.compile(r"(?:0?\d)?d?")


def check_template(template: str, features: Sequence[str], where: str, *, is_v3: bool) -> None:
    """Raise SourceError where a template is not plain, or leads out of the dataset with one of these features."""
    fields = _V3 if is_v3 else _V2
    try:
        parts = [part[1:] for part in Formatter().parse(template) if part[1] is not None]
    except ValueError:
        parts = [("", "", None)]
    for name, spec, conversion in parts:
        fits = (
            name in fields
            and conversion is None
            and (spec == "" if name == "video_key" else _NUMBER.fullmatch(spec or ""))
        )
        if not fits:
            raise SourceError(
                f"{where}: the path template {template[:200]!r} is invalid. It may contain "
                f"{', '.join(fields)}, numbers as {{{fields[0]}:03d}}."
            )
    for feature in features or ("",):
        numbers = dict.fromkeys(fields[:2], 0)
        path = template.format(**numbers, video_key=feature)
        if (
            PurePosixPath(path).is_absolute()
            or PureWindowsPath(path).drive
            or ".." in re.split(r"[/\\\\]", path)
        ):
            raise SourceError(f"{where}: the path {path[:200]!r} leads out of the dataset.")

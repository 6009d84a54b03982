"""The protocol: all that can change a number, as one canonical JSON with a hash.

Results of different protocols are never mixed silently. What cannot change a number (workers, dates, library
versions, the selection of episodes) is kept beside it in ``run.json``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepscore.errors import OptionError
from stepscore.judges import Judge, JudgeTraits, only_model

MAX_VALUE_CHARS = 50
"""Most characters of a value in a message; a calibration map has thousands."""


@dataclass(frozen=True)
class Protocol:
    """The protocol of a run as JSON values. Runs with equal hashes can be put in one table."""

    content: Mapping[str, object]

    @property
    def text(self) -> str:
        """Canonical JSON: sorted keys, no spaces, no NaN."""
        return canonical_json(self.content)

    @property
    def hash(self) -> str:
        """First 16 hex digits of the sha256 of the canonical JSON."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def judge_and_model(self) -> tuple[str, str]:
        """The names of the judge and of its model; empty if there is none."""
        flat = _flatten(self.content)
        return str(flat.get("judge.name", "")), str(flat.get("model.name", ""))

    def differences(self, other: Protocol) -> list[str]:
        """Return the differences from another protocol, each as ``judge.options.points is 16, not 32``."""
        mine, theirs = _flatten(self.content), _flatten(other.content)
        return [
            f"{key} is {_value_text(mine, key)}, not {_value_text(theirs, key)}"
            for key in sorted(mine.keys() | theirs.keys())
            if mine.get(key) != theirs.get(key)
        ]

    def edited_files(self, other: Protocol) -> list[str]:
        """Return the names of the user's own files (judge, reader) whose content differs from the other's."""
        mine, theirs = _flatten(self.content), _flatten(other.content)
        codes = [f"{part}.code" for part in ("judge", "reader")]
        return [
            str(mine[f"{code}.file"])
            for code in codes
            if mine.get(f"{code}.file") == theirs.get(f"{code}.file") is not None
            and mine[f"{code}.sha256"] != theirs[f"{code}.sha256"]
        ]


def protocol_of(
    judge: Judge,
    views: Sequence[str] | None = None,
    reader_code: Mapping[str, str] | None = None,
    goal: Mapping[str, object] | None = None,
) -> Protocol:
    """Return the protocol of a judge.

    Args:
        judge: The judge, with the sha256 of its file if the command line named one.
        views: The views; ``None`` for those of each episode.
        reader_code: File, class and sha256 of a reader in such a file.
        goal: How goal images were chosen, if not by the source. The images themselves are in the fingerprints.
    """
    model = only_model(judge)
    code = JudgeTraits.of(judge).local_code
    content: dict[str, object] = {
        "judge": {"name": judge.name, "version": judge.version, "options": dict(judge.options())}
        | ({"code": dict(code)} if code is not None else {}),
        "model": None if model is None else dict(model.describe()),
        "views": list(views) if views is not None else None,
    }
    if reader_code is not None:
        content["reader"] = {"code": dict(reader_code)}
    if goal is not None:
        content["goal"] = dict(goal)
    try:
        return Protocol(json.loads(canonical_json(content)))
    except (TypeError, ValueError) as error:
        raise OptionError(f"Judge {judge.name!r} has an option that is not a JSON value: {error}.") from error


def canonical_json(value: object) -> str:
    """Return the only JSON text of a value: sorted keys, no spaces; raise ValueError for NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _flatten(value: object, prefix: str = "") -> dict[str, object]:
    if isinstance(value, Mapping):
        parts = [_flatten(item, f"{prefix}.{key}" if prefix else str(key)) for key, item in value.items()]
        return {key: item for part in parts for key, item in part.items()}
    return {prefix: value}


def _value_text(flat: Mapping[str, object], key: str) -> str:
    text = json.dumps(flat[key], ensure_ascii=False) if key in flat else "absent"
    return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 1] + "…"

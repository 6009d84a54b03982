"""The manifest of a sharded run folder: ``shards.json``, written by the first shard to start.

::

    RUN/shards.json              number of shards, protocol, source, hash of the ids
    RUN/shards/0003-of-0050/     the run folder of a shard, with run.json, journal and tables
    RUN/shards/0003-of-0050/shard.json   the ids of its episodes
    RUN/run.json, journal, tables        after ``stepscore merge RUN``
"""

from __future__ import annotations

import json
import re
import shlex
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stepscore._files import create_once
from stepscore._untrusted import read_json, shown
from stepscore.errors import ProtocolMismatchError, RunError, first_field_error
from stepscore.runs.protocol import Protocol
from stepscore.runs.run_info import MAX_BYTES, make_folder, read_info
from stepscore.runs.shards.shard import MAX_SHARDS, Cut, Shard

MANIFEST_FILE, SHARD_FILE = "shards.json", "shard.json"
FORMAT = 1

_READ_TRIES, _READ_PAUSE_S = 20, 0.05
_NEW = re.compile(rf"\.{re.escape(MANIFEST_FILE)}\.[0-9a-f]+\.tmp")


@dataclass(frozen=True)
class Manifest:
    """The division of a run, the same for all shards of a folder.

    ``ids`` is a hash of all ids, ``batch`` is the size of batches that stay together, and ``source`` is the
    source as given by the user.
    """

    shards: int
    episodes: int
    ids: str
    batch: int
    source: str
    protocol: dict[str, Any]

    @property
    def cut(self) -> tuple[int, int, str, int]:
        """The values that determine which episodes belong to which shard."""
        return self.shards, self.episodes, self.ids, self.batch


@dataclass(frozen=True)
class ShardContent:
    """A shard's number, :attr:`Manifest.cut` and episode ids, as stored in the shard's folder."""

    index: int
    cut: tuple[int, int, str, int]
    episodes: list[str]


_MANIFEST, _CONTENT = TypeAdapter(Manifest), TypeAdapter(ShardContent)


def begin_shard(run: Path, shard: Shard, part: Cut, protocol: Protocol, source: str) -> Path:
    """Return the folder of a shard; write the run's manifest, or check that an existing manifest matches.

    If several shards start at the same time, one writes the manifest and the others read it.
    """
    if find_manifest(run, shard, part, protocol, source) is None:
        _check_new(run)
        make_folder(run)
        mine = {"format": FORMAT, **asdict(_manifest(shard, part, protocol, source))}
        create_once(run / MANIFEST_FILE, json.dumps(mine, indent=2) + "\n")
        find_manifest(run, shard, part, protocol, source)
    folder = shard.folder(run)
    folder.parent.mkdir(exist_ok=True)
    return folder


def find_manifest(run: Path, shard: Shard, part: Cut, protocol: Protocol, source: str) -> Manifest | None:
    """Return the manifest of a run folder after checking that the shard belongs to it; ``None`` without one."""
    found = read_manifest(run)
    if found is not None:
        _check_same(run, _manifest(shard, part, protocol, source), found)
    return found


def _manifest(shard: Shard, part: Cut, protocol: Protocol, source: str) -> Manifest:
    return Manifest(shard.count, part.total, part.digest, part.batch, source, dict(protocol.content))


def read_manifest(run: Path) -> Manifest | None:
    """Return the manifest of a run folder; ``None`` if the run is not divided."""
    file = run / MANIFEST_FILE
    for tried in range(_READ_TRIES):
        if not file.is_file():
            return None
        if file.stat().st_size or tried == _READ_TRIES - 1:
            break
        time.sleep(_READ_PAUSE_S)  # another shard is writing the file, on a file system without links
    content = read_json(file, RunError, max_bytes=MAX_BYTES)
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise RunError(f"{shown(file)} is not in format {FORMAT}; it may be from another version or program.")
    found: Manifest = _checked(_MANIFEST, content, file)
    if not (1 <= found.shards <= MAX_SHARDS and found.episodes >= 0 and found.batch >= 1):
        raise RunError(f"{shown(file)} is damaged: {found.shards} shards of {found.episodes} episodes.")
    return found


def _checked(schema: TypeAdapter[Any], content: object, file: Path) -> Any:
    try:
        return schema.validate_python(content)
    except ValidationError as error:
        wrong = first_field_error(error)
        raise RunError(f"{shown(file)} is damaged ({wrong.field}: {shown(wrong.message)}).") from error


def finished_shards(run: Path, manifest: Manifest) -> set[Shard]:
    """Return the shards that have judged all their episodes."""
    shards = [Shard(index, manifest.shards) for index in range(1, manifest.shards + 1)]
    return {shard for shard in shards if (read_info(shard.folder(run)) or {}).get("status") == "finished"}


def unmerged_sentence(run: Path) -> str | None:
    """Return a sentence on how many shards are finished and how to merge them; ``None`` without shards."""
    if (manifest := read_manifest(run)) is None:
        return None
    finished = len(finished_shards(run, manifest))
    return (
        f"{shown(run)} is divided into {manifest.shards} shards that are not merged yet; {finished} of "
        f"{manifest.shards} are finished. Run: stepscore merge {shlex.quote(shown(run))}"
    )


def write_shard_content(folder: Path, shard: Shard, part: Cut) -> None:
    """Store the ids of a shard's episodes in its folder, so that a merge can list missing episodes."""
    ids = [episode.id for episode in part.episodes]
    content = ShardContent(shard.index, (shard.count, part.total, part.digest, part.batch), ids)
    create_once(folder / SHARD_FILE, json.dumps(asdict(content)) + "\n")


def read_shard_content(folder: Path) -> ShardContent | None:
    """Return the planned content of a shard; ``None`` for a folder without it."""
    file = folder / SHARD_FILE
    content: ShardContent | None = (
        _checked(_CONTENT, read_json(file, RunError), file) if file.is_file() else None
    )
    return content


def _check_new(run: Path) -> None:
    """Raise an error if the folder contains anything except files that its other shards are writing."""
    if not run.exists():
        return
    if (run / "run.json").exists():
        raise RunError(
            f"{shown(run)} holds a run that is not divided. Resume it without --shard, or choose another "
            "folder: -o RUN"
        )
    names = {path.name for path in run.iterdir()} if run.is_dir() else {""}
    if MANIFEST_FILE not in names and not all(_NEW.fullmatch(name) for name in names):
        raise RunError(f"{shown(run)} exists and is not a run folder. Choose a new or empty folder: -o RUN")


def _check_same(run: Path, mine: Manifest, found: Manifest) -> None:
    """Raise an error if a shard's manifest differs from the folder's."""
    if found.shards != mine.shards:
        raise RunError(
            f"{shown(run)} is divided into {found.shards} shards, not {mine.shards}. Use --shard I/{found.shards} "
            "like its other shards, or choose another folder: -o RUN"
        )
    differences = Protocol(mine.protocol).differences(Protocol(found.protocol))
    if differences:
        raise ProtocolMismatchError(
            f"The other shards of {shown(run)} have another protocol ({'; '.join(differences)}). "
            "Use the same options for every shard, or choose another folder: -o RUN"
        )
    if found.source != mine.source:
        raise RunError(
            f"The other shards of {shown(run)} have another source ({shown(found.source)}, not "
            f"{shown(mine.source)}). Use the same path for every shard, or judge each into a separate folder and "
            "merge those: stepscore merge A B -o RUN"
        )
    if found.cut != mine.cut:
        what = f"{found.episodes} episodes with other ids than those selected now"
        if (found.episodes, found.batch) != (mine.episodes, mine.batch):
            what = (
                f"{found.episodes} episodes in batches of {found.batch}, not {mine.episodes} of {mine.batch}"
            )
        raise RunError(
            f"{shown(run)} is divided for {what}. Select the same for every shard, or choose another folder: -o RUN"
        )

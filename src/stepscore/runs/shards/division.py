"""The division of a run folder into shards: ``shards.json``, which its first shard writes and all others agree with.

::

    RUN/shards.json              number of shards, protocol, source, hash of the ids
    RUN/shards/0003-of-0050/     a run folder of its own, with run.json, journal and tables
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
from stepscore.runs.run_info import MAX_BYTES, read_info
from stepscore.runs.shards.shard import MAX_SHARDS, Cut, Shard

DIVISION_FILE, SHARD_FILE = "shards.json", "shard.json"
FORMAT = 1

_READ_TRIES, _READ_PAUSE_S = 20, 0.05
_NEW = re.compile(rf"\.{re.escape(DIVISION_FILE)}\.[0-9a-f]+\.tmp")


@dataclass(frozen=True)
class Division:
    """How a run is divided; shards of one folder have the same.

    Attributes:
        shards: Number of shards.
        episodes: Number of episodes of all shards.
        ids: Hash of their ids.
        batch: Episodes that are never divided.
        source: The source, as it was given.
        protocol: The protocol.
    """

    shards: int
    episodes: int
    ids: str
    batch: int
    source: str
    protocol: dict[str, Any]

    @property
    def cut(self) -> tuple[int, int, str, int]:
        """What decides which episodes are in which shard."""
        return self.shards, self.episodes, self.ids, self.batch


@dataclass(frozen=True)
class ShardState:
    """What a shard's folder says.

    Attributes:
        shard: The shard.
        status: The status of its ``run.json``; empty where it was never started.
    """

    shard: Shard
    status: str

    @property
    def finished(self) -> bool:
        """Whether its last start judged all its episodes."""
        return self.status == "finished"


_DIVISION = TypeAdapter(Division)


def begin_shard(run: Path, shard: Shard, part: Cut, protocol: Protocol, source: str) -> Path:
    """Return the folder of a shard; make the division of its run folder, or check that it agrees with the one there.

    Of shards that start at once one makes the division, and the others read it.

    Raises:
        RunError: The folder is divided otherwise, or holds something else.
        ProtocolMismatchError: It is divided for another protocol.
    """
    if find_division(run, shard, part, protocol, source) is None:
        _check_new(run)
        try:
            run.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"Cannot make {shown(run)}: {error.strerror or error}.") from error
        mine = _division(shard, part, protocol, source)
        create_once(run / DIVISION_FILE, json.dumps({"format": FORMAT, **asdict(mine)}, indent=2) + "\n")
        find_division(run, shard, part, protocol, source)
    folder = shard.folder(run)
    folder.parent.mkdir(exist_ok=True)
    return folder


def find_division(run: Path, shard: Shard, part: Cut, protocol: Protocol, source: str) -> Division | None:
    """Return the division of a run folder, which a shard must be of; ``None`` where the folder is not divided.

    Raises:
        RunError: The folder is divided otherwise.
        ProtocolMismatchError: It is divided for another protocol.
    """
    found = read_division(run)
    if found is not None:
        _check_same(run, _division(shard, part, protocol, source), found)
    return found


def _division(shard: Shard, part: Cut, protocol: Protocol, source: str) -> Division:
    return Division(shard.count, part.total, part.digest, part.batch, source, dict(protocol.content))


def read_division(run: Path) -> Division | None:
    """Return the division of a run folder; ``None`` where it is not divided."""
    file = run / DIVISION_FILE
    for tried in range(_READ_TRIES):
        if not file.is_file():
            return None
        if file.stat().st_size or tried == _READ_TRIES - 1:
            break
        time.sleep(_READ_PAUSE_S)  # being written, on a file system without links
    content = read_json(file, RunError, max_bytes=MAX_BYTES)
    try:
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise RunError(f"{shown(file)} is of another format than {FORMAT}, or of another program.")
        found = _DIVISION.validate_python(content)
        if not (1 <= found.shards <= MAX_SHARDS and found.episodes >= 0 and found.batch >= 1):
            raise RunError(f"{shown(file)} is damaged: {found.shards} shards of {found.episodes} episodes.")
        return found
    except ValidationError as error:
        wrong = first_field_error(error)
        raise RunError(f"{shown(file)} is damaged ({wrong.field}: {shown(wrong.message)}).") from error


def shard_states(run: Path, division: Division) -> list[ShardState]:
    """Return the state of every shard of a divided run folder."""
    shards = [Shard(index, division.shards) for index in range(1, division.shards + 1)]
    infos = [(shard, read_info(shard.folder(run))) for shard in shards]
    return [ShardState(shard, "" if info is None else str(info["status"])) for shard, info in infos]


def unmerged_sentence(run: Path) -> str | None:
    """Return how far the shards of a folder are and how to merge them; ``None`` where it is not divided."""
    division = read_division(run)
    if division is None:
        return None
    finished = sum(state.finished for state in shard_states(run, division))
    return (
        f"{shown(run)} is divided into {division.shards} shards, {finished} of {division.shards} are finished, and "
        f"they are not merged yet. Run: stepscore merge {shlex.quote(shown(run))}"
    )


@dataclass(frozen=True)
class ShardContent:
    """What a shard is to hold, as its folder keeps it.

    Attributes:
        index: Its number.
        cut: See :attr:`Division.cut`.
        episodes: The ids of its episodes.
    """

    index: int
    cut: tuple[int, int, str, int]
    episodes: list[str]


_CONTENT = TypeAdapter(ShardContent)


def write_shard_content(folder: Path, shard: Shard, part: Cut) -> None:
    """Keep the ids of a shard's episodes in its folder, so that a merge can name those that are missing."""
    ids = [episode.id for episode in part.episodes]
    content = ShardContent(shard.index, (shard.count, part.total, part.digest, part.batch), ids)
    create_once(folder / SHARD_FILE, json.dumps(asdict(content)) + "\n")


def read_shard_content(folder: Path) -> ShardContent | None:
    """Return what a shard is to hold; ``None`` for a folder that does not say, or is no shard's."""
    file = folder / SHARD_FILE
    if not file.is_file():
        return None
    try:
        return _CONTENT.validate_python(read_json(file, RunError))
    except ValidationError as error:
        wrong = first_field_error(error)
        raise RunError(f"{shown(file)} is damaged ({wrong.field}: {shown(wrong.message)}).") from error


def _check_new(run: Path) -> None:
    """Refuse a folder that holds something else; what other shards of it are just writing is theirs."""
    if not run.exists():
        return
    if (run / "run.json").exists():
        raise RunError(
            f"{shown(run)} holds a run that is not divided. Go on with it without --shard, or choose another "
            "folder: -o RUN"
        )
    names = {path.name for path in run.iterdir()} if run.is_dir() else {""}
    if DIVISION_FILE not in names and not all(_NEW.fullmatch(name) for name in names):
        raise RunError(f"{shown(run)} exists and is not a run folder. Choose a new or empty folder: -o RUN")


def _check_same(run: Path, mine: Division, found: Division) -> None:
    """Refuse a shard of another division than the folder's."""
    if found.shards != mine.shards:
        raise RunError(
            f"{shown(run)} is divided into {found.shards} shards, not {mine.shards}. Give --shard I/{found.shards} "
            "as its other shards, or choose another folder: -o RUN"
        )
    differences = Protocol(mine.protocol).differences(Protocol(found.protocol))
    if differences:
        raise ProtocolMismatchError(
            f"The other shards of {shown(run)} have another protocol ({'; '.join(differences)}). "
            "Give every shard the same options, or choose another folder: -o RUN"
        )
    if found.source != mine.source:
        raise RunError(
            f"The other shards of {shown(run)} have another source ({shown(found.source)}, not "
            f"{shown(mine.source)}). Give every shard the same path, or each a folder of its own, and merge "
            "those: stepscore merge A B -o RUN"
        )
    if found.cut != mine.cut:
        what = (
            f"batches of {found.batch}, not {mine.batch}"
            if found.batch != mine.batch
            else f"{found.episodes} episodes, and {mine.episodes} are selected now"
            if found.episodes != mine.episodes
            else f"{found.episodes} episodes of other names than those selected now"
        )
        raise RunError(
            f"{shown(run)} is divided for {what}. Select the same for every shard, or choose another folder: -o RUN"
        )

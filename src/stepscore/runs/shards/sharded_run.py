"""One of several runs that are divided and merged together, like those of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stepscore._untrusted import shown
from stepscore.episodes import Episode
from stepscore.errors import RunError
from stepscore.judges import Judge, prepare
from stepscore.runs.journal import index
from stepscore.runs.protocol import protocol_of
from stepscore.runs.records import episode_row, input_key
from stepscore.runs.run import Run
from stepscore.runs.shards.manifest import find_manifest, finished_shards
from stepscore.runs.shards.merging import merge
from stepscore.runs.shards.shard import Shard, cut


@dataclass(frozen=True)
class ShardedRun:
    """A run folder, its judge and all its episodes; ``score(..., shard=...)`` judges its shards."""

    folder: Path
    judge: Judge
    episodes: Sequence[Episode]

    def unfinished(self, count: int) -> list[Shard]:
        """Return those of ``count`` shards that have episodes and have not judged all of them.

        Raises:
            RunError: The folder is divided differently, or for other episodes.
            ProtocolMismatchError: It is divided for another protocol.
        """
        prepare(self.judge)
        shards = [Shard(index, count) for index in range(1, count + 1)]
        part = cut(self.episodes, shards[0], self.judge.models)
        manifest = find_manifest(self.folder, shards[0], part, protocol_of(self.judge), "")
        finished = set() if manifest is None else finished_shards(self.folder, manifest)
        return [
            shard for shard in shards if shard.span(part.total, part.batch).length and shard not in finished
        ]

    def merged(self) -> Run:
        """Return the run merged from its shards.

        Raises:
            RunError: Something is missing or contradictory, or is of other episodes with the same ids.
        """
        found = merge([self.folder])
        if found.run is None:
            raise RunError(f"{[*found.gaps, *found.conflicts][0]}. Nothing was merged.")
        judged = index(found.run.path / "journal.jsonl")
        others = [one.id for one in self.episodes if judged[one.id].key != input_key(episode_row(one))]
        if others:
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            raise RunError(
                f"Episode {shown(others[0])}{more} of {shown(self.folder)} was judged with another recording, "
                "instruction or subgoals than it has now. Rerun the shards with the options of this command to judge "
                "what has changed."
            )
        return found.run

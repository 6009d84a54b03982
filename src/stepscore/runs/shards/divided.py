"""One of several runs that are divided and merged together, as those of an audit."""

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
from stepscore.runs.shards.division import find_division, shard_states
from stepscore.runs.shards.merging import merge
from stepscore.runs.shards.shard import Shard, cut


@dataclass(frozen=True)
class DividedRun:
    """A run folder whose shards ``score(episodes, judge, folder, shard=...)`` judges.

    Attributes:
        folder: The run folder.
        judge: The judge.
        episodes: The episodes of all shards.
    """

    folder: Path
    judge: Judge
    episodes: Sequence[Episode]

    def unfinished(self, count: int) -> list[Shard]:
        """Return which of ``count`` shards have episodes and have not judged all of them.

        Raises:
            RunError: The folder is divided otherwise, or for other episodes.
            ProtocolMismatchError: It is divided for another protocol.
        """
        prepare(self.judge)
        shards = [Shard(index, count) for index in range(1, count + 1)]
        part = cut(self.episodes, shards[0], self.judge.models)
        division = find_division(self.folder, shards[0], part, protocol_of(self.judge), "")
        finished = (
            set()
            if division is None
            else {state.shard for state in shard_states(self.folder, division) if state.finished}
        )
        spans = {shard: shard.span(part.total, part.batch) for shard in shards}
        return [shard for shard, span in spans.items() if span.start < span.stop and shard not in finished]

    def merged(self) -> Run:
        """Return the run that its shards make.

        Raises:
            RunError: Something is missing, or contradicts itself, or is of other episodes under the same ids.
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
                "instruction or subgoals than it has now. Run the shards again with the options of this command: "
                "they judge what has changed."
            )
        return found.run

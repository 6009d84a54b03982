"""A run that grows while a server scores: each video that a client sent is an episode of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stepscore.episodes import Episode
from stepscore.judges import Ask, Judge, default_model
from stepscore.models.calls import Call, CallChain, CallOptions, RunAccount
from stepscore.runs.episode_record import RecordWriter, describe, recorded
from stepscore.runs.journal import Journal, index
from stepscore.runs.protocol import protocol_of
from stepscore.runs.run_info import write_info
from stepscore.runs.scoring import begin_run
from stepscore.runs.stored_tables import write_tables
from stepscore.types import Judgement


class LiveRun:
    """The open folder. Answers are recorded, with their calls, and never cached.

    Args:
        folder: The run folder; an existing one of the same protocol is resumed.
        judge: The judge.
        options: Budget and connections.
        command: Name and options of the command, kept in ``run.json``.

    Attributes:
        count: Episodes that the journal holds.
    """

    def __init__(
        self, folder: Path, judge: Judge, options: CallOptions, command: Mapping[str, Any] | None = None
    ) -> None:
        self._folder, self._judge = folder, judge
        self._protocol = protocol_of(judge)
        self._info, anew = begin_run(folder, self._protocol, (), None)
        if command is not None:
            self._info["command"] = dict(command)
        self._journal = Journal(folder / "journal.jsonl")
        self._journal.__enter__()
        if anew:
            self._journal.clear()
        entries = index(self._journal.path)
        self.count = len(entries)
        self._writer = RecordWriter(self._journal, entries, lambda done: None)
        write_info(folder, self._info)
        self._account = RunAccount(folder, options, self._journal.lease)
        self.chain = CallChain(self._account, options, default_model(judge))

    def ask_about(self, episode: Episode, calls: list[Call]) -> Ask:
        """Return what sends the requests about an episode."""
        return self.chain.ask_about(episode, calls)

    def record(self, episode: Episode, judgement: Judgement, calls: Sequence[Call], seconds: float) -> None:
        """Write a judged episode to the journal."""
        _, described = describe(episode, None)
        self._writer.write(recorded(described, judgement, calls, seconds))
        self.count += 1

    def close(self) -> None:
        """Write the tables, and give the folder back."""
        now, total = self._account.spent()
        self._info |= {
            "status": "finished",
            "selected": self.count,
            "spent": {"this_start": asdict(now), "total": asdict(total)},
        }
        self.chain.close()
        self._account.close()
        write_info(self._folder, self._info)
        self._journal.__exit__(None, None, None)
        write_tables(self._folder, self._judge.name, self._protocol.hash)

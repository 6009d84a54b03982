"""A worker: judges groups of episodes through its call chain, and makes the records that the owner writes.

It is the same class in the owner's process, in another process and on another machine; ``remote_worker.py`` connects
it to an owner elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from stepscore.judges import Judge
from stepscore.models.calls import BatchGroup, Call, CallChain
from stepscore.runs.episode_record import EpisodeOutcome, EpisodeTask, bare, describe, judged, recorded
from stepscore.types import Judgement


@dataclass(frozen=True)
class Worker:
    """Judges groups of episodes in a running event loop; ``threads`` read the descriptions of episodes."""

    judge: Judge
    views: Sequence[str] | None
    chain: CallChain
    threads: Executor

    async def judge_group(self, tasks: Sequence[EpisodeTask]) -> list[EpisodeOutcome]:
        """Judge episodes together and return their outcomes; an error that stops the run is an outcome too."""
        group = BatchGroup([task.episode.id for task in tasks])
        return list(await asyncio.gather(*(self._judge_of_group(task, group) for task in tasks)))

    async def _judge_of_group(self, task: EpisodeTask, group: BatchGroup) -> EpisodeOutcome:
        try:
            return await self._judge(task, group)
        except Exception as error:
            return EpisodeOutcome(task.episode.id, bare(task.episode).row, stopped=error)
        finally:
            group.leave(task.episode.id)

    async def _judge(self, task: EpisodeTask, group: BatchGroup) -> EpisodeOutcome:
        started = time.perf_counter()
        loop = asyncio.get_running_loop()
        episode, described = await loop.run_in_executor(self.threads, describe, task.episode, self.views)
        if task.key is not None and described.key == task.key:
            return EpisodeOutcome(described.id, described.row)
        calls: list[Call] = []
        judgement = Judgement(error=described.error)
        if described.error is None:
            judgement = await judged(self.judge, episode, self.chain.ask_about(episode, calls, group))
        return recorded(described, judgement, calls, time.perf_counter() - started)

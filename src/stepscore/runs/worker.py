"""A worker: judges groups of episodes through its own call chain, and makes the records that the owner writes.

It is the same class in the owner's process, in another one and on another machine; ``worker_link.py`` is a worker's
end of the way to the owner.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from stepscore.episodes import Episode
from stepscore.judges import Judge
from stepscore.models.calls import BatchGroup, Call, CallChain
from stepscore.runs.episode_record import Described, EpisodeTask, Outcome, bare, describe, judged, recorded
from stepscore.types import Judgement


@dataclass(frozen=True)
class Worker:
    """Judges groups of episodes; to be used in a running event loop.

    Attributes:
        judge: The judge.
        views: Give the judge only these views; ``None`` for all.
        chain: Answers its requests.
        threads: Read what an episode is before it is judged.
    """

    judge: Judge
    views: Sequence[str] | None
    chain: CallChain
    threads: Executor

    async def judge_group(self, tasks: Sequence[EpisodeTask]) -> list[Outcome]:
        """Judge episodes together, and return what became of each; an error that stops the run is an outcome too."""
        group = BatchGroup([task.episode.id for task in tasks])
        return list(await asyncio.gather(*(self._judge_of_group(task, group) for task in tasks)))

    async def _judge_of_group(self, task: EpisodeTask, group: BatchGroup) -> Outcome:
        try:
            return await self._judge(task, group)
        except Exception as error:
            episode = task.episode
            return Outcome(
                episode.id, bare(episode.id, episode.source, episode.source_index).row, stopped=error
            )
        finally:
            group.leave(task.episode.id)

    async def _judge(self, task: EpisodeTask, group: BatchGroup) -> Outcome:
        started = time.perf_counter()
        loop = asyncio.get_running_loop()
        episode, described = await loop.run_in_executor(self.threads, describe, task.episode, self.views)
        if task.key is not None and described.key == task.key:
            return Outcome(described.id, described.row)
        calls: list[Call] = []
        judgement = await self._judgement(episode, described, calls, group)
        return recorded(described, judgement, calls, time.perf_counter() - started)

    async def _judgement(
        self, episode: Episode, described: Described, calls: list[Call], group: BatchGroup
    ) -> Judgement:
        if described.error is not None:
            return Judgement(error=described.error)
        return await judged(self.judge, episode, self.chain.ask_about(episode, calls, group))

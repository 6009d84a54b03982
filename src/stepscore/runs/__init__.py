"""A run: one judge over many episodes, in a folder that survives being killed.

:func:`score` makes or resumes one, :func:`open_run` reads one; :mod:`stepscore.analysis` turns it into numbers.
"""

from stepscore.models.calls import CallOptions
from stepscore.runs.dry_run import dry_run
from stepscore.runs.engines import Engine, FinishedEpisode, RayEngine, run_episodes
from stepscore.runs.episode_record import error_text
from stepscore.runs.journal import is_being_written
from stepscore.runs.live_run import LiveRun
from stepscore.runs.protocol import Protocol, protocol_of
from stepscore.runs.records import finite_or_none
from stepscore.runs.run import Run, open_run
from stepscore.runs.scoring import Summary, score
from stepscore.runs.shards.manifest import read_manifest
from stepscore.runs.shards.merging import Merged, merge
from stepscore.runs.shards.shard import Cut, Shard, cut, parse_shard, share_of
from stepscore.runs.shards.sharded_run import ShardedRun

__all__ = [
    "CallOptions",
    "Cut",
    "Engine",
    "FinishedEpisode",
    "LiveRun",
    "Merged",
    "Protocol",
    "RayEngine",
    "Run",
    "Shard",
    "ShardedRun",
    "Summary",
    "cut",
    "dry_run",
    "error_text",
    "finite_or_none",
    "is_being_written",
    "merge",
    "open_run",
    "parse_shard",
    "protocol_of",
    "read_manifest",
    "run_episodes",
    "score",
    "share_of",
]

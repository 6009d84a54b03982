"""Make or resume a run."""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import platform
import re
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from stepscore import __version__
from stepscore._journals import LEASE_S
from stepscore._untrusted import shown
from stepscore.episodes import Episode, Episodes
from stepscore.errors import BudgetError, LeaseLostError, ProtocolMismatchError, RunError
from stepscore.judges import Judge, check_subgoals, default_model, prepare
from stepscore.judges.published.profiles import model_licence
from stepscore.models.calls import (
    ATTEMPTS_DATABASE,
    SHARED_ANSWERS,
    CallChain,
    CallOptions,
    PrefixCacheUse,
    RunAccount,
)
from stepscore.runs.engines import choose_engine
from stepscore.runs.journal import LEASED_FILES, Journal, index
from stepscore.runs.protocol import Protocol, protocol_of
from stepscore.runs.run import Run, open_run
from stepscore.runs.run_info import FORMAT, make_folder, read_info, write_info
from stepscore.runs.shards.manifest import begin_shard, read_manifest, write_shard_content
from stepscore.runs.shards.shard import Shard, cut, share_of
from stepscore.runs.stored_tables import warn_if_cut, write_tables
from stepscore.runs.work import Engine, FinishedEpisode, Work

_STARTED = re.compile(
    r"journal\.jsonl|attempts\.(jsonl|sqlite(-wal|-shm|-journal)?)|\.(run\.json|lease)\.[0-9a-f.json]+\.tmp"
    r"|lease\.[0-9]{9}\.json"
)


@dataclass
class Summary:
    """Counts of one start of a run: episodes judged, reused from the journal, and failed."""

    judged: int = 0
    reused: int = 0
    failed: int = 0
    seconds: float = 0.0

    def count(self, done: FinishedEpisode) -> None:
        """Count one finished episode."""
        self.reused += done.reused
        self.failed += done.error is not None
        self.judged += not done.reused and done.error is None


def score(
    episodes: Episodes | Sequence[Episode],
    judge: Judge,
    out: str | Path,
    *,
    views: Sequence[str] | None = None,
    workers: int | None = None,
    engine: str | Engine = "auto",
    call_options: CallOptions | None = None,
    on_done: Callable[[FinishedEpisode], None] | None = None,
    offline: bool = False,
    shard: Shard | None = None,
    lease_s: float | None = None,
    command: Mapping[str, Any] | None = None,
) -> Run:
    """Judge every episode and keep the results in a run folder, or resume the run in it.

    Episodes that were judged before are judged again only if their video, instruction or subgoals changed, or if they
    failed.

    Args:
        episodes: From :func:`stepscore.open_episodes`.
        judge: From :func:`stepscore.get_judge`.
        out: The run folder.
        views: The only views that the judge sees, in this order.
        workers: Number of processes, each with its own model; for a served model, episodes in flight in this process.
            Defaults to 1, or to the number of connections to a served model. Results do not depend on it.
        engine: ``"local"`` (this process, ``workers`` episodes in flight), ``"processes"``, ``"ray"`` (or a
            :class:`RayEngine` with its address), or ``"auto"``: processes for several workers without a served model.
        call_options: Budget, prices, cache and connections, for judges with a model.
        on_done: Called after each episode, e.g. to advance a progress bar.
        offline: Forbid the judge to fetch a published prompt.
        shard: Judge only this shard of the episodes, with its share of the budget, into its folder inside ``out``;
            :func:`merge` makes one run of all shards.
        lease_s: Lock the folder with a lease that expires after this many seconds without renewal. Automatic on file
            systems without locks, and for shards (60 s).
        command: Name and options of the command that makes the run, kept in ``run.json`` for ``--config``.

    Raises:
        BudgetError: The budget is spent. Finished episodes are in the folder; resume the run with a larger budget.
        OptionError: Money is limited and a model's price is unknown, or the judge judges subgoals and no episode has
            any. No call was made.
        MissingExtraError: A model needs an extra that is not installed.
    """
    folder = Path(out)
    call_options, models = call_options or CallOptions(), judge.models
    call_options.check(models)
    check_subgoals(judge, episodes)
    prepare(judge, offline=offline)
    goals = episodes.goals if isinstance(episodes, Episodes) else None
    goal = goals.describe() if goals is not None else None
    protocol = protocol_of(judge, views, getattr(episodes, "reader_code", None), goal)
    chosen = choose_engine(engine, judge, workers, call_options)
    if shard is not None:
        part = cut(episodes, shard, models)
        folder = begin_shard(folder, shard, part, protocol, getattr(episodes, "source", ""))
        episodes, call_options = part.episodes, share_of(call_options, shard, part)
        lease_s = LEASE_S if lease_s is None else lease_s
    info, anew = begin_run(folder, protocol, episodes, chosen.workers)
    info["licences"] = {model.name: model_licence(model)._asdict() for model in models}
    info |= {"command": dict(command)} if command is not None else {}
    summary = Summary()
    started = time.monotonic()

    def count(done: FinishedEpisode) -> None:
        summary.count(done)
        if on_done is not None:
            on_done(done)

    with Journal(folder / "journal.jsonl", lease_s, call_options.on_wait) as journal:
        if anew:  # checked again under the lock: the process that held it may have judged some meanwhile
            _refuse_judged(folder, anew)
            journal.clear()
        account = RunAccount(folder, call_options, journal.lease)
        chain = CallChain(account, call_options, default_model(judge))
        caches = PrefixCacheUse(models)
        try:
            write_info(folder, info)
            if anew:  # else the journal looks cut beside the tables of the start before
                write_tables(folder, judge.name, protocol.hash)
            warn_if_cut(folder)
            if shard is not None:
                write_shard_content(folder, shard, part)
            todo, done = _unique(episodes), index(journal.path)
            work = Work(todo, len(episodes), judge, journal, done, views, account, chain, call_options, count)
            chosen.run(work)
            info["status"] = "finished"
            if (saved := caches.so_far()) is not None:
                info["prefix_cache"] = asdict(saved)
        except BudgetError:
            info["status"] = "stopped by the budget"
            raise
        except KeyboardInterrupt:
            info["status"] = "interrupted"
            raise
        except BaseException:
            info["status"] = "stopped by an error"
            raise
        finally:
            try:
                with suppress(RunError):  # the failed write already reported the full disk
                    now, total = account.spent()
                    info["spent"] = {"this_start": asdict(now), "total": asdict(total)}
                chain.close()
                account.close()
            finally:
                summary.seconds = round(time.monotonic() - started, 3)
                info |= {"last": vars(summary).copy(), "updated": _now()}
                with _interrupts_wait(), suppress(LeaseLostError):  # which already stopped the run
                    journal.check()
                    write_info(folder, info)
        journal.check()
        write_tables(folder, judge.name, protocol.hash)
        if not summary.failed:
            (folder / SHARED_ANSWERS).unlink(missing_ok=True)
    return open_run(folder)


def begin_run(
    folder: Path, protocol: Protocol, episodes: Episodes | Sequence[Episode], workers: int | None
) -> tuple[dict[str, Any], str]:
    """Return the content of ``run.json`` for this start, and what changed if the run starts again from nothing.

    A folder with judged episodes of another protocol or source is refused. If none was judged (the user corrected the
    file of a judge that failed), there is nothing to mix, and the run starts again.
    """
    source = episodes.source if isinstance(episodes, Episodes) else ""
    if (manifest := read_manifest(folder)) is not None:
        raise RunError(
            f"{shown(folder)} is divided into {manifest.shards} shards. Judge one of them with "
            f"--shard I/{manifest.shards}, or choose another folder: -o RUN"
        )
    before, anew = read_info(folder), ""
    if before is None:
        if folder.exists() and not _is_new(folder):
            raise RunError(f"{folder} exists and is not a run folder. Choose a new or empty folder: -o RUN")
        make_folder(folder)
    else:
        _refuse_links(folder)
        anew = _change_from(before, protocol, source)
        if anew:
            _refuse_judged(folder, anew)
    return {
        "format": FORMAT,
        "protocol": dict(protocol.content),
        "protocol_hash": protocol.hash,
        "source": source,
        "reader": episodes.reader if isinstance(episodes, Episodes) else "",
        "status": "started",
        "created": before["created"] if before and not anew else _now(),
        "updated": _now(),
        "selected": len(episodes),
        "workers": workers,
        "versions": {"stepscore": __version__, "python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in ("numpy", "pyarrow", "av")},
    }, anew


def _change_from(before: Mapping[str, Any], protocol: Protocol, source: str) -> str:
    """Return how an earlier start of a run differs from this one; empty if it can be resumed."""
    stored = Protocol(before["protocol"])
    if differences := protocol.differences(stored):
        edited = "".join(f": {file} was edited" for file in protocol.edited_files(stored))
        return f"another protocol ({'; '.join(differences)}{edited})"
    return "" if before["source"] == source else f"another source ({before['source']}, not {source})"


def _refuse_judged(folder: Path, change: str) -> None:
    """Refuse a folder with judged episodes of another protocol or source, and suggest a free name."""
    judged = sum(not entry.failed for entry in index(folder / "journal.jsonl").values())
    if judged:
        free = next(f"{folder}-{n}" for n in itertools.count(2) if not os.path.lexists(f"{folder}-{n}"))
        kind = ProtocolMismatchError if change.startswith("another protocol") else RunError
        raise kind(
            f"{folder} holds {judged} judged episode{'s' * (judged > 1)} of {change}. Results are never mixed: "
            f"judge into another folder (-o {shlex.quote(free)}), or remove this one."
        )


def _is_new(folder: Path) -> bool:
    """Return whether a folder is empty, except for files of a start that was stopped before ``run.json``."""
    journal = folder / "journal.jsonl"
    if not folder.is_dir() or (os.path.lexists(journal) and (journal.is_symlink() or journal.stat().st_size)):
        return False
    return all(_STARTED.fullmatch(path.name) for path in folder.iterdir())


def _refuse_links(folder: Path) -> None:
    """Refuse a folder in which a growing file is a link, so that no file elsewhere is changed."""
    database = [f"{ATTEMPTS_DATABASE}{ending}" for ending in ("", "-wal", "-shm")]
    for name in ("journal.jsonl", *database, *LEASED_FILES):
        if os.path.islink(folder / name):
            raise RunError(
                f"{shown(folder / name)} is a link, and the file it points to would be changed. "
                "Replace it with the file itself, or choose another folder: -o RUN"
            )


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C until the end of a block of milliseconds that must not be left half done."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler is None:
        yield
        return
    came: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came and callable(handler):
            handler(signal.SIGINT, came[-1])


def _unique(episodes: Sequence[Episode]) -> Iterator[Episode]:
    ids: set[str] = set()
    for episode in episodes:
        if episode.id in ids:
            raise RunError(f"Two episodes have the id {episode.id!r}; ids must be unique within a run.")
        ids.add(episode.id)
        yield episode


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

"""One bad episode is one row: whatever goes wrong with it, the rest of the run is as without it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.episodes.labels.joining import Additions, JoinedEpisodes
from stepscore.errors import EpisodeError, MissingExtraError, SourceError
from stepscore.judges import Ask
from stepscore.runs import Run, journal, run_episodes
from stepscore.types import Curve, Judgement
from tests.fakes import FakeView, episode

GOOD = ("a", "b", "d")
BAD = "c"
TABLES = ("episodes", "judgements", "curves", "verdicts", "calls")


@dataclass(frozen=True)
class ReadFrames:
    """A judge that decodes four frames; their mean brightness is the progress."""

    name = "read-frames"
    version = 1
    models = ()

    def options(self) -> dict[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        clip = await asyncio.to_thread(episode.clip, episode.main_view, count=4, size=32)
        return Judgement(Curve(clip.timestamps, clip.frames.mean(axis=(1, 2, 3)) / 255))


def without(run: Run, *bad: str) -> dict[str, pa.Table]:
    """The tables of a run, without the rows of some episodes."""
    tables = {name: getattr(run, name)() for name in TABLES}
    return {
        name: table.filter(pc.invert(pc.is_in(table["episode_id"], pa.array(bad, pa.string()))))
        for name, table in tables.items()
    }


def error_of(run: Run, name: str) -> str:
    """The error in an episode's row of the judgements."""
    table = run.judgements()
    return str(dict(zip(table["episode_id"].to_pylist(), table["error"].to_pylist(), strict=True))[name])


def check_rest(folder: Path, episodes: Sequence[Episode], judge: Any = None) -> str:
    """Judge good episodes with a bad one among them; return its error after comparing the rest."""
    judge = judge or ReadFrames()
    good = [one for one in episodes if one.id != BAD]
    alone = stepscore.score(good, judge, out=folder / "without")
    among = stepscore.score(episodes, judge, out=folder / "with")
    assert [*among.judgements()["episode_id"].to_pylist()] == sorted(one.id for one in episodes)
    assert without(among, BAD) == without(alone)
    return error_of(among, BAD)


class Lazy(Sequence[Episode]):
    """Episodes that are made on demand, one of which raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.names = sorted((*GOOD, BAD))

    def __len__(self) -> int:
        return len(self.names)

    def ids(self) -> list[str]:
        return self.names

    @overload
    def __getitem__(self, key: int) -> Episode: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Episode]: ...
    def __getitem__(self, key: int | slice) -> Episode | Sequence[Episode]:
        if isinstance(key, slice):
            raise NotImplementedError
        if self.names[key] == BAD:
            raise self.error
        return episode(self.names[key])


@pytest.mark.parametrize(
    "error", [EpisodeError("no length"), ZeroDivisionError("by zero"), IndexError("row 7"), KeyError("x")]
)
def test_an_episode_that_cannot_be_made_is_a_row_and_ends_no_listing(
    tmp_path: Path, error: Exception
) -> None:
    joined = JoinedEpisodes(Lazy(error), Additions("source"))
    assert [one.id for one in joined] == ["a", "b", "c", "d"]
    assert str(error.args[0]) in check_rest(tmp_path, list(joined))


def test_a_missing_library_stops_a_listing() -> None:
    joined = JoinedEpisodes(Lazy(MissingExtraError("Reading x", "hdf5")), Additions("source"))
    with pytest.raises(MissingExtraError):
        list(joined)


@dataclass(frozen=True)
class BadView(FakeView):
    """A view that raises in one of its methods."""

    where: str = ""

    def location(self) -> str:
        return self._fail("location") or super().location()

    def digest(self) -> bytes:
        self._fail("digest")
        return super().digest()

    def info(self) -> Any:
        self._fail("info")
        return super().info()

    def timestamps(self) -> Any:
        self._fail("timestamps")
        return super().timestamps()

    def read(self, indices: Sequence[int], size: int | None = None) -> Any:
        self._fail("read")
        return super().read(indices, size)

    def _fail(self, what: str) -> str:
        if what == self.where:
            raise RuntimeError(f"no {what}")
        return ""


@pytest.mark.parametrize("where", ["location", "timestamps", "read"])
def test_a_view_may_fail_anywhere(tmp_path: Path, where: str) -> None:
    bad = episode(BAD, views={"top": BadView(where=where)})
    assert f"no {where}" in check_rest(tmp_path, [*map(episode, GOOD), bad])


@pytest.mark.parametrize("where", ["digest", "info"])
def test_what_the_judge_does_not_need_may_be_unknown(tmp_path: Path, where: str) -> None:
    bad = episode(BAD, views={"top": BadView(where=where)})
    assert check_rest(tmp_path, [*map(episode, GOOD), bad]) == "None"


def _itself() -> dict[str, object]:
    made: dict[str, object] = {}
    made["self"] = made
    return made


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"a": {1: "x", "b": "y"}}},
        {"metadata": _itself()},
        {"metadata": {"n": 10**5000}},
        {"labels": None},
        {"views": {"top": None}},
        {"error": "its reader knew already"},
        {"instruction": {1, 2}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_an_episode_that_cannot_be_described_is_a_row(tmp_path: Path, fields: dict[str, object]) -> None:
    assert check_rest(tmp_path, [*map(episode, GOOD), episode(BAD, **fields)]) != "None"


def test_what_a_reader_knew_already_is_the_error_of_any_judge(tmp_path: Path) -> None:
    bad = episode(BAD, error="meta/: length is 'x'")
    for judge in (ReadFrames(), stepscore.get_judge("linear-time"), stepscore.get_judge("recorded")):
        run = stepscore.score([bad], judge, out=tmp_path / judge.name)
        assert error_of(run, BAD) == "meta/: length is 'x'"


@dataclass(frozen=True)
class OddJudge(ReadFrames):
    """A judge that returns what no table can hold, about one episode."""

    kind: str = ""

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        good = await super().judge(episode, ask)
        if episode.id != BAD:
            return good
        assert good.curve is not None
        if self.kind == "channel":
            values = np.zeros(len(good.curve.times))
            return Judgement(Curve(good.curve.times, good.curve.progress, {"time_s": values}))
        if self.kind == "facts":
            return replace(good, facts={"n": "text"})  # type: ignore[dict-item]
        return None  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["channel", "facts", "nothing"])
def test_a_judgement_that_no_table_holds_is_a_row(tmp_path: Path, kind: str) -> None:
    assert check_rest(tmp_path, [episode(name) for name in (*GOOD, BAD)], OddJudge(kind)) != "None"


def test_a_record_too_long_for_the_journal_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_LINE_BYTES", 20_000)
    bad = episode(BAD, metadata={"note": "x" * 30_000})
    assert "more than the 20000 allowed" in check_rest(tmp_path, [*map(episode, GOOD), bad])


def test_a_listing_that_fails_raises_its_own_error() -> None:
    def listing() -> Iterator[Episode]:
        yield episode("a")
        raise SourceError("the rest is gone")

    async def work(one: Episode) -> None:
        done.append(one.id)

    done: list[str] = []
    with pytest.raises(SourceError, match="the rest is gone"):
        run_episodes(listing(), work, workers=3)
    assert done == ["a"]

from __future__ import annotations

import asyncio
import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.episodes import Episode
from stepscore.episodes.readers import curve_groups
from stepscore.episodes.readers.curves import CurvesReader
from stepscore.episodes.source import Listing, ReadOptions
from stepscore.errors import CurveError, ManifestError, OptionError
from stepscore.judges import get_judge
from stepscore.models import Model, Request
from stepscore.types import Judgement

HEAD = "episode_id,time_s,progress,instruction,policy,pair,success\n"


def listing(tmp_path: Path, text: str, name: str = "curves.csv") -> Listing:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return CurvesReader().read(tmp_path / name, ReadOptions())


def recorded(episode: Episode) -> Judgement:
    async def ask(request: Request, model: Model | None = None) -> Any:
        raise AssertionError

    return asyncio.run(get_judge("recorded").judge(episode, ask))


def test_each_id_is_an_episode_described_by_its_columns(tmp_path: Path) -> None:
    text = HEAD + "b/2,0,.1,push,pi0,7,0\na/1,0,.2,pull,,,\nb/2,1,.3,push,pi0,7,0\n"
    first, second = listing(tmp_path, text).episodes
    assert (first.id, first.instruction, first.policy, first.pair) == ("a/1", "pull", None, None)
    assert first.labels.success is None
    assert (second.id, second.instruction, second.policy, second.pair) == ("b/2", "push", "pi0", "7")
    assert second.labels.success is False
    assert second.views == {}
    assert second.recorded == (tmp_path / "curves.csv",)
    assert second.info is None


def test_the_recorded_judge_reads_each_episodes_own_rows(tmp_path: Path) -> None:
    text = HEAD + "b/2,0,.1,push,pi0,7,0\na/1,0,.2,pull,,,\nb/2,1,.3,push,pi0,7,0\n"
    curves = [recorded(episode).curve for episode in listing(tmp_path, text).episodes]
    assert [curve.progress.tolist() for curve in curves if curve is not None] == [[0.2], [0.1, 0.3]]
    assert all(curve.channels == {} for curve in curves if curve is not None)


def test_a_column_may_be_stated_once_and_left_empty_elsewhere(tmp_path: Path) -> None:
    (episode,) = listing(tmp_path, HEAD + "a,0,.1,push,pi0,,1\na,1,.2,,,,\n").episodes
    assert (episode.instruction, episode.policy, episode.labels.success) == ("push", "pi0", True)


def test_a_column_that_changes_within_an_episode_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"curves\.csv, episode a: column policy is both 'act' and 'pi0'"):
        listing(tmp_path, HEAD + "a,0,.1,push,pi0,,\na,1,.2,push,act,,\n")


@pytest.mark.parametrize("success", ["yes", "0.5", "2"])
def test_success_is_1_or_0(tmp_path: Path, success: str) -> None:
    with pytest.raises(ManifestError, match=f"episode a: success is {success!r}"):
        listing(tmp_path, HEAD + f"a,0,.1,push,pi0,,{success}\n")


@pytest.mark.parametrize("body", [",0,.1,push,,,\n", "a,0\n"])
def test_a_row_without_an_episode_or_with_missing_cells_is_an_error(tmp_path: Path, body: str) -> None:
    with pytest.raises(ManifestError, match=r"curves\.csv"):
        listing(tmp_path, HEAD + body)


def test_malformed_progress_spoils_its_episode_and_no_other(tmp_path: Path) -> None:
    bad, good = listing(tmp_path, HEAD + "a,0,oops,push,,,\nb,0,.5,push,,,\n").episodes
    assert recorded(good).curve is not None
    with pytest.raises(CurveError, match=r"row 1, column progress: 'oops'"):
        recorded(bad)


def test_jsonl_and_parquet_say_the_same_as_csv(tmp_path: Path) -> None:
    rows = [
        {"episode_id": "a", "time_s": 0.0, "progress": 0.1, "task": "push", "pair": 3, "success": True},
        {"episode_id": "b", "time_s": 0.0, "progress": 0.2, "task": "pull", "pair": 4, "success": False},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    listings = []
    for name, text in (
        ("x.jsonl", "".join(json.dumps(row) + "\n" for row in rows)),
        ("x.csv", "episode_id,time_s,progress,task,pair,success\na,0,.1,push,3,1\nb,0,.2,pull,4,0\n"),
    ):
        listings.append(listing(tmp_path, text, name).episodes)
    listings.append(CurvesReader().read(tmp_path / "x.parquet", ReadOptions()).episodes)
    for episodes in listings:
        assert [(e.id, e.task, e.pair, e.labels.success) for e in episodes] == [
            ("a", "push", "3", True),
            ("b", "pull", "4", False),
        ]


@pytest.mark.parametrize(
    ("name", "text", "fits"),
    [
        ("x.csv", "episode_id,time_s,progress\n", True),
        ("x.jsonl", '{"episode_id": "a", "progress": 0.5}\n', True),
        ("x.jsonl", '{"episode_id": "a", "subgoal": "grasp", "answer": "yes"}\n', True),
        ("x.csv", "time_s,progress\n0,.1\n", False),
        ("x.csv", "episode_id,kind,name,value\na,success,holds,1\n", False),
        ("x.jsonl", '{"id": "a", "instruction": "push", "views": {"top": "a.mp4"}}\n', False),
        ("x.jsonl", "not json\n", False),
        ("x.parquet", "not parquet", False),
        ("x.csv", "", False),
        ("x.txt", "episode_id,progress\n", False),
    ],
)
def test_only_a_table_of_curves_is_taken_for_one(tmp_path: Path, name: str, text: str, fits: bool) -> None:
    (tmp_path / name).write_text(text)
    assert CurvesReader().matches(tmp_path / name) is fits
    assert not CurvesReader().matches(tmp_path)
    assert not CurvesReader().matches(tmp_path / "absent.csv")


def test_matching_reads_the_header_and_not_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.csv"
    with path.open("wb") as file:
        file.write(b"episode_id,progress\n")
        file.truncate(1 << 30)
    taken: list[int] = []

    class Counted(io.FileIO):
        def readinto(self, buffer: Any) -> int | None:
            taken.append(super().readinto(buffer) or 0)
            return taken[-1]

    def open_counted(self: Path, encoding: str, newline: str | None = None) -> io.TextIOWrapper:
        return io.TextIOWrapper(io.BufferedReader(Counted(self)), encoding=encoding, newline=newline)

    monkeypatch.setattr(Path, "open", open_counted)
    assert CurvesReader().matches(path)
    assert 0 < sum(taken) < path.stat().st_size / 1000


def test_a_policy_cannot_be_taken_from_folders_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(HEAD)
    with pytest.raises(OptionError, match="give it a column 'policy'"):
        CurvesReader().read(tmp_path / "x.csv", ReadOptions(policy_from=1))


def test_the_rules_say_what_was_taken_and_what_is_not_known(tmp_path: Path) -> None:
    rules = " ".join(listing(tmp_path, "episode_id,progress,policy\na,.1,pi0\n").rules)
    assert "Taken from columns: policy." in rules
    assert "Not stated: instruction, task, robot, dataset, pair, success." in rules


def test_listing_many_rows_costs_little_more_than_counting_them(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with path.open("w") as file:
        file.write("episode_id,time_s,progress,policy\n")
        file.writelines(f"e{i // 50},{i % 50},{i % 50 / 50},pi0\n" for i in range(300_000))
    started = time.process_time()
    found = CurvesReader().read(path, ReadOptions())
    listed = time.process_time() - started
    assert len(found.episodes) == 6000
    curve_groups._load.cache_clear()
    started = time.process_time()
    with path.open(newline="") as file:
        assert len({row["episode_id"] for row in csv.DictReader(file)}) == 6000
    assert listed < 6 * (time.process_time() - started)


@settings(max_examples=100, deadline=None)
@given(
    content=st.binary(max_size=80), suffix=st.sampled_from(["csv", "jsonl", "parquet"]), headed=st.booleans()
)
def test_any_file_is_listed_or_is_a_manifest_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str, headed: bool
) -> None:
    path = tmp_path_factory.mktemp("any") / f"x.{suffix}"
    path.write_bytes(b"episode_id,progress,success\n" * headed + content)
    CurvesReader().matches(path)
    try:
        CurvesReader().read(path, ReadOptions())
    except ManifestError as error:
        message = str(error)
    else:
        message = path.name
    assert path.name in message

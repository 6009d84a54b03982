"""Shards and runs are merged to the tables of one undivided run, byte for byte; what is missing is listed."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.errors import EpisodeError, OptionError, ProtocolMismatchError, RunError
from stepscore.judges import Ask, episode_rng
from stepscore.runs import Shard, merge, open_run
from stepscore.runs.journal import Journal
from stepscore.runs.tables import TABLES
from stepscore.types import Curve, Judgement, Verdict
from tests.fakes import FakeView, episode


@dataclass(frozen=True)
class Uneven:
    """A judge whose curves have other lengths and channels for each episode, and which fails where it should."""

    fails: tuple[str, ...] = ()
    name = "uneven"
    version = 1
    models = ()

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        if episode.id in self.fails:
            raise EpisodeError(f"Episode {episode.id} cannot be judged.")
        rng = episode_rng(episode, "uneven")
        n = int(rng.integers(2, 9))
        channels = {"raw": rng.uniform(size=n)} if rng.uniform() < 0.3 else {}
        verdicts = (Verdict("grasp", "yes", score=float(rng.uniform())),) if rng.uniform() < 0.5 else ()
        return Judgement(Curve(np.arange(float(n)), rng.uniform(size=n), channels), verdicts)


def many(n: int = 30) -> list[Episode]:
    return [episode(f"task/e{i:04d}") for i in range(n)]


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / f"{name}.parquet").read_bytes() for name in TABLES if name != "usage"}


def judge_shards(
    folder: Path, count: int, *, only: tuple[int, ...] = (), judge: Uneven | None = None
) -> None:
    for index in only or range(count, 0, -1):
        stepscore.score(many(), judge or Uneven(), out=folder, shard=Shard(index, count))


def test_merged_shards_are_the_undivided_run(tmp_path: Path) -> None:
    undivided = stepscore.score(many(), Uneven(fails=("task/e0003",)), out=tmp_path / "one")
    judge_shards(tmp_path / "many", 4, judge=Uneven(fails=("task/e0003",)))
    merged = merge([tmp_path / "many"])
    assert merged.complete
    assert (merged.parts, merged.episodes, merged.failed, merged.duplicates) == (4, 30, 1, 0)
    assert tables(tmp_path / "many") == tables(undivided.path)
    assert open_run(tmp_path / "many").info["status"] == "finished"
    again = merge([tmp_path / "many"], tmp_path / "many")
    assert again.run is not None
    assert tables(tmp_path / "many") == tables(undivided.path)


def test_more_shards_than_episodes_leave_some_empty(tmp_path: Path) -> None:
    undivided = stepscore.score(many(3), Uneven(), out=tmp_path / "one")
    for index in range(1, 8):
        run = stepscore.score(many(3), Uneven(), out=tmp_path / "many", shard=Shard(index, 7))
        assert run.judgements().num_rows == (index in (3, 5, 7))
    assert merge([tmp_path / "many"]).complete
    assert tables(tmp_path / "many") == tables(undivided.path)
    shutil.rmtree(Shard(1, 7).folder(tmp_path / "many"))  # which had no episode to miss
    assert merge([tmp_path / "many"]).complete


def test_a_folder_that_is_not_merged_says_how_far_its_shards_are(tmp_path: Path) -> None:
    judge_shards(tmp_path / "many", 4, only=(2, 3))
    with pytest.raises(RunError, match=r"4 shards .*; 2 of 4 are finished. Run: stepscore merge \S*many$"):
        open_run(tmp_path / "many")


def test_missing_shards_and_episodes_are_listed_and_nothing_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    judge_shards(folder, 4, only=(1, 2, 4))
    journal = Shard(2, 4).folder(folder) / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))
    merged = merge([folder])
    assert merged.run is None
    assert not (folder / "run.json").exists()
    assert merged.gaps == [
        f"shard 3/4 of {folder} was never started (7 episodes)",
        f"shard 2/4 of {folder} lacks 2 of 8 episodes: task/e0013, task/e0014",
    ]
    part = merge([folder], partial=True)
    assert part.run is not None
    assert part.gaps == merged.gaps
    assert part.run.judgements().num_rows == 21
    assert part.run.info["status"] == "merged in part"
    judge_shards(folder, 4, only=(3, 2))
    whole = merge([folder])
    assert whole.complete
    assert tables(folder) == tables(stepscore.score(many(), Uneven(), out=tmp_path / "one").path)


def test_shards_apart_are_merged_from_their_folders(tmp_path: Path) -> None:
    for index in (1, 2, 3):
        judge_shards(tmp_path / f"machine{index}", 3, only=(index,))
    folders = [tmp_path / f"machine{index}" for index in (1, 2, 3)]
    assert merge(folders[:2], tmp_path / "some").gaps == [
        f"shard 3/3 of {folders[0]} was never started (10 episodes)"
    ]
    assert merge([*folders[:2], Shard(3, 3).folder(folders[2])], tmp_path / "merged").complete
    assert tables(tmp_path / "merged") == tables(stepscore.score(many(), Uneven(), out=tmp_path / "one").path)


def test_plain_runs_that_overlap_are_merged_and_a_success_replaces_a_failure(tmp_path: Path) -> None:
    first = stepscore.score(many()[:20], Uneven(fails=("task/e0015",)), out=tmp_path / "a")
    second = stepscore.score(many()[10:], Uneven(), out=tmp_path / "b")
    for folders in ([first.path, second.path], [second.path, first.path]):
        merged = merge(folders, tmp_path / f"merged{folders[0].name}")
        assert (merged.complete, merged.episodes, merged.failed, merged.duplicates) == (True, 30, 0, 10)
        assert merged.run is not None
        assert tables(merged.run.path) == tables(stepscore.score(many(), Uneven(), out=tmp_path / "one").path)


def test_changed_labels_of_a_shard_reach_the_merged_run(tmp_path: Path) -> None:
    judge_shards(tmp_path / "many", 2)
    labelled = [replace(each, labels=Labels((Label("success", "holds", value=1.0),))) for each in many()]
    for index in (1, 2):
        stepscore.score(labelled, Uneven(), out=tmp_path / "many", shard=Shard(index, 2))
    merged = merge([tmp_path / "many"]).run
    assert merged is not None
    assert merged.episodes().column("success").to_pylist() == [True] * 30


def test_two_recordings_of_one_id_are_a_contradiction(tmp_path: Path) -> None:
    stepscore.score(many(2), Uneven(), out=tmp_path / "a")
    other = [replace(each, views={"top": FakeView(mark="another file")}) for each in many(2)]
    stepscore.score(other, Uneven(), out=tmp_path / "b")
    merged = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "merged")
    assert merged.run is None
    assert [text.split(":")[0] for text in merged.conflicts] == [
        f"episode task/e000{n} of {tmp_path / 'b'} is not the one of {tmp_path / 'a'}" for n in (0, 1)
    ]
    assert merge([tmp_path / "a", tmp_path / "b"], tmp_path / "merged", partial=True).run is not None


def test_runs_of_other_protocols_are_not_merged(tmp_path: Path) -> None:
    stepscore.score(many(2), stepscore.get_judge("linear-time"), out=tmp_path / "a")
    stepscore.score(many(2), stepscore.get_judge("linear-time", points=16), out=tmp_path / "b")
    with pytest.raises(ProtocolMismatchError, match=r"judge.options.points is (16, not 32|32, not 16)"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "merged")


def test_a_merge_writes_into_a_new_folder_or_one_of_its_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        stepscore.score(many(2), Uneven(), out=tmp_path / name)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("precious")
    with pytest.raises(RunError, match="not one of the runs"):
        merge([tmp_path / "a"], tmp_path / "thesis")
    with pytest.raises(OptionError, match="-o RUN"):
        merge([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(RunError, match="not a run folder"):
        merge([tmp_path / "thesis"])
    assert merge([tmp_path / "a", tmp_path / "b"], tmp_path / "a").complete


def test_a_merge_waits_for_a_lease_with_a_time_in_the_future_and_not_for_a_journal_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    judge_shards(tmp_path / "many", 2)
    merge([tmp_path / "many"])
    lease = tmp_path / "many" / "lease.000000002.json"
    lease.write_text('{"host": "another", "pid": 1, "term_s": 0.5}')
    os.utime(lease, (time.time() + 86_400,) * 2)
    assert merge([tmp_path / "many"]).complete
    assert "is leased by process 1 on another" in caplog.text
    with (
        Journal(tmp_path / "many" / "journal.jsonl"),
        pytest.raises(RunError, match="Another process is writing"),
    ):
        merge([tmp_path / "many"])


def test_other_shards_of_a_folder_agree_with_its_first(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    judge_shards(folder, 4, only=(1,))
    with pytest.raises(RunError, match=r"divided into 4 shards, not 5\. Use --shard I/4"):
        judge_shards(folder, 5, only=(2,))
    with pytest.raises(RunError, match="30 episodes in batches of 1, not 29 of 1"):
        stepscore.score(many(29), Uneven(), out=folder, shard=Shard(2, 4))
    with pytest.raises(RunError, match="30 episodes with other ids"):
        stepscore.score([*many(29), episode("z")], Uneven(), out=folder, shard=Shard(2, 4))
    with pytest.raises(ProtocolMismatchError, match=r'judge.name is "constant", not "uneven"'):
        stepscore.score(many(), stepscore.get_judge("constant"), out=folder, shard=Shard(2, 4))
    with pytest.raises(RunError, match="Judge one of them with --shard I/4"):
        stepscore.score(many(), Uneven(), out=folder)
    stepscore.score(many(), Uneven(), out=tmp_path / "plain")
    with pytest.raises(RunError, match="a run that is not divided"):
        judge_shards(tmp_path / "plain", 4, only=(2,))
    assert sorted(path.name for path in (folder / "shards").iterdir()) == ["0001-of-0004"]


def test_of_shards_that_start_at_once_one_divides_the_folder(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def start(index: int, count: int) -> None:
        try:
            judge_shards(tmp_path / "many", count, only=(index,))
        except RunError as error:
            errors.append(error)

    threads = [
        threading.Thread(target=start, args=(index, count)) for index in (1, 2, 3, 4) for count in (4, 5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    count = json.loads((tmp_path / "many" / "shards.json").read_text())["shards"]
    assert len(errors) == 4
    assert all(f"divided into {count} shards" in str(error) for error in errors)
    judge_shards(tmp_path / "many", count, only=(count,))
    assert merge([tmp_path / "many"]).complete


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not in format 1"),
        ('{"format": 9}', "not in format 1"),
        ('{"format": 1, "shards": 3}', "damaged"),
        (
            '{"format":1,"shards":1000000000,"episodes":1,"ids":"","batch":1,"source":"","protocol":{}}',
            "damaged",
        ),
    ],
)
def test_a_damaged_division_is_named(text: str, why: str, tmp_path: Path) -> None:
    judge_shards(tmp_path / "many", 4, only=(1,))
    (tmp_path / "many" / "shards.json").write_text(text)
    for act in (lambda: merge([tmp_path / "many"]), lambda: open_run(tmp_path / "many")):
        with pytest.raises(RunError, match=f"shards.json .*{why}"):
            act()


def test_what_parts_spent_is_summed_and_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    spent: list[object] = [
        {"total": {"attempts": 5, "answered": 4, "refused": 0, "lost": 1, "cost": 0.25, "exact": False}},
        {"total": {"attempts": 2, "answered": 2, "refused": 0, "lost": 0, "cost": 0.5, "exact": True}},
        {"total": {"attempts": "many", "cost": 0.0}},
        "nothing",
    ]
    folders = [tmp_path / str(number) for number in range(4)]
    for number, folder in enumerate(folders):
        stepscore.score(many(40)[number::4], Uneven(), out=folder)
        info = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps({**info, "spent": spent[number], "workers": "x"}))
    merged = merge(folders, tmp_path / "merged").run
    assert merged is not None
    assert merged.info["spent"]["total"] == {
        "attempts": 7,
        "answered": 6,
        "refused": 0,
        "lost": 1,
        "cost": 0.75,
        "exact": False,
    }

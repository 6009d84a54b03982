from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode, Subgoal
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.errors import CapabilityError, EpisodeError, ProtocolMismatchError, RunError
from stepscore.judges import Ask
from stepscore.runs import FinishedEpisode
from stepscore.runs.tables import TABLES
from stepscore.types import Curve, Judgement, Verdict
from tests.fakes import FakeView, episode

SAME = [name for name in TABLES if name != "usage"]


@dataclass
class Counting:
    """A judge that counts what it is asked, finishes out of order, and fails where it should."""

    fails: tuple[str, ...] = ()
    crashes: tuple[str, ...] = ()
    calls: int = 0
    name = "counting"
    version = 1
    models = ()

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        self.calls += 1
        await asyncio.sleep((hash(episode.id) % 7) / 5000)
        if episode.id in self.fails:
            raise EpisodeError(f"Episode {episode.id} cannot be judged.")
        if episode.id in self.crashes:
            raise ZeroDivisionError("a bug")
        return Judgement(
            Curve(np.array([0.0, 1.0]), np.array([0.0, np.nan]), {"raw": np.array([0.0, 7.0])}),
            (Verdict("grasp", "yes", score=0.9), Verdict("lift", "unknown", why="hidden")),
        )


def many(n: int = 40) -> list[Episode]:
    return [episode(f"task/e{i:03d}") for i in range(n)]


def table_bytes(folder: Path) -> dict[str, bytes]:
    return {name: (folder / f"{name}.parquet").read_bytes() for name in SAME}


def test_every_judge_of_the_public_face_scores(tmp_path: Path) -> None:
    for name in ("linear-time", "constant", "random-monotone"):
        run = stepscore.score(many(3), stepscore.get_judge(name), out=tmp_path / name)
        assert run.episodes().num_rows == run.judgements().num_rows == 3
        assert run.curves().num_rows == 3 * 32
        assert stepscore.open_run(tmp_path / name).curves().equals(run.curves())


def test_tables_do_not_depend_on_workers_or_order(tmp_path: Path) -> None:
    one = stepscore.score(many(), Counting(), out=tmp_path / "one", workers=1)
    four = stepscore.score(many()[::-1], Counting(), out=tmp_path / "four", workers=4)
    assert table_bytes(one.path) == table_bytes(four.path)
    assert (one.path / "journal.jsonl").read_text() != (four.path / "journal.jsonl").read_text()


def test_a_second_start_judges_nothing_again(tmp_path: Path) -> None:
    judge = Counting()
    before = table_bytes(stepscore.score(many(), judge, out=tmp_path / "run").path)
    run = stepscore.score(many(), judge, out=tmp_path / "run")
    assert judge.calls == 40
    assert run.info["last"]["reused"] == 40
    assert table_bytes(run.path) == before


def test_a_bad_episode_is_a_row_with_its_error_and_is_tried_again(tmp_path: Path) -> None:
    judge = Counting(fails=("task/e001",), crashes=("task/e002",))
    run = stepscore.score(many(4), judge, out=tmp_path / "run")
    errors = run.judgements().column("error").to_pylist()
    assert errors == [None, "Episode task/e001 cannot be judged.", "ZeroDivisionError: a bug", None]
    assert run.info["last"]["failed"] == 2
    judge.fails = judge.crashes = ()
    run = stepscore.score(many(4), judge, out=tmp_path / "run")
    assert judge.calls == 6
    assert run.judgements().column("error").null_count == 4


def test_a_changed_episode_is_judged_again_and_a_changed_label_is_not(tmp_path: Path) -> None:
    judge = Counting()
    episodes = many(3)
    stepscore.score(episodes, judge, out=tmp_path / "run")
    episodes[0] = replace(episodes[0], instruction="close the drawer")
    episodes[1] = replace(episodes[1], views={"top": FakeView(mark="another file")})
    episodes[2] = replace(episodes[2], labels=Labels((Label("success", "holds", value=1.0),)))
    run = stepscore.score(episodes, judge, out=tmp_path / "run")
    assert judge.calls == 5
    assert run.episodes().column("success").to_pylist() == [None, None, True]
    assert run.episodes().column("instruction")[0].as_py() == "close the drawer"


def test_changed_subgoals_are_judged_again(tmp_path: Path) -> None:
    judge = Counting()
    stepscore.score(many(1), judge, out=tmp_path / "run")
    stepscore.score([episode("task/e000", subgoals=(Subgoal("grasp"),))], judge, out=tmp_path / "run")
    assert judge.calls == 2


def test_another_protocol_is_refused_with_the_difference(tmp_path: Path) -> None:
    stepscore.score(many(2), stepscore.get_judge("linear-time"), out=tmp_path / "run")
    with pytest.raises(ProtocolMismatchError, match=r"judge.options.points is 16, not 32"):
        stepscore.score(many(2), stepscore.get_judge("linear-time", points=16), out=tmp_path / "run")


def test_a_folder_that_is_no_run_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunError, match="not a run folder"):
        stepscore.score(many(2), Counting(), out=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_two_episodes_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="Two episodes have the id 'e'"):
        stepscore.score([episode(), episode()], Counting(), out=tmp_path / "run")


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    from stepscore.runs.journal import Journal

    stepscore.score(many(2), Counting(), out=tmp_path / "run")
    with (
        Journal(tmp_path / "run" / "journal.jsonl"),
        pytest.raises(RunError, match="Another process is writing"),
    ):
        stepscore.score(many(2), Counting(), out=tmp_path / "run")


def test_views_are_chosen_and_a_wrong_one_lists_the_valid_ones(tmp_path: Path) -> None:
    both = episode("a", views={"top": FakeView(), "wrist": FakeView()})
    run = stepscore.score([both, episode("b")], Counting(), out=tmp_path / "run", views=["wrist"])
    first, second = run.judgements().column("error").to_pylist()
    assert first is None
    assert second == "Unknown view 'wrist' in episode b. Valid: top."
    assert [v["name"] for v in run.episodes().column("views")[0].as_py()] == ["wrist"]
    assert run.protocol.content["views"] == ["wrist"]


def test_progress_is_told_once_per_episode(tmp_path: Path) -> None:
    seen: list[FinishedEpisode] = []
    stepscore.score(many(5), Counting(), out=tmp_path / "run", on_done=seen.append, workers=3, engine="local")
    assert sorted(done.episode_id for done in seen) == [e.id for e in many(5)]


def test_it_runs_inside_a_notebooks_loop(tmp_path: Path) -> None:
    async def cell() -> int:
        return stepscore.score(many(2), Counting(), out=tmp_path / "run").judgements().num_rows

    assert asyncio.run(cell()) == 2


def test_verdicts_channels_and_unknown_reach_the_tables(tmp_path: Path) -> None:
    run = stepscore.score(many(1), Counting(), out=tmp_path / "run")
    assert run.curves().to_pylist()[1] == {
        "episode_id": "task/e000",
        "time_s": 1.0,
        "progress": None,
        "raw": 7.0,
    }
    assert run.verdicts().column("answer").to_pylist() == ["yes", "unknown"]
    assert run.judgements().column("coverage").to_pylist() == [0.5]


def test_dates_and_seconds_are_in_usage_and_run_json_alone(tmp_path: Path) -> None:
    run = stepscore.score(many(2), Counting(), out=tmp_path / "run")
    info = json.loads((run.path / "run.json").read_text())
    assert info["status"] == "finished"
    assert {"created", "versions", "workers"} <= info.keys()
    assert not {"created", "workers", "versions"} & info["protocol"].keys()


def test_half_a_surrogate_pair_in_an_answer_does_not_stop_the_run(tmp_path: Path) -> None:
    @dataclass
    class Odd(Counting):
        async def judge(self, episode: Episode, ask: Ask) -> Judgement:
            return Judgement(verdicts=(Verdict("grasp", "yes", why="nice \ud83e"),))

    run = stepscore.score(many(2), Odd(), out=tmp_path / "run")
    assert run.verdicts().column("why").to_pylist() == ["nice ?", "nice ?"]


def test_a_model_that_cannot_do_what_is_asked_stops_the_run_at_once(tmp_path: Path) -> None:
    @dataclass
    class Needy(Counting):
        async def judge(self, episode: Episode, ask: Ask) -> Judgement:
            self.calls += 1
            raise CapabilityError("mock/ gives no token scores; hf/ does")

    judge = Needy()
    with pytest.raises(CapabilityError, match="hf/ does"):
        stepscore.score(many(5), judge, out=tmp_path / "run")
    assert judge.calls == 1


def test_a_replaced_goal_image_is_judged_again(tmp_path: Path) -> None:
    goal = tmp_path / "goal.png"
    judge = Counting()
    for content in (b"one", b"two"):
        goal.write_bytes(content)
        stepscore.score([episode("e", goals={"top": goal})], judge, out=tmp_path / "run")
    assert judge.calls == 2

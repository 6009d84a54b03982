"""Several processes give the run that one gives, also where some of them die."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import stepscore
from stepscore.errors import BudgetError, OptionError, RunError, UnknownNameError
from stepscore.models.api.openai import OpenAIModel
from stepscore.models.calls import Budget
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions, Run
from stepscore.runs.engines import LocalEngine, ProcessEngine, choose_engine
from stepscore.runs.engines.processes import THREAD_VARIABLES, ProcessHandle, ProcessPool
from stepscore.runs.messages import Ready, Unable
from stepscore.runs.tables import TABLES
from stepscore.testing import write_toy_rollouts
from tests.models.api.servers import serving
from tests.runs.engines.judges import Asking, Impatient, Killing, many

Score = Callable[..., Run]


def tables(run: Run) -> dict[str, bytes]:
    return {name: (run.path / f"{name}.parquet").read_bytes() for name in TABLES if name != "usage"}


@pytest.fixture
def score(tmp_path: Path) -> Score:
    def judge(name: str, judge: Asking, n: int = 12, **options: object) -> Run:
        calls = CallOptions(cache_path=tmp_path / f"{name}.sqlite")
        return stepscore.score(many(n), judge, tmp_path / name, **{"call_options": calls, **options})  # type: ignore[arg-type]

    return judge


def test_tables_and_accounts_are_those_of_one_process(score: Score) -> None:
    judge = Asking(fails="task/e004")
    one, three = score("one", judge), score("three", judge, workers=3)
    assert tables(one) == tables(three)
    assert one.info["spent"] == three.info["spent"]
    assert three.info["spent"]["total"]["answered"] == 33
    assert three.info["workers"] == 3
    assert sorted(three.usage().column("attempts").to_pylist()) == [0, *[3] * 11]
    again = score("three", Asking(), workers=2)
    assert again.info["last"] == {
        "judged": 1,
        "reused": 11,
        "failed": 0,
        "seconds": pytest.approx(0, abs=600),
    }
    assert tables(again) == tables(score("good", Asking()))


def test_answers_are_cached_by_the_first_process_and_taken_from_there(score: Score, tmp_path: Path) -> None:
    shared = CallOptions(cache_path=tmp_path / "cache.sqlite")
    one = score("one", Asking(), n=4, call_options=shared)
    two = score("two", Asking(), n=6, call_options=shared, workers=2)
    assert two.info["spent"]["total"]["attempts"] == 6
    assert sorted(two.usage().column("cached").to_pylist()) == [0, 0, 3, 3, 3, 3]
    assert one.info["spent"]["total"]["attempts"] == 12


def test_a_worker_that_is_killed_costs_only_what_it_had_under_way(score: Score, tmp_path: Path) -> None:
    names = ("task/e002", "task/e005")
    killed = score("killed", Killing(episodes=names, once=tmp_path), workers=2)
    quiet = score("quiet", Killing(episodes=names, once=tmp_path))  # the marks are there: it kills nobody
    assert tables(killed) == tables(quiet)
    assert killed.info["last"]["failed"] == 0
    assert (tmp_path / "task_e002").exists()


def test_an_episode_that_kills_its_workers_becomes_a_row_and_the_others_are_judged(score: Score) -> None:
    run = score("run", Killing(episodes=("task/e001",)), n=4, workers=2)
    errors = dict(
        zip(*(run.judgements().column(name).to_pylist() for name in ("episode_id", "error")), strict=True)
    )
    assert [name for name, error in errors.items() if error] == ["task/e001"]
    assert errors["task/e001"] == (
        "3 workers ended one after another while judging this episode (killed by SIGKILL). "
        "Its judge, model or video makes them crash or use too much memory."
    )
    assert run.episodes().column("instruction").to_pylist() == ["open the drawer"] * 4
    again = score("run", Killing(), n=4)
    assert again.info["last"]["judged"] == 1
    assert tables(again) == tables(score("good", Killing(), n=4))


def test_a_budget_holds_over_all_processes_and_a_larger_one_ends_the_run(
    score: Score, tmp_path: Path
) -> None:
    small = CallOptions(Budget(max_calls=10), cache_path=tmp_path / "run.sqlite")
    with pytest.raises(BudgetError, match="The budget of 10 calls is spent"):
        score("run", Asking(), call_options=small, workers=2)
    stopped = stepscore.open_run(tmp_path / "run")
    assert stopped.info["status"] == "stopped by the budget"
    assert stopped.info["spent"]["total"]["attempts"] == 10
    assert 1 <= stopped.judgements().num_rows <= 3
    ended = score("run", Asking(), workers=2)
    assert ended.info["spent"]["total"]["attempts"] == 36, "no answered call was made again"
    assert tables(ended) == tables(score("whole", Asking()))


def test_a_served_model_is_asked_by_the_first_process(score: Score) -> None:
    # A list in this process sees every request only if this process made them.
    judge = Asking(MockModel("51.0", served=True))
    run = score("served", judge, n=4, workers=2, engine="processes")
    assert len(judge.model.requests) == 12  # type: ignore[union-attr]
    assert run.judgements().column("success_score").to_pylist() == [0.2] * 4


def test_a_server_is_asked_nothing_twice_although_a_worker_dies_as_it_waits(
    score: Score, tmp_path: Path
) -> None:
    with serving(delay_s=0.5) as server:
        judge = Impatient(mark=tmp_path / "mark", model=OpenAIModel("tiny", base_url=server.url))
        run = score("run", judge, n=4, workers=2, engine="processes")
        assert (tmp_path / "mark").exists()
        assert server.stats()["total"] == 4
    assert run.info["spent"]["total"]["answered"] == 4
    assert run.judgements().column("error").null_count == 4


def test_what_cannot_be_sent_is_refused_with_a_sentence(score: Score) -> None:
    script = MockModel(script=lambda request: "1")
    with pytest.raises(RunError, match=r"'asking' cannot be sent to another process.*-E engine=local"):
        score("lambda", Asking(script), workers=2)
    assert score("local", Asking(script), workers=2, engine="local").info["last"]["judged"] == 12


def test_a_judge_that_another_process_cannot_load_is_refused_with_a_sentence(
    score: Score, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = type("OfANotebook", (Asking,), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "OfANotebook", made, raising=False)
    with pytest.raises(RunError, match=r"cannot be used in another process: .*OfANotebook.*-E engine=local"):
        score("run", made(), workers=2)


def test_the_usual_engine_is_one_process_and_for_a_served_model_always(tmp_path: Path) -> None:
    options, here, served = CallOptions(connections=5), Asking(), Asking(MockModel("1", served=True))
    assert choose_engine("auto", here, None, options) == LocalEngine(2)  # one is decoded while one is scored
    assert choose_engine("auto", here, 1, options) == LocalEngine(2)
    assert choose_engine("auto", stepscore.get_judge("linear-time"), None, options) == LocalEngine(1)
    assert choose_engine("local", here, 1, options) == LocalEngine(1)
    assert choose_engine("auto", here, 4, options) == ProcessEngine(4)
    assert choose_engine("auto", served, 4, options) == LocalEngine(4)
    assert choose_engine("auto", served, None, options) == LocalEngine(5)
    assert choose_engine("local", here, 4, options) == LocalEngine(4)
    assert choose_engine("processes", here, None, options) == ProcessEngine(os.cpu_count() or 1)
    with pytest.raises(UnknownNameError, match="Unknown engine 'slurm'"):
        choose_engine("slurm", here, 4, options)
    with pytest.raises(OptionError, match="workers must be an integer from 1 to 4096, got 0"):
        stepscore.score(many(1), here, tmp_path / "run", workers=0, engine="processes")


def test_processes_share_the_cores_unless_the_user_chose_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    environment = ProcessPool([], 3)._environment
    assert [environment[name] for name in THREAD_VARIABLES] == ["2", "2", "7"]
    assert ProcessPool([], 20)._environment["OMP_NUM_THREADS"] == "1"


def test_what_a_worker_said_before_it_ended_counts() -> None:
    async def received() -> list[list[object]]:
        link = ProcessHandle.__new__(ProcessHandle)
        link._received = asyncio.Queue()
        for message in (Ready(), Unable("why"), None):
            link._received.put_nowait(message)
        link.wait = lambda: None  # type: ignore[method-assign]
        return [list(await link.receive()) for _ in range(2)]

    assert asyncio.run(received()) == [[Ready(), Unable("why")], []]


SCRIPT = """
import signal
from pathlib import Path
import stepscore
from tests.runs.engines.judges import Sleeping, many
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
stepscore.score(many(), Sleeping(folder=Path({marks!r})), {run!r}, workers=2)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left_when_the_first_one_is_stopped(tmp_path: Path, how: signal.Signals) -> None:
    marks, run = tmp_path / "marks", tmp_path / "run"
    marks.mkdir()
    script = SCRIPT.format(marks=str(marks), run=str(run))
    first = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    try:
        _wait(lambda: len(list(marks.iterdir())) == 2)
        workers = [int(mark.name) for mark in marks.iterdir()]
        first.send_signal(how)
        said = first.communicate(timeout=30)[1].decode()
    finally:
        first.kill()
    assert ("KeyboardInterrupt" in said) == (how == signal.SIGINT)
    _wait(lambda: not any(map(_is_alive, workers)))


def test_a_judge_of_the_users_own_file_is_taken_along(tmp_path: Path) -> None:
    toys = write_toy_rollouts(tmp_path / "toys", scenes=1)
    (tmp_path / "mine.py").write_text(OWN)
    options = ["--judge", "mine.py:Own"]
    for name, workers in (("one", "1"), ("two", "2")):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "stepscore",
                "judge",
                str(toys),
                *options,
                "-o",
                name,
                "-E",
                f"workers={workers}",
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1, done.stderr
        assert "ZeroDivisionError: division by zero (mine.py, line 20)" in done.stderr
    one, two = (stepscore.open_run(tmp_path / name) for name in ("one", "two"))
    assert tables(one) == tables(two)


OWN = """
from dataclasses import dataclass
import numpy as np
from stepscore.types import Curve, Judgement

@dataclass(frozen=True)
class Own:
    points: int = 4
    name = "own"
    version = 1
    models = ()

    def options(self):
        return {"points": self.points}

    async def judge(self, episode, ask):
        assert type(self).__module__.startswith("_stepscore_local_mine")
        value = 0.5
        if episode.id.endswith("0"):
            value = 1 / 0
        return Judgement(Curve(np.arange(4.0), np.full(4, value)))
"""


def _wait(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # One that has ended and was not waited for is still listed.
    return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_what_a_model_need_not_read_again_changes_no_table(tmp_path: Path) -> None:
    # Questions about one video: which of them follow another in one process depends on the workers.
    (video, *_) = stepscore.open_episodes(Path(stepscore.__file__).parent / "cli" / "demo_data")
    words = ("open the drawer", "close the window", "reach the goal", "push the block")
    episodes = [replace(video, id=f"e{i}", instruction=text) for i, text in enumerate(words)]
    judge = stepscore.get_judge("topreward", model=stepscore.get_model("embedded", gate=False), prefixes=16)
    calls = CallOptions(cache=False)
    one, two = (
        stepscore.score(episodes, judge, tmp_path / str(workers), workers=workers, call_options=calls)
        for workers in (1, 2)
    )
    assert tables(one) == tables(two)
    *others, first = sorted(one.usage().column("tokens_in").to_pylist())
    assert max(others) < first, "what was not read is not counted as used"

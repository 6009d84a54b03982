"""A run on a Ray cluster is the run of one process, also where a worker, a model's actor or a node is lost."""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stepscore
from stepscore.errors import MissingExtraError, OptionError
from stepscore.models.api.openai import OpenAIModel
from stepscore.runs import CallOptions, FinishedEpisode, Run
from stepscore.runs.engines import RayEngine, choose_engine
from stepscore.runs.engines.ray_engine import connected
from stepscore.runs.engines.ray_workers import plan
from stepscore.server import LivePage
from stepscore.testing import write_toy_rollouts
from tests.models.api.servers import serving
from tests.runs.engines.judges import (
    Asking,
    Exiting,
    ExitingModel,
    Gathering,
    Impatient,
    Killing,
    Mortal,
    Rounds,
    many,
    slow,
)
from tests.runs.engines.test_processes import tables
from tests.server.test_app import TEMPLATE

Score = Callable[..., Run]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of one node, to which this process is connected. Nodes can be added."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    nodes = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 2,
            "resources": {"place": 1},
            "include_dashboard": False,
            "object_store_memory": 1 << 28,
            # A node that was removed is noticed within seconds, and nothing is started on it.
            "_system_config": {
                "health_check_initial_delay_ms": 1000,
                "health_check_period_ms": 500,
                "health_check_failure_threshold": 6,
            },
        },
    )
    ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def score(tmp_path: Path) -> Score:
    def judge(name: str, judge: Asking, n: int = 12, **options: object) -> Run:
        calls = CallOptions(cache_path=tmp_path / f"{name}.sqlite", connections=4)
        return stepscore.score(many(n), judge, tmp_path / name, **{"call_options": calls, **options})  # type: ignore[arg-type]

    return judge


def test_a_node_that_joins_is_used(
    cluster: Any, score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first test of the module: nodes that others removed count for some seconds."""
    monkeypatch.setattr("stepscore.runs.owner.GROW_S", 0.2)
    marks = tmp_path / "marks"
    marks.mkdir()
    added: list[Any] = []

    def join(one: FinishedEpisode) -> None:
        if not added:
            added.append(cluster.add_node(num_cpus=1))

    judge = Gathering(folder=marks, processes=3)
    # Enough that some are left when two workers have all that they take.
    run = score("ray", judge, n=12, engine=RayEngine(), on_done=join)
    assert run.info["last"]["failed"] == 0
    assert len(list(marks.iterdir())) == 3
    cluster.remove_node(added[0], allow_graceful=False)


def test_a_lost_worker_and_a_lost_model_change_no_table(cluster: Any, score: Score, tmp_path: Path) -> None:
    judge = Killing(Mortal(mark=tmp_path / "mark"), "task/e004", ("task/e002",), tmp_path)
    ray_run = score("ray", judge, engine=RayEngine(workers=2))
    local = score("local", Killing(fails="task/e004"))
    assert (tmp_path / "mark").exists(), "a worker died in its model"
    assert (tmp_path / "task_e002").exists(), "a worker died"
    assert tables(ray_run) == tables(local)
    spent = ray_run.info["spent"]["total"]
    assert spent["answered"] == 33
    assert spent["lost"] >= 1, "what the model had when it died is counted"


def test_what_exits_in_a_worker_or_in_a_models_actor_is_a_row(cluster: Any, score: Score) -> None:
    run = score("ray", Exiting(ExitingModel()), n=4, engine=RayEngine(workers=1))
    errors = run.judgements().column("error").to_pylist()
    assert [bool(error) for error in errors] == [False, True, True, False]
    assert all("judges.py" in error and "called sys.exit(0)" in error for error in filter(None, errors))


def test_a_node_that_leaves_costs_only_what_was_under_way(cluster: Any, score: Score, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1)
    done: list[FinishedEpisode] = []
    shown: list[bytes] = []
    live = LivePage([tmp_path / "ray"], template=TEMPLATE)

    def leave(one: FinishedEpisode) -> None:
        done.append(one)
        if len(done) == 5:
            shown.append(live.page())
            cluster.remove_node(node, allow_graceful=False)

    # One of the two workers may be on the node that leaves; another takes its place.
    ray_run = score("ray", Asking(), n=16, engine=RayEngine(workers=2), on_done=leave)
    assert len(done) == 16
    assert ray_run.info["spent"]["total"]["answered"] == 48
    assert ray_run.info["spent"]["total"]["lost"] <= 4, "what was under way: two episodes of each worker"
    assert b'"running":true' in shown[0], "the page of `view` beside it follows the journal"
    assert b'"n":5' in shown[0]
    assert tables(ray_run) == tables(score("local", Asking(), n=16))


def test_a_server_is_asked_nothing_twice_although_a_worker_dies_as_it_waits(
    cluster: Any, score: Score, tmp_path: Path
) -> None:
    with serving(delay_s=0.5) as server:
        judge = Impatient(mark=tmp_path / "mark", model=OpenAIModel("tiny", base_url=server.url))
        ray_run = score("ray", judge, n=8, engine="ray", workers=2)
        stats = server.stats()
        assert (tmp_path / "mark").exists()
        assert stats["total"] == 8
        assert stats["at_once"] <= 4, "the connections are those of the whole cluster"
        assert tables(ray_run) == tables(score("local", judge, n=8))
        assert server.stats()["total"] == 16
    assert ray_run.info["spent"]["total"]["attempts"] == 8


def test_a_cluster_of_this_machine_ends_with_the_run(tmp_path: Path) -> None:
    toys = write_toy_rollouts(tmp_path / "toys", scenes=1)
    mark = secrets.token_hex(8)
    line = [sys.executable, "-m", "stepscore", "judge", str(toys), "--judge", "linear-time", "-o", "run"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    done = subprocess.run(
        [*line, "-E", "engine=ray", "-E", "workers=2"],
        cwd=tmp_path,
        env={**environment, "STEPSCORE_TEST": mark, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "9 judged" in done.stderr
    assert not (tmp_path / ".ray").exists(), "no token is left, for which every later cluster would ask"
    assert "usage" not in done.stderr, "nothing is said of statistics that are sent to anyone"
    end = time.monotonic() + 30
    while left := [path for path in Path("/proc").glob("[0-9]*") if _has(path, mark)]:
        assert time.monotonic() < end, left
        time.sleep(0.1)
    local = stepscore.score(
        stepscore.open_episodes(toys), stepscore.get_judge("linear-time"), tmp_path / "local"
    )
    assert tables(stepscore.open_run(tmp_path / "run")) == tables(local)


def _has(process: Path, mark: str) -> bool:
    try:
        return mark.encode() in (process / "environ").read_bytes()
    except OSError:
        return False


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscore._imports._is_installed", lambda module: module != "ray")
    with pytest.raises(MissingExtraError, match=r"The engine ray needs the 'ray' extra.*stepscore\[ray\]"):
        choose_engine("ray", Asking(), None, CallOptions())


def test_addresses_and_numbers_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(OptionError, match="ray job submit"), connected("ray://head:10001", 2):
        pass
    for address in ("127.0.0.1:1", "nowhere", "host:0", ":1", "host:" + "9" * 50, "é" * 300 + ":80"):
        found = pytest.raises(OptionError, match=r"Cannot use the Ray cluster at .*ray start --head")
        with found, connected(address, 2):
            pass
    monkeypatch.setattr("stepscore.runs.engines.ray_engine._check_address", lambda where: None)
    monkeypatch.setattr("ray.init", _wants_a_token)
    wanted = pytest.raises(OptionError, match=r"at head:1 needs a token. Set RAY_AUTH_MODE=token")
    with wanted, connected("head:1", 2):
        pass
    with pytest.raises(OptionError, match="workers must be an integer from 1 to 4096, got 0"):
        RayEngine(workers=0)


def test_a_cluster_puts_the_same_requests_together_as_one_process(
    cluster: Any, score: Score, tmp_path: Path
) -> None:
    fresh = CallOptions(cache=False)
    local = stepscore.score(slow(), Rounds(), tmp_path / "local", call_options=fresh)
    engine = RayEngine(workers=2)
    on_ray = stepscore.score(slow(), Rounds(), tmp_path / "ray", engine=engine, call_options=fresh)
    assert tables(on_ray) == tables(local)


def _wants_a_token(**options: object) -> None:
    import ray

    raise ray.exceptions.AuthenticationError("no token")


def test_workers_of_a_cluster_of_this_machine_have_its_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.init", lambda **options: None)
    monkeypatch.setattr("ray.shutdown", lambda: None)
    for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_worker_niceness"):
        monkeypatch.setenv(name, "x")  # so that it is put back
        monkeypatch.delenv(name)
    with connected(None, 2):
        assert os.environ["RAY_worker_niceness"] == "0"  # noqa: SIM112 - as Ray reads it
    monkeypatch.setenv("RAY_worker_niceness", "7")
    with connected(None, 2):
        assert os.environ["RAY_worker_niceness"] == "7"  # noqa: SIM112


def test_workers_have_the_gpus_else_the_cpus_and_none_waits_for_more_than_there_is() -> None:
    computing, plain = Asking(), stepscore.get_judge("linear-time")
    assert plan(computing, None, {"CPU": 8.0}) == (8, {"num_cpus": 1.0})
    assert plan(plain, 4, {"CPU": 2.0}) == (4, {"num_cpus": 0.5})
    assert plan(computing, None, {"CPU": 16.0, "GPU": 4.0}) == (4, {"num_cpus": 1.0, "num_gpus": 1.0})
    assert plan(computing, 6, {"CPU": 16.0, "GPU": 4.0}) == (6, {"num_cpus": 1.0, "num_gpus": 4 / 6})
    assert plan(computing, 8, {"CPU": 4.0}) == (8, {"num_cpus": 0.5})
    assert plan(plain, None, {"CPU": 16.0, "GPU": 4.0}) == (16, {"num_cpus": 1.0}), (
        "it computes nothing there"
    )

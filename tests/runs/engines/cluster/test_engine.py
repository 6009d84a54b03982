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
from stepscore.runs.engines import choose_engine
from stepscore.runs.engines.cluster import RayEngine
from stepscore.runs.engines.cluster.engine import connected
from stepscore.runs.engines.cluster.placement import plan
from stepscore.testing import write_toy_rollouts
from tests.models.api.servers import serving
from tests.runs.engines.judges import Asking, Brightness, Impatient, Killing, Mortal, Rounds, many, slow
from tests.runs.engines.test_processes import tables

Score = Callable[..., Run]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of one node, to which this process is connected. Nodes can be added."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "include_dashboard": False, "object_store_memory": 1 << 28},
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


def test_a_lost_worker_and_a_lost_model_change_no_table(cluster: Any, score: Score, tmp_path: Path) -> None:
    judge = Killing(Mortal(mark=tmp_path / "mark"), "task/e004", ("task/e002",), tmp_path)
    ray_run = score("ray", judge, engine=RayEngine(workers=2, replicas=1))
    local = score("local", Killing(fails="task/e004"))
    assert (tmp_path / "mark").exists(), "the model's actor died"
    assert (tmp_path / "task_e002").exists(), "a worker died"
    assert tables(ray_run) == tables(local)
    spent = ray_run.info["spent"]["total"]
    assert spent["answered"] == 33
    assert spent["lost"] >= 1, "what the model had when it died is counted"


def test_a_node_that_leaves_costs_only_what_was_under_way(cluster: Any, score: Score, tmp_path: Path) -> None:
    node = cluster.add_node(num_cpus=1)
    done: list[FinishedEpisode] = []
    shown: list[int] = []

    def leave(one: FinishedEpisode) -> None:
        done.append(one)
        if len(done) == 5:
            # The live page reads a run as anybody does: what is finished is there at once.
            shown.append(stepscore.open_run(tmp_path / "ray").judgements().num_rows)
            cluster.remove_node(node, allow_graceful=False)

    ray_run = score("ray", Asking(), n=16, engine=RayEngine(workers=2, replicas=1), on_done=leave)
    assert len(done) == 16
    assert shown == [5]
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
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    done = subprocess.run(
        [*line, "--engine", "ray", "--workers", "2"],
        cwd=tmp_path,
        env={**environment, "STEPSCORE_TEST": mark},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "9 judged" in done.stderr
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
    monkeypatch.setattr("stepscore._extras._is_installed", lambda module: module != "ray")
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
    with pytest.raises(OptionError, match="workers is 0; it must be 1 to 4096"):
        RayEngine(workers=0)
    with pytest.raises(OptionError, match="replicas is -1"):
        RayEngine(replicas=-1)


def test_a_cluster_puts_the_same_requests_together_as_one_process(
    cluster: Any, score: Score, tmp_path: Path
) -> None:
    fresh = CallOptions(cache=False)
    local = stepscore.score(slow(), Rounds(), tmp_path / "local", call_options=fresh)
    engine = RayEngine(workers=2, replicas=1)
    on_ray = stepscore.score(slow(), Rounds(), tmp_path / "ray", engine=engine, call_options=fresh)
    assert tables(on_ray) == tables(local)


def test_models_have_the_gpus_else_the_cpus_and_nothing_waits_for_more_than_there_is() -> None:
    computing, plain = Asking(), stepscore.get_judge("linear-time")
    found = plan(computing, None, None, {"CPU": 8.0})
    assert (found.workers, found.worker, found.replicas, found.replica) == (
        8,
        {"num_cpus": 0},
        8,
        {"num_cpus": 1.0},
    )
    found = plan(plain, 4, None, {"CPU": 2.0})
    assert (found.workers, found.worker) == (4, {"num_cpus": 0.5})
    found = plan(computing, None, None, {"CPU": 16.0, "GPU": 4.0})
    assert (found.workers, found.replicas, found.replica) == (16, 4, {"num_cpus": 0, "num_gpus": 1.0})
    assert plan(computing, None, 6, {"CPU": 16.0, "GPU": 4.0}).replicas == 6
    assert plan(computing, 2, 8, {"CPU": 4.0}).replica == {"num_cpus": 0.5}

    class Two(Asking):
        models = (Brightness(), Brightness())

    found = plan(Two(), None, None, {"CPU": 4.0, "GPU": 1.0})
    assert (found.replicas, found.replica["num_gpus"]) == (1, 0.5)

"""A server of another maker: ``transformers serve`` in front of a small random LLaVA, asked as ``openai-api/``.

It writes and tells no log-probabilities: what needs them must be refused, and nothing made up in their place.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import stamina

import stepscore
from stepscore.episodes import Clip, Episode, Subgoal
from stepscore.errors import CapabilityError, ModelError, StatusError
from stepscore.models import DecodedMedia, Generate, Model, Prompt, Turn, get_model
from stepscore.runs import CallOptions
from tests.fakes import FakeView, episode
from tests.judges.asked import run_judge
from tests.models.hf import tiny_families

pytestmark = pytest.mark.slow

NAME = "someone/tiny"
START_S = 180.0  # importing transformers alone takes a minute on a busy machine
WRITTEN = 12
GOALS = (Subgoal("grasp the handle"), Subgoal("the drawer is open", mode="holds"))
# The server always names a device, and to place weights on a named one transformers wants accelerate. Where
# that is not installed the weights stay where they are read, in memory; all else is the command as it ships.
WITHOUT_ACCELERATE = """
from transformers.cli.serving.model_manager import ModelManager
from transformers.cli.transformers import main

load = ModelManager._load_model

def load_where_it_is(manager, *args, **options):
    manager.device = None
    return load(manager, *args, **options)

ModelManager._load_model = load_where_it_is
main()
"""


@dataclass(frozen=True)
class Served:
    """The server, and the folder it runs in."""

    home: Path
    port: int

    @property
    def log(self) -> Path:
        return self.home / "log.txt"

    @property
    def questions(self) -> int:
        """How many it was sent, by its own log."""
        return self.log.read_text(errors="replace").count('"POST /v1/chat/completions')

    def model(self, name: str = NAME, **options: Any) -> Model:
        return get_model(f"openai-api/local/{name}", base_url=f"http://127.0.0.1:{self.port}/v1", **options)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    absent = [name for name in ("fastapi", "openai") if find_spec(name) is None]
    if absent:
        result = (
            f"NO SERVER OF ANOTHER MAKER: transformers serve needs {' and '.join(absent)}; nothing was tried"
        )
        pytest.fail(result) if os.environ.get("CI") == "true" else pytest.skip(result)
    home = tmp_path_factory.mktemp("served")
    (home / NAME).mkdir(parents=True)
    tiny_families.llava(home / NAME)
    with socket.create_server(("127.0.0.1", 0)) as free:
        running = Served(home, free.getsockname()[1])
    with running.log.open("w") as log:
        process = subprocess.Popen(command(running.port), cwd=home, env=alone(home), stdout=log, stderr=log)
    try:
        wait_until_it_answers(process, running)
        yield running
    finally:
        process.kill()
        process.wait()


def command(port: int) -> list[str]:
    shipped = [str(Path(sys.executable).with_name("transformers"))]
    start = shipped if find_spec("accelerate") else [sys.executable, "-c", WITHOUT_ACCELERATE]
    return [*start, "serve", NAME, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]


def alone(home: Path) -> dict[str, str]:
    """The environment of a machine that never fetched a model, and cannot."""
    return os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home / "hub"), "OMP_NUM_THREADS": "1"}


def wait_until_it_answers(process: subprocess.Popen[bytes], running: Served) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            httpx2.get(f"http://127.0.0.1:{running.port}/health", timeout=5).raise_for_status()
        except httpx2.HTTPError:
            time.sleep(0.2)
        else:
            return
    state = f"ended with {process.poll()}" if process.poll() is not None else f"silent for {START_S:g} s"
    pytest.fail(f"transformers serve {state}:\n{running.log.read_text(errors='replace')[-3000:]}")


def still(seed: int) -> DecodedMedia:
    pixels = np.random.default_rng(seed).integers(0, 256, (1, 40, 60, 3), dtype=np.uint8)
    return DecodedMedia(Clip(pixels, np.zeros(1), np.zeros(1, np.int64)))


def said(*parts: Any) -> Prompt:
    return Prompt((Turn("system", ("Be brief.",)), Turn("user", parts)))


def subjects() -> list[Episode]:
    def views(mark: str) -> dict[str, FakeView]:
        return {view: FakeView(mark=f"{mark} {view}") for view in ("top", "wrist")}

    return [episode(name, views=views(name), subgoals=GOALS) for name in ("one", "two")]


def test_it_answers_as_the_same_network_does_in_this_process(served: Served) -> None:
    there, here = served.model(), get_model(f"hf/{served.home / NAME}")
    first, second = still(1), still(2)
    asked = [("Hello",), ("Look: ", first), ("Look: ", second), (first, " then ", second), (second, first)]
    answers = []
    for parts in asked:
        request = Generate(said(*parts), max_tokens=WRITTEN)
        answers.append(there.generate(request))
        assert answers[-1] == here.generate(request)
    assert len({answer.text for answer in answers}) == len(asked), "it does not look at what it is shown"
    assert {(answer.finish, answer.tokens_out) for answer in answers} == {("length", WRITTEN)}


@pytest.mark.parametrize(
    ("name", "options", "calls", "images"),
    [
        ("gvl", {"frames": 4}, 4, 20),
        ("gvl", {"frames": 4, "form": "json"}, 4, 20),
        ("stepeval", {"frames": 2, "strategy": "per-subgoal", "repeats": 2}, 8, 32),
    ],
    ids=["gvl", "gvl in JSON", "stepeval"],
)
def test_a_run_on_answers_that_say_nothing_is_complete_and_knows_nothing(
    name: str, options: dict[str, Any], calls: int, images: int, served: Served, tmp_path: Path
) -> None:
    judge = stepscore.get_judge(name, model=served.model(), max_tokens=WRITTEN, **options)
    before = served.questions
    with stamina.set_testing(True, attempts=100, cap=True):  # it fails at its list of models; no need to wait
        run = run_judge(judge, subjects(), tmp_path)
    judged = run.judgements().to_pylist()
    assert [row["error"] for row in judged] == [None, None]
    assert [row["success_score"] for row in judged] == [None, None]
    assert set(run.curves().column("progress").to_pylist()) <= {None}
    assert {(row["answer"], row["score"]) for row in run.verdicts().to_pylist()} <= {("unknown", None)}
    if name == "gvl":
        assert [json.loads(row["facts"])["unread"] for row in judged] == [8, 8]
        assert len(run.curves()) == 8
    else:
        assert len(run.verdicts()) == 4
    used = {key: sum(run.usage().column(key).to_pylist()) for key in ("calls", "attempts", "images")}
    assert used == {"calls": calls, "attempts": calls, "images": images}
    assert served.questions - before == calls
    kept = run.calls().to_pylist()
    assert len(kept) == calls
    assert all(row["answer"] and row["tokens_in"] and row["tokens_out"] == WRITTEN for row in kept)


def test_scores_it_does_not_give_are_not_made_up(served: Served, tmp_path: Path) -> None:
    model = served.model()
    with pytest.raises(ModelError, match="no log-probabilities"):
        model.score(said(still(1), "Is it open?"), ("Yes", "No"))
    before = served.questions
    judge = stepscore.get_judge("topreward", model=model, prefixes=3, form="chat")
    with stamina.set_testing(True, attempts=100, cap=True):
        run = stepscore.score(
            subjects(), judge, out=tmp_path, call_options=CallOptions(cache=False, retries=2)
        )
    for row in run.judgements().to_pylist():
        assert "no log-probabilities" in row["error"]
        assert row["success_score"] is None
    assert len(run.curves()) == 0
    assert sum(run.usage().column("attempts").to_pylist()) == served.questions - before > 0


def test_told_that_it_gives_none_it_is_not_asked_for_scores(served: Served, tmp_path: Path) -> None:
    model, before = served.model(top_logprobs=0), served.questions
    with pytest.raises(CapabilityError, match="gives no token scores; hf/, vllm/ and sglang/"):
        model.score(said("Is it open?"), ("Yes", "No"))
    judge = stepscore.get_judge("topreward", model=model, prefixes=3)
    with stamina.set_testing(True, attempts=100, cap=True), pytest.raises(CapabilityError, match="topreward"):
        run_judge(judge, subjects(), tmp_path)
    assert served.questions == before


def test_a_name_it_does_not_serve_is_refused_in_its_own_words(served: Served) -> None:
    with pytest.raises(StatusError, match=r"answered 400: Server is pinned to 'someone/tiny'"):
        served.model("someone/other").generate(Generate(said("Hello"), max_tokens=WRITTEN))


def test_a_machine_without_a_hub_cache_has_no_list_and_no_revision(served: Served) -> None:
    listed = httpx2.get(f"http://127.0.0.1:{served.port}/v1/models", timeout=30)
    assert listed.status_code == 500
    with stamina.set_testing(True, attempts=100, cap=True):
        described = served.model().describe()
    assert (described["name"], described["revision"]) == (f"openai-api/local/{NAME}", None)

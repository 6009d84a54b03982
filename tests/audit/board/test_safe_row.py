"""A row from somebody else asks no model and opens no file that the user does not name."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from stepscore.audit.board import Entry, read_row
from stepscore.audit.board.safe_row import safe_entry
from stepscore.errors import OptionError
from stepscore.judges import get_judge, judge_registry
from stepscore.judges.baselines import Constant
from stepscore.models import model_registry
from stepscore.registry import Registry, declared_options, names
from tests.audit.board.scripted import LABELS, SUBGOALS
from tests.cli.command_walk import invoke
from tests.hostile.lying_server import sound
from tests.paths import TINY_SIM

DATA = [str(TINY_SIM), "--labels", str(LABELS), "--subgoals", str(SUBGOALS), "--limit", "2"]


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clock")
    assert invoke(["bench", *DATA, "--judges", "linear-time", "-o", str(folder)]).code == 0
    return folder / "rows/linear-time.json"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The paths of all requests that reach the server of ``openai-api/``."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.path)
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = json.dumps(sound("chat", body)).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield seen
        server.shutdown()


PAID = "openai-api/m"
SPENDING: list[dict[str, Any]] = [
    {"judge": "topreward", "options": {"model": PAID}},
    {"judge": "topreward", "model": "embedded", "options": {"model": PAID}},
    {"judge": "topreward", "options": {"model": [PAID]}},
    {"judge": "gvl", "options": {"model": {"name": PAID}}},
    {"judge": "topreward", "model": PAID},
    {"judge": "cascade", "options": {"first": "linear-time", "second": f"topreward@{PAID}"}},
    {"judge": "cascade", "options": {"first": ["linear-time"], "second": {"judge": f"gvl@{PAID}"}}},
    {"judge": "linear-time", "options": {"points": [{"a": f"gvl@{PAID}"}]}},
    {"judge": "topreward", "model": "embedded", "model_options": {"checkpoint": "hf/x"}},
]


@pytest.mark.parametrize("change", SPENDING, ids=lambda change: json.dumps(change)[:70])
def test_no_row_spends_the_users_money(
    change: Mapping[str, Any], clock: Path, asked: list[str], tmp_path: Path
) -> None:
    row = json.loads(clock.read_text()) | {"model_options": {}, "options": {}} | change
    (tmp_path / "row.json").write_text(json.dumps(row))
    ended = invoke(["bench", *DATA, "--check", str(tmp_path / "row.json")])
    assert (ended.code, len(asked)) == (2, 0), ended.err
    assert "To " in ended.err
    assert "name it too: --" in ended.err


def test_a_model_that_the_user_names_is_asked(clock: Path, asked: list[str], tmp_path: Path) -> None:
    row = json.loads(clock.read_text()) | {"judge": "topreward", "options": {"model": PAID, "prefixes": 2}}
    (tmp_path / "row.json").write_text(json.dumps(row))
    ended = invoke(["bench", *DATA, "--check", str(tmp_path / "row.json"), "--models", PAID])
    assert ended.code == 1, ended.err  # it does not reproduce
    assert len(asked) > 0


OPENING: list[tuple[str, dict[str, Any]]] = [
    ("gvl", {"context": 1, "context_source": "/data"}),
    ("gvl", {"calibration": 0}),
    ("recorded", {"path": "curves.csv"}),
    ("recorded", {"path": ["curves.csv"]}),
    ("stepeval", {"template": "/rules.txt"}),
    ("progresslm", {"demo": "video.mp4"}),
    ("robometer", {"pair_prompt": "~/prompt.txt"}),
    ("linear-time", {"points": "../points"}),
    ("linear-time", {"points": {"a": ["//host/share"]}}),
]


@pytest.mark.parametrize(("judge", "options"), OPENING)
def test_a_row_names_no_file_unless_the_user_names_the_same(
    judge: str, options: dict[str, Any], clock: Path
) -> None:
    row = replace(read_row(clock), judge=judge, options=options)
    with pytest.raises(OptionError, match="To allow this value, name it too: --judges "):
        safe_entry(row, {})
    key, value = list(options.items())[-1]
    assert safe_entry(row, {}, [Entry(judge, None, {key: value})]).options == options
    with pytest.raises(OptionError, match="To allow this value"):
        safe_entry(row, {}, [Entry(judge, None, {key: f"{value}x"})])


def test_values_that_name_nothing_need_no_naming(clock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TINY_SIM)  # a file or folder of the same name decides nothing
    for judge, options in (
        ("stepeval", {"template": "strict", "words": ["a/b", "videos"], "strategy": "per-subgoal"}),
        ("similarity", {"prompt": "put {instruction} here/there", "form": None}),
        ("grm", {"prompt": "own", "profile": "grm"}),
        ("cascade", {"first": "linear-time", "second": "topreward@embedded", "also": None}),
        ("recorded", {"path": None, "column": "videos"}),
    ):
        row = replace(read_row(clock), judge=judge, options=options, model="embedded")
        assert safe_entry(row, {}).options == options


@dataclass(frozen=True)
class Outside(Constant):
    note: str = ""
    file: str = field(default="", metadata=names("path"))


def test_a_judge_of_another_package_is_run_only_where_the_user_names_it(
    clock: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    targets = dict(judge_registry._targets)
    monkeypatch.setattr(judge_registry, "_targets", targets | {"outside": Outside})
    row = replace(read_row(clock), judge="outside", options={})
    with pytest.raises(OptionError, match="not part of StepScore"):
        safe_entry(row, {})
    named = [Entry("outside")]
    assert safe_entry(row, {}, named).judge == "outside"
    assert safe_entry(replace(row, options={"note": "some words"}), {}, named).options
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").touch()
    for value in ("here", "vllm/x", PAID, "a/b", "~", "C:x", {"a": ["here"]}, ""):
        with pytest.raises(OptionError, match="could name a model or a file"):
            safe_entry(replace(row, options={"note": [value]}), {}, named)
    with pytest.raises(OptionError, match="names a file"):
        safe_entry(replace(row, options={"file": "anything"}), {}, named)
    inner = replace(row, judge="cascade", options={"first": "outside", "second": "linear-time"})
    with pytest.raises(OptionError, match="names a judge"):
        safe_entry(inner, {})


@pytest.mark.parametrize("registry", [judge_registry, model_registry], ids=lambda registry: registry.kind)
def test_every_option_that_takes_text_says_what_it_names(registry: Registry[Callable[..., object]]) -> None:
    for name, make in registry:
        if not registry.is_builtin(name):
            continue
        declared = declared_options(make)
        for option, parameter in inspect.signature(make).parameters.items():
            takes_numbers = set(str(parameter.annotation).split(" | ")) <= {"int", "float", "bool", "None"}
            literals = any(isinstance(value, str) for value in declared[option].allowed)
            assert takes_numbers or literals or declared[option].what is not None, f"{name}: {option}"
            if declared[option].what is None:
                assert not str(parameter.annotation).startswith("str"), f"{name}: {option}"


def test_what_a_row_suggests_to_copy_runs_nothing_else(clock: Path) -> None:
    row = replace(read_row(clock), judge="topreward", model="vllm/x; rm -rf ~\x1b[31m")
    with pytest.raises(OptionError) as error:
        safe_entry(row, {})
    assert "--models 'vllm/x; rm -rf ~?[31m'" in str(error.value)


@pytest.mark.parametrize("value", [["linear-time"], {"name": "gvl"}, 3, None])
def test_cascade_takes_judges_and_names_alone(value: object) -> None:
    with pytest.raises(OptionError, match="first must be a judge or its name, got "):
        get_judge("cascade", first=value, second="linear-time")


def test_a_model_is_a_model_or_its_name() -> None:
    with pytest.raises(OptionError, match="model must be a model or a model string"):
        get_judge("topreward", model=["embedded"])

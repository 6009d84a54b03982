"""Every command ends in one line and a documented exit code, whatever happens, at whatever time."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepscore
from stepscore.cli import exit_codes
from stepscore.cli.main import run
from stepscore.errors import BudgetError, OptionError, RunError
from tests.paths import ROOT

MAIN = "from stepscore.cli.main import main; main()"


def process(*arguments: object, before: str = "", **options: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", before + MAIN, *map(str, arguments)]
    defaults: dict[str, object] = {"capture_output": True, "text": True, "timeout": 120}
    return subprocess.run(line, **{**defaults, **options})  # type: ignore[call-overload]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BaseException]]:
    """`stepscore ls readers` raises what is in this list."""
    errors: list[BaseException] = []

    def fail() -> None:
        raise errors[0]

    monkeypatch.setattr("stepscore.cli.tools.ls._readers", fail)
    # A reported interrupt leaves the signals to the system.
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield errors
    for number, handler in kept.items():
        signal.signal(number, handler)


CASES = [
    (OptionError("wrong"), 2, "Error: wrong"),
    (RunError("two\nlines\r\n  of text"), 2, "Error: two lines of text"),
    (RunError("\x1b[31mred\x07 \u202egnp.exe [red]x[/] [/]"), 2, "Error: ?[31mred? ?gnp.exe [red]x[/] [/]"),
    (ExceptionGroup("g", [ExceptionGroup("h", [RunError("inner")]), ValueError("x")]), 2, "Error: inner"),
    (
        OSError(28, "No space left on device", "runs/x"),
        2,
        "Error: Cannot use runs/x: No space left on device.",
    ),
    (OSError(28, "No space left on device"), 2, "Error: The system refused: No space left on device."),
    (
        PermissionError(13, "Permission denied", "a", None, "b"),
        2,
        "Error: Cannot use a and b: Permission denied.",
    ),
    (MemoryError("Unable to allocate 9 TiB"), 2, "Error: Out of memory (Unable to allocate 9 TiB)."),
    (RecursionError("maximum recursion depth exceeded"), 3, "Unexpected error: RecursionError: maximum"),
    (ZeroDivisionError(), 3, "Unexpected error: ZeroDivisionError. This is a bug"),
    (KeyboardInterrupt(), 130, "Interrupted: "),
    (BaseExceptionGroup("g", [ValueError("x"), KeyboardInterrupt()]), 130, "Interrupted: "),
    (BrokenPipeError(32, "Broken pipe"), 0, ""),
    (SystemExit(1), 2, "Error: test_exit_codes.py, line "),
    (SystemExit(0), 2, "Error: test_exit_codes.py, line "),
    (SystemExit(), 2, "Error: test_exit_codes.py, line "),
    (SystemExit("text"), 2, "Error: text"),
]


@pytest.mark.parametrize(("error", "code", "line"), CASES, ids=lambda value: repr(value)[:40])
def test_whatever_is_raised_is_one_line_and_a_code(
    error: BaseException,
    code: int,
    line: str,
    failing: list[BaseException],
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing.append(error)
    assert run(["ls", "readers"]) == code
    printed = capsys.readouterr().err
    assert printed.startswith(line)
    assert printed.count("\n") == (1 if line else 0)


def test_an_import_that_was_interrupted_is_an_interrupt(failing: list[BaseException]) -> None:
    error = ImportError("cannot import name")
    error.__context__ = KeyboardInterrupt()
    assert exit_codes.describe(error)[0] == 130
    # An error of another kind in an interrupted one's wake is what it is.
    failing.append(RunError("x"))
    failing[0].__context__ = KeyboardInterrupt()
    assert exit_codes.describe(failing[0])[0] == 2


def test_a_message_of_a_megabyte_is_cut(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(RunError("begins " + "x" * 1_000_000 + " ends"))
    assert run(["ls", "readers"]) == 2
    printed = capsys.readouterr().err
    assert len(printed) < 2100
    assert printed.startswith("Error: begins ")
    assert printed.endswith(" ends\n")


@pytest.mark.parametrize("way", ["option", "environment"])
def test_the_traceback_is_printed_on_request(
    way: str,
    failing: list[BaseException],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing.append(RunError("wrong"))
    if way == "environment":
        monkeypatch.setenv("STEPSCORE_TRACEBACK", "1")
    assert run([*(["--traceback"] if way == "option" else []), "ls", "readers"]) == 2
    printed = capsys.readouterr().err
    assert "Traceback (most recent call last)" in printed
    assert "in fail" in printed
    assert printed.splitlines()[-1] == "Error: wrong"


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["judge"], 2, "Missing argument 'SOURCE'. Run: stepscore judge --help"),
        (["judge", "x", "--limt", "3"], 2, "--limit"),
        (["no-such-command"], 2, "no-such-command"),
        (["judge", "x", "--limit", "\x1b[31m" * 10_000], 2, "--limit"),
        (["train", "vlm", "-T", "steps=one", "x", "-o", "y"], 2, "-T steps"),
    ],
)
def test_wrong_usage_is_one_line_and_2(
    arguments: list[str], code: int, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert part in printed
    assert "\x1b" not in printed
    assert len(printed) < 2100


def test_help_and_version_are_0_and_no_words_are_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "Exit codes: 0 all well" in capsys.readouterr().out
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"{stepscore.__version__}\n"
    assert run([]) == 2
    assert "Usage" in capsys.readouterr().out


def test_the_codes_are_on_their_page() -> None:
    page = (ROOT / "docs" / "reference/exit-codes.md").read_text(encoding="utf-8")
    for code in (0, 1, 2, 3, 130, 143):
        assert f"| {code} |" in page
    assert "--traceback" in page
    assert "STEPSCORE_TRACEBACK" in page


def test_warnings_are_one_safe_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import warnings

    def warn() -> list[dict[str, str]]:
        warnings.warn("two\nlines \x1b[2J", stacklevel=1)
        return [{"name": "a", "what it reads": "b"}]

    monkeypatch.setattr("stepscore.cli.tools.ls._readers", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run(["ls", "readers", "--json"]) == 0
    assert capsys.readouterr().err == "Warning: two lines ?[2J\n"


def test_a_variable_of_completion_without_the_others_is_one_line() -> None:
    result = process(
        "ls", "readers", before="import os; os.environ['_STEPSCORE_COMPLETE'] = 'complete_bash'\n"
    )
    assert result.returncode == 2
    assert result.stderr.startswith("Error: _STEPSCORE_COMPLETE is set")
    assert result.stderr.count("\n") == 1


class TestInterrupts:
    """In a process of their own, since signals are the process's."""

    LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    """What an interactive shell gives its commands; these tests may themselves run where Ctrl-C is ignored."""

    SLOW = (
        "import sys, time, asyncio\n"
        "from stepscore.judges import judge_registry\n"
        "from stepscore.judges.baselines import LinearTime\n"
        "class Slow(LinearTime):\n"
        "    name = 'slow'\n"
        "    async def judge(self, episode, ask):\n"
        "        print('judging', flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "judge_registry.register('slow')(Slow)\n"
    )

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_a_run_that_is_stopped_says_so_in_one_line_and_in_its_status(
        self, number: int, code: int, toys: Path, tmp_path: Path
    ) -> None:
        arguments = ["judge", toys, "--judge", "slow", "-o", tmp_path / "r", "--limit", "2"]
        line = [sys.executable, "-c", self.LISTEN + self.SLOW + MAIN, *map(str, arguments)]
        started = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert started.stdout is not None
        assert started.stdout.readline() == "judging\n"
        assert json.loads((tmp_path / "r" / "run.json").read_text())["status"] == "started"
        started.send_signal(number)
        _, printed = started.communicate(timeout=60)
        assert started.returncode == code
        assert printed.splitlines()[-1].startswith("Interrupted: finished episodes are kept in")
        assert "Traceback" not in printed
        assert json.loads((tmp_path / "r" / "run.json").read_text())["status"] == "interrupted"

    def test_an_interrupt_while_the_commands_are_imported_is_one_line(self) -> None:
        interrupt = self.LISTEN + (
            "import importlib.abc, os, signal, sys\n"
            "class Press(importlib.abc.MetaPathFinder):\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name == 'stepscore.cli.NAME': os.kill(os.getpid(), signal.SIGINT)\n"
            "sys.meta_path.insert(0, Press())\n"
        )
        for name in ("exit_codes", "app"):
            result = process("--version", before=interrupt.replace("NAME", name))
            assert result.returncode == 130, name
            assert result.stderr.startswith("Interrupted"), name
            assert result.stderr.count("\n") == 1, name

    def test_a_terminate_where_ctrl_c_is_ignored_still_stops(self) -> None:
        # As in `stepscore judge ... &` of a script.
        before = (
            "import os, signal, stepscore.cli.app as app, time\n"
            "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "def stop(context):\n    os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)\n"
            "app.invoke = stop\n"
        )
        result = process("ls", "readers", before=before)
        assert (result.returncode, result.stderr.count("\n")) == (143, 1)

    def test_a_terminate_inside_of_a_task_is_one_line_where_ctrl_c_is_ignored(
        self, toys: Path, tmp_path: Path
    ) -> None:
        ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        inside = self.SLOW.replace(
            "print('judging', flush=True)", "import os; os.kill(os.getpid(), signal.SIGTERM)"
        )
        line = [sys.executable, "-c", ignore + inside + MAIN, "judge", str(toys), "--judge", "slow"]
        ended = subprocess.run(
            [*line, "-o", str(tmp_path / "r")], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 143
        assert "Traceback" not in ended.stderr
        assert ended.stderr.splitlines()[-1].startswith("Interrupted: finished episodes are kept in")

    def test_the_status_of_every_other_end_is_kept_too(self, toys: Path, tmp_path: Path) -> None:
        def stop(error: BaseException) -> str:
            def raise_it(done: object) -> None:
                raise error

            episodes, judge = stepscore.open_episodes(toys, limit=2), stepscore.get_judge("constant")
            folder = tmp_path / type(error).__name__
            with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever it is
                stepscore.score(episodes, judge, folder, on_done=raise_it)
            status: str = json.loads((folder / "run.json").read_text())["status"]
            return status

        assert stop(BudgetError("spent")) == "stopped by the budget"
        assert stop(RunError("full")) == "stopped by an error"

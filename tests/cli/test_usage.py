"""What ``stepscore judge`` says of calls and cost, over all starts of a run, and of what was selected."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import stamina

from stepscore.cli.judging.usage import print_prefix_cache, spent_text
from stepscore.cli.main import run
from tests.models.api.lies import KEY, LIES, Lie, error, honest
from tests.models.api.lying_server import lying, make_videos


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_videos(tmp_path_factory.mktemp("videos"))


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("COLUMNS", "300")


def judge(videos: Path, folder: Path, lie: Lie, *options: str) -> int:
    with lying(lie) as server, stamina.set_testing(True, attempts=1000, cap=True):
        model = (
            "--model",
            "openai-api/tiny",
            "--base-url",
            server.url,
            "--price-in",
            "1",
            "--price-out",
            "10",
        )
        command = [
            "judge",
            str(videos),
            "--judge",
            "gvl",
            "-J",
            "frames=3",
            *model,
            *options,
            "-o",
            str(folder),
        ]
        return run(command)


def recorded(folder: Path) -> tuple[int, float]:
    with sqlite3.connect(folder / "attempts.sqlite") as db:
        made, cost = db.execute("SELECT COUNT(*), TOTAL(cost) FROM attempts").fetchone()
    return made, cost


def test_attempts_and_cost_add_up_over_all_starts_in_print_as_on_disk(
    videos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, printed = tmp_path / "run", []
    for options in (("--limit", "2"), ("--limit", "3"), ("--max-calls", "4"), ()):
        judge(videos, folder, Lie(honest, ""), *options)
        printed.append(capfd.readouterr().err)
        made, cost = recorded(folder)
        assert f"{made} attempt{'s' if made > 1 else ''} ({made} answered), cost {cost:.4f}" in printed[-1]
    assert "Sent: 2 attempts (2 answered), cost 0.0010" in printed[0]
    assert "This start: 1 attempt (1 answered), cost 0.0005" in printed[1]
    assert "All starts of the run: 3 attempts (3 answered), cost 0.0015" in printed[1]
    assert "Stopped: The budget of 4 calls is spent" in printed[2]
    assert "All starts of the run: 6 attempts (6 answered), cost 0.0030" in printed[3]


def test_a_404_was_sent_refused_and_cost_nothing(
    videos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert judge(videos, tmp_path / "run", LIES["404"], "--limit", "1") == 1
    printed = capfd.readouterr().err
    assert "1 call (0 from the cache)" in printed
    assert "latency unknown (none was answered now)" in printed
    assert "Sent: 1 attempt (1 refused), cost 0.0000" in printed


def test_the_exit_code_is_that_of_what_was_selected(
    videos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    refusing = Lie(lambda e: error(lambda e: "no", "400 Bad")(e) if e.number >= 3 else honest(e), "")
    assert judge(videos, folder, refusing, "--connections", "1") == 1
    assert "3 failed" in capfd.readouterr().err
    for options, code, failed in (
        (("--limit", "3"), 0, 0),
        (("--limit", "4"), 1, 1),
        (("--episodes", "5"), 1, 1),
    ):
        assert judge(videos, folder, LIES["404"], *options) == code
        printed = capfd.readouterr().err
        assert f"{failed} failed in" in printed
        assert f"which were not selected now, {3 - failed} failed before" in printed


def test_what_could_not_be_listed_counts_where_everything_was_selected(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = make_videos(tmp_path / "videos")
    twin = source / "open the drawer" / "0.avi"
    twin.write_bytes((source / "open the drawer" / "0.mp4").read_bytes())  # two videos of one id
    lie = Lie(honest, "")
    assert judge(source, tmp_path / "run", lie, "--limit", "2") == 0
    assert "1 items of the source could not be read" in capfd.readouterr().err
    assert judge(source, tmp_path / "run", lie) == 1


def test_a_long_wait_is_said_on_a_line_without_markup(
    videos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = "429, Retry-After 999999999"
    assert judge(videos, tmp_path / "run", LIES[name], "--limit", "1", "--patience", "60") == 1
    said = [line for line in capfd.readouterr().err.splitlines() if "next attempt in" in line]
    assert said
    assert said[0].startswith(
        "openai-api/tiny: the server does not answer now; next attempt in 60 s (the server asks for"
    )
    assert "--patience changes it" in said[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("--price-in", "-1"), ("--price-out", "-0.5"), ("--max-cost", "-1"), ("--price-in", "nan")],
)
def test_money_cannot_be_negative(videos: Path, tmp_path: Path, name: str, value: str) -> None:
    assert judge(videos, tmp_path / "run", LIES["404"], f"{name}={value}") == 2
    assert not (tmp_path / "run").exists()


def test_a_cost_that_is_a_bound_is_said_to_be_one() -> None:
    spent = {"attempts": 3, "answered": 1, "refused": 1, "lost": 1, "cost": 0.04, "exact": False}
    assert spent_text(spent) == "3 attempts (1 answered, 1 refused, 1 lost), cost at most 0.0400"
    assert spent_text(spent | {"cost": None}) == "3 attempts (1 answered, 1 refused, 1 lost), cost unknown"


def test_what_the_servers_prefix_cache_saved_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_prefix_cache({"looked_up": 9039, "found": 7040})
    assert "7040 of 9039 prompt tokens found (77.9 %)" in capsys.readouterr().err
    print_prefix_cache({"looked_up": 0, "found": 0})
    assert capsys.readouterr().err == ""

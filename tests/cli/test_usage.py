"""What ``stepscore judge`` says of calls and cost, over all starts of a run, and of what was selected."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import stamina

from stepscore.cli.judging.usage import print_prefix_cache, spent_text
from stepscore.cli.main import run
from stepscore.errors import OptionError
from stepscore.models.calls import Budget
from stepscore.runs import CallOptions
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
            "-M",
            f"base-url={server.url}",
            "-E",
            "price-in=1",
            "-E",
            "price-out=10",
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
    assert judge(videos, folder, refusing, "-E", "connections=1") == 1
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
    assert "Problems with the source: 1." in capfd.readouterr().err
    assert judge(source, tmp_path / "run", lie) == 1


def test_a_long_wait_is_said_on_a_line_without_markup(
    videos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = "429, Retry-After 999999999"
    assert judge(videos, tmp_path / "run", LIES[name], "--limit", "1", "-E", "patience=60") == 1
    said = [line for line in capfd.readouterr().err.splitlines() if "next attempt in" in line]
    assert said
    assert said[0].startswith(
        "openai-api/tiny: the server does not answer; next attempt in 60 s (the server asks for"
    )
    assert "change this with -E patience" in said[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("-E", "price-in=-1"), ("-E", "price-out=-0.5"), ("--max-cost", "-1"), ("-E", "price-in=nan")],
)
def test_money_cannot_be_negative(videos: Path, tmp_path: Path, name: str, value: str) -> None:
    assert judge(videos, tmp_path / "run", LIES["404"], name, value) == 2
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


@pytest.mark.parametrize(("given", "missing"), [("in", "out"), ("out", "in")])
def test_one_price_is_never_taken_for_both(
    given: str, missing: str, videos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Half a price would be a limit in money for half of the tokens."""
    paid = ["--model", "openai-api/m", "-M", "base-url=http://127.0.0.1:9/v1", "--max-cost", "0.3"]
    source, out = str(videos), str(tmp_path / "out.parquet")
    judge = ["--judge", "gvl", *paid]
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"id": "p", "episode": "e", "before_s": 0, "after_s": 1, "change": 0.5}')
    for words in (
        ["judge", source, *judge],
        ["judge", source, *judge, "--dry-run"],
        ["audit", source, *judge],
        ["tune", source, "frames=2,3", *judge],
        ["pairs", "score", str(pairs), "--source", source, *judge],
        ["annotate", source, *paid],
        ["plan", source, *paid],
        ["bench", source, "--judges", "gvl", "--models", "openai-api/m", *paid[-2:]],
    ):
        assert run([*words, "-o", out, "-E", f"price-{given}=1"]) == 2, words
        assert f"free: -E price-{missing}=0" in capfd.readouterr().err, words
        assert not Path(out).exists()
    prices = {f"price_{given}": 1.0}
    with pytest.raises(OptionError, match=f"needs price_{missing} too"):
        CallOptions(**prices)  # type: ignore[arg-type]
    assert CallOptions(**prices, **{f"price_{missing}": 0.0})  # type: ignore[arg-type]


def test_a_command_that_the_budget_stops_ends_with_1_and_names_the_budget(
    videos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("episode_id,kind,name,value\nopen the drawer/0,success,holds,1\n")
    mock = ["--model", "mock/-1.5", "-J", "prefixes=2", "-E", "cache=false"]
    judges = ["--judges", "topreward:prefixes=2", "--models", "mock/-1.5,mock/-2.5", "-E", "cache=false"]
    for words in (
        ["audit", str(videos), "--judge", "topreward", *mock, "-T", "probes=reversed", "--max-calls", "3"],
        ["bench", str(videos), "--labels", str(labels), *judges, "--max-calls", "8"],
    ):
        assert run([*words, "-o", str(tmp_path / words[0])]) == 1, capfd.readouterr().err
        printed = capfd.readouterr().err
        assert f"Stopped: The budget of {words[-1]} calls is spent" in printed
        assert "Continue with a larger --max-calls" in printed


def test_money_that_is_left_of_a_larger_budget_is_named_with_that_budget() -> None:
    left = Budget(max_cost=0.25, given=Budget(max_cost=1.0))
    assert left.spent_cost(0.5, 0.05).startswith(
        "The next call may cost 0.5000, and 0.2000 of the budget of 1.0000 is left."
    )
    assert "0.0500 of 0.2500 is spent" in Budget(max_cost=0.25).spent_cost(0.5, 0.05)

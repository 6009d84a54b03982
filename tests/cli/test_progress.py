"""A bar on stderr for what takes more than two seconds; results and quick commands show none."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.scale.episodes import write_source
from stepscore import get_judge, open_episodes, score
from stepscore._progress import doing, track
from stepscore.cli import progress
from stepscore.cli.app import app
from stepscore.cli.judging import progress_bar
from stepscore.cli.judging.progress_bar import EpisodesBar, RunBars
from stepscore.cli.progress import show_progress, with_bar
from stepscore.cli.tables import Terminal
from stepscore.runs import FinishedEpisode, Shard
from stepscore.server import LivePage
from tests.report.made_runs import write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source, its run, and the same as two shards."""
    folder = tmp_path_factory.mktemp("waiting")
    write_source(folder, 24, points=5)
    episodes = open_episodes(
        folder / "curves.parquet", labels=folder / "labels.parquet", subgoals=folder / "subgoals.yaml"
    )
    score(episodes, get_judge("recorded"), folder / "run")
    for index in (1, 2):
        score(episodes, get_judge("recorded"), folder / "halves", shard=Shard(index, 2))
    return folder


class Screen(io.StringIO):
    """A terminal that keeps what was written to it."""

    def isatty(self) -> bool:
        return True

    def wait_for(self, text: str) -> bool:
        """Return whether the text came; a thread writes it."""
        deadline = time.monotonic() + 30
        while text not in self.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        return text in self.getvalue()


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Make stderr a terminal on which a bar comes at once."""
    shown = Screen()
    for name, value in (("TERM", "xterm"), ("COLUMNS", "120")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(progress, "err", lambda: Terminal(shown))
    monkeypatch.setattr(progress_bar, "err", lambda: Terminal(shown))
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    monkeypatch.setattr(progress, "REFRESH_S", 0.01)
    return shown


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the title of everything that commands say they do."""
    titles: list[str] = []

    class Recording(progress.PhasesBar):
        def __init__(self, title: str) -> None:
            super().__init__(title)
            titles.append(title)

        def track(self, items: Iterable[Any], title: str, total: int | None) -> Iterator[Any]:
            titles.append(title)
            assert total is None or total >= 0
            return super().track(items, title, total)

    def below_the_bar(
        self: EpisodesBar, items: Iterable[Any], title: str, total: int | None
    ) -> Iterable[Any]:
        titles.append(title)
        return items

    monkeypatch.setattr(progress, "PhasesBar", Recording)
    monkeypatch.setattr(EpisodesBar, "track", below_the_bar)
    return titles


def test_items_pass_unchanged_and_in_order(screen: Screen) -> None:
    with show_progress():
        assert list(track(range(500), "Counting", 500)) == list(range(500))


def test_a_single_long_step_is_seen_while_it_lasts(screen: Screen) -> None:
    with show_progress("Opening"):
        assert screen.wait_for("Opening")
        with doing("Thinking"):
            assert screen.wait_for("Thinking")


def test_the_bar_counts_what_is_done_and_what_is_under_way_inside(screen: Screen) -> None:
    with show_progress():
        for number in track(range(3000), "Episodes", 3000):
            if number == 1200:
                assert screen.wait_for("1,200/3,000")
                for inner in track(range(7), "Metrics", 7):
                    assert inner != 4 or screen.wait_for("4/7")
    # Where the number of items is not known it is the count alone.
    with show_progress():
        for number in track(iter(range(30)), "Lines", None):
            assert number != 20 or screen.wait_for("20 ")
    assert "20/" not in screen.getvalue()


def test_short_work_shows_nothing(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 60.0)
    monkeypatch.setattr(progress, "_LOADED", time.monotonic() - 1000)
    with show_progress("Opening"):
        assert sum(track(range(10), "Counting", 10)) == 45
    assert with_bar(len, "Measuring")("four") == 4
    assert screen.getvalue() == ""


def test_the_start_of_a_command_counts_as_waiting(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 60.0)
    monkeypatch.setattr(progress, "_LOADED", time.monotonic() - 61)
    with show_progress("Opening"):
        assert screen.wait_for("Opening")


def test_nothing_is_drawn_where_stderr_is_not_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(progress, "err", lambda: Terminal(log))
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    with show_progress("Opening") as bar:
        assert bar._thread is None  # it costs nothing
        assert list(track("abc", "Reading", 3)) == ["a", "b", "c"]
    assert log.getvalue() == ""


def test_the_bar_goes_away_when_the_work_fails(screen: Screen) -> None:
    def divide() -> None:
        with show_progress("Opening") as bar:
            opened.append(bar)
            for number in track(range(3), "Dividing", 3):
                assert screen.wait_for("Dividing")
                assert 1 / (number - 1)

    opened: list[progress.PhasesBar] = []
    with pytest.raises(ZeroDivisionError):
        divide()
    (bar,) = opened
    assert [phase.title for phase in bar.shown()] == ["Opening"]
    assert bar._thread is None
    hide, show = "\x1b[?25l", "\x1b[?25h"  # the cursor
    assert screen.getvalue().count(hide) == screen.getvalue().count(show) == 1


MEASURED = ("Opening runs", "Reading", "Reading true progress", "Measuring episodes")
SUBGOALS = ("Reading verdicts", "Estimating subgoals")
PAGE = (
    *(*MEASURED, *SUBGOALS, "Finding failure modes", "Estimating by group", "Estimating by task and policy"),
    *("Comparing policies", "Looking for the worst failures", "Checking the judge", "Against labels"),
    *("Packing curves", "Listing episodes"),
)
LABELLED = ("{0}/curves.parquet", "--labels", "{0}/labels.parquet", "--subgoals", "{0}/subgoals.yaml")


@pytest.mark.parametrize(
    ("arguments", "titles"),
    [
        (("inspect", *LABELLED), ("Listing episodes", "Reading headers")),
        (
            ("judge", *LABELLED, "--judge", "recorded", "-o", "{1}/run"),
            ("Listing episodes", "Looking for subgoals", "Reading the journal", "Writing tables"),
        ),
        (
            ("merge", "{0}/halves", "-o", "{1}/merged"),
            ("Reading the journal", "Choosing judgements", "Writing the journal", "Writing tables"),
        ),
        (("metrics", "{0}/run"), (*MEASURED, "Estimating by group", *SUBGOALS)),
        (("metrics", "{0}/run", "--show", "subgoals"), (*MEASURED, *SUBGOALS)),
        (("metrics", "{0}/run", "--show", "failure-modes"), (*MEASURED, "Finding failure modes")),
        (("metrics", "{0}/run", "--show", "judge"), (*MEASURED, "Against labels")),
        (("metrics", "{0}/run", "--show", "episodes"), MEASURED),
        (("compare", "{0}/run"), ("Measuring episodes", "Comparing groups")),
        (("report", "{0}/run", "-o", "{1}/page"), (*PAGE, "Looking for videos", "Writing the page")),
        (
            ("plot", "{0}/run", "-o", "{1}/plots", "--format", "svg", "--kind", "voc"),
            (*MEASURED, "Drawing figures"),
        ),
        (("export", "{0}/run", "--to", "rerun", "-o", "{1}/a.rrd"), (*MEASURED, "Writing episodes")),
        (("calibrate", "{0}/run", "-o", "{1}/map.json"), ("Fitting the maps",)),
    ],
    ids=lambda value: " ".join(value[:1] + value[2:4]) if value[0].islower() else "",
)
def test_a_command_says_what_it_does(
    arguments: tuple[str, ...], titles: tuple[str, ...], folder: Path, tmp_path: Path, announced: list[str]
) -> None:
    for extra, command in (("matplotlib", "plot"), ("rerun", "export")):
        if arguments[0] == command:
            pytest.importorskip(extra)
    told = CliRunner().invoke(app, [each.format(folder, tmp_path) for each in arguments])
    assert told.exit_code == 0, told.output
    assert [title for title in titles if title not in announced] == []
    # A quick one shows none of it.
    assert [title for title in titles if f"{title} ━" in told.stderr] == []


def test_the_live_page_says_what_it_does(tmp_path: Path, announced: list[str]) -> None:
    write_run(tmp_path / "run", 3, steps=5)
    with show_progress("Opening runs"):
        LivePage([tmp_path / "run"]).page()
    assert {*MEASURED, "Checking the judge", "Packing curves", "Making the page"} <= set(announced)


def test_stale_tables_are_made_anew_with_a_bar(folder: Path, announced: list[str], tmp_path: Path) -> None:
    copy = tmp_path / "run"
    copy.mkdir()
    for name in ("run.json", "journal.jsonl"):
        (copy / name).write_bytes((folder / "run" / name).read_bytes())
    assert CliRunner().invoke(app, ["metrics", str(copy)]).exit_code == 0
    assert {"Reading the journal", "Writing tables"} <= set(announced)


@pytest.fixture
def finish() -> Callable[[EpisodesBar | RunBars, int], None]:
    def finish(bar: EpisodesBar | RunBars, n: int) -> None:
        for number in range(n):
            bar.advance(FinishedEpisode(f"e{number}", reused=False, error=None))

    return finish


def test_what_follows_the_judging_has_a_row_below_the_bar(screen: Screen, finish: Any) -> None:
    with EpisodesBar(3, "judge") as bar:
        finish(bar, 3)
        for number in bar.track(range(400), "Writing tables", 400):
            time.sleep(0.001)
            if number == 300:
                bar._progress.refresh()
                assert screen.wait_for("Writing tables")
        assert len(bar._progress.tasks) == 1


def test_the_bar_of_an_audit_goes_on_after_its_last_episode(screen: Screen, finish: Any) -> None:
    with RunBars() as bars:
        bars.start("judge", 3)
        finish(bars, 2)
        assert bars._bar is not None
        bars._bar._progress.refresh()
        assert "measuring" not in screen.getvalue()
        finish(bars, 1)
        assert screen.wait_for("Writing tables, measuring")
        bar = bars._bar._progress
    assert [task.description for task in bar.tasks] == ["judge"]

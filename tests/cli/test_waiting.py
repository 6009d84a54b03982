"""A bar on stderr for what takes more than two seconds; results and quick commands show none."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.scale.episodes import write_source
from stepscore import get_judge, open_episodes, score
from stepscore.cli import waiting
from stepscore.cli.app import app
from stepscore.cli.waiting import watched


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("waiting")
    source = write_source(folder, 40, points=5)
    return score(open_episodes(source), get_judge("recorded"), folder / "run").path


def test_items_pass_unchanged_and_in_order() -> None:
    with watched() as watch:
        assert list(watch(range(500), "Counting", 500)) == list(range(500))


def test_a_quick_command_shows_no_bar(run: Path) -> None:
    shown = CliRunner().invoke(app, ["metrics", str(run)])
    assert shown.exit_code == 0
    assert "Measuring" not in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "titles"),
    [
        (["metrics"], ["Reading", "Measuring episodes", "Estimating by group"]),
        (["metrics", "--show", "judge"], ["Measuring episodes", "Against labels"]),
        (["compare"], ["Measuring episodes", "Comparing groups"]),
    ],
)
def test_a_slow_command_shows_how_far_it_is(
    run: Path, arguments: list[str], titles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Bar:
        def add_task(self, title: str, total: int) -> int:
            seen.append(title)
            assert total > 0
            return len(seen)

        def update(self, task: int, completed: int) -> None: ...

        def remove_task(self, task: int) -> None: ...

    monkeypatch.setattr(waiting, "PATIENCE_S", -1.0)
    monkeypatch.setattr(waiting.Watch, "_shown", lambda _: Bar())
    quick = CliRunner().invoke(app, [arguments[0], str(run), *arguments[1:]])
    assert quick.exit_code == 0
    assert set(titles) <= set(seen)


def test_the_bar_goes_away_when_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", -1.0)
    watch = waiting.Watch()

    def divide() -> None:
        with watched() as opened:
            watch.__dict__ = opened.__dict__
            assert [1 / (number - 1) for number in opened(range(3), "Dividing", 3)]

    with pytest.raises(ZeroDivisionError):
        divide()
    assert watch._progress is None

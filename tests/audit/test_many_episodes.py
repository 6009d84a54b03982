"""An audit of many episodes: it reads and measures what its probes ask for, and says how far it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import pytest

from stepscore._progress import tracked_by
from stepscore.analysis import episode_metrics as measuring
from stepscore.analysis import judge_answers, measure_episodes
from stepscore.audit import Audit, AuditOptions, audit, judged_episodes
from stepscore.cli.judging.progress_bar import RunBars
from stepscore.cli.trust import audit as command
from stepscore.judges import get_judge
from stepscore.runs import Run, open_run
from tests.audit.planted_judges import scripted_episodes

T = TypeVar("T")
PROBES = ["frozen-first", "reversed", "truncated-50"]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Audit, Run, list[str], int]:
    """An audit of a clock, its run, what it said it was doing, and how many episodes it measured."""
    titles: list[str] = []
    measured = 0

    def tracker(items: Iterable[T], title: str, total: int | None) -> Iterator[T]:
        taken = 0
        titles.append(title)
        for taken, item in enumerate(items, 1):  # noqa: B007 - counted to the end
            yield item
        assert total is None or taken <= total

    plain = measuring._measure_episode

    def counted(*given: object) -> dict[str, float]:
        nonlocal measured
        measured += 1
        return plain(*given)  # type: ignore[arg-type]

    folder = tmp_path_factory.mktemp("audit")
    options = AuditOptions(probes=PROBES, trivial=False)
    with pytest.MonkeyPatch.context() as patch, tracked_by(tracker):
        patch.setattr(measuring, "_measure_episode", counted)
        found = audit(scripted_episodes(3), get_judge("linear-time"), folder, options)
    return found, open_run(folder / "judge"), titles, measured


def test_every_phase_beside_the_judging_says_how_far_it_is(
    audited: tuple[Audit, Run, list[str], int],
) -> None:
    _, _, titles, _ = audited
    assert {
        "Listing episodes",
        "Choosing episodes for probes",
        "Reading answers of linear-time",
        "Effects of probes on linear-time",
        "Measuring episodes",
        "Against labels",
        "Policies against labels",
    } <= set(titles)


def test_recorded_episodes_are_measured_once_for_each_judge_and_changed_ones_never(
    audited: tuple[Audit, Run, list[str], int],
) -> None:
    found, run, _, measured = audited
    assert run.count > found.episodes
    assert measured == 2 * found.episodes  # the clock itself, and the constant beside it


def test_the_answers_are_those_that_are_measured(audited: tuple[Audit, Run, list[str], int]) -> None:
    _, run, _, _ = audited
    metrics = measure_episodes(run)
    every = list(judge_answers(run))
    assert [one.episode_id for one in every] == [row["episode_id"] for row in metrics.episodes]
    np.testing.assert_array_equal([one.success for one in every], metrics.values["success_judge"])
    for one, (times, progress) in zip(every, metrics.curves, strict=True):
        np.testing.assert_array_equal(one.times, times)
        np.testing.assert_array_equal(one.progress, progress)


def test_only_the_curves_that_are_asked_for_are_kept(audited: tuple[Audit, Run, list[str], int]) -> None:
    _, run, _, _ = audited
    every = judged_episodes(run)
    some = judged_episodes(run, set(list(every)[:5]))
    assert list(some) == list(every)[:5]
    for name, one in some.items():
        np.testing.assert_array_equal(one.progress, every[name].progress)
        assert one.progress.base is None  # no part of the table of all curves
        assert every[name].progress.base is not None


def test_measuring_some_episodes_gives_the_numbers_of_measuring_all(
    audited: tuple[Audit, Run, list[str], int],
) -> None:
    _, run, _, _ = audited
    every = measure_episodes(run)
    chosen = {row["episode_id"] for row in every.episodes[::3]}
    some = measure_episodes(run, only=chosen)
    place = [row["episode_id"] in chosen for row in every.episodes]
    assert [row["episode_id"] for row in some.episodes] == sorted(chosen)
    for name, values in some.values.items():
        np.testing.assert_array_equal(values, every.values[name][place])


def test_the_cost_is_what_was_judged_over_the_recorded_episodes(
    audited: tuple[Audit, Run, list[str], int],
) -> None:
    found, run, _, _ = audited
    assert found.cost == run.count / found.episodes
    assert not math.isnan(found.cost)


def test_the_bar_of_a_run_ends_before_that_of_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(RunBars, "__exit__", lambda *_: done.append("run ends"))
    with command._AuditBars() as bars:
        assert list(bars.track(range(3), "Reading", 3)) == [0, 1, 2]
        done.append("read")
        assert list(bars.track("ab", "Effects", 2)) == ["a", "b"]
    assert done == ["run ends", "read", "run ends"]

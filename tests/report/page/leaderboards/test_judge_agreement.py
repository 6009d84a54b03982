"""The agreement of each run's judge with labels, from what the board has measured already."""

from __future__ import annotations

from typing import Any

import pytest

from stepscore.analysis import agreement, judge_agreement
from stepscore.report.page.leaderboards.judge_agreement import agreement_rows
from stepscore.report.page.leaderboards.leaderboard import estimate_packer, open_leaderboards
from stepscore.report.page.packing import Table
from stepscore.runs import Run
from tests.report.made_runs import write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Two runs of one protocol with episodes in common, and one of another."""
    folder = tmp_path_factory.mktemp("agreement")

    def later(i: int, record: dict[str, Any]) -> None:
        record["id"] = f"later_{record['id']}" if i % 2 else record["id"]

    return [
        write_run(folder / "first", 12, steps=10),
        write_run(folder / "second", 12, steps=10, change=later),
        write_run(folder / "other", 12, steps=10, options={"seed": 1}),
    ]


@pytest.mark.parametrize("revision", ["v1.0", "robust"])
def test_it_is_that_of_the_run_measured_alone(runs: list[Run], revision: str) -> None:
    methods = Table[str]()
    pack = estimate_packer(methods)
    rows = agreement_rows(open_leaderboards(runs, revision), runs, pack)
    for number, run in enumerate(runs):
        (row,) = (row for row in rows if row["run"] == number)
        alone = judge_agreement(run)
        expected = {m.metric.removeprefix("judge:"): pack(m.estimate) for m in alone.ranking}
        for a in alone.agreements:
            expected |= {f"{a.question}: {name}": pack(e) for name, e in {**a.named(), **a.errors()}.items()}
        assert expected
        assert {name: row["cells"][name] for name in expected} == expected


def test_no_episode_is_measured_again(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    boards = open_leaderboards(runs, "robust")
    monkeypatch.setattr(agreement, "measure_episodes", None)  # calling it would be an error
    assert len(agreement_rows(boards, runs, estimate_packer(Table[str]()))) >= len(runs)

"""--format of the commands that test a judge: audit, pairs score, calibrate, tune."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import stepscore
from stepscore._tables import Cell
from stepscore.audit.tables import SHORT
from stepscore.cli.tables import percent
from stepscore.cli.trust import audit as audit_command
from stepscore.cli.trust import calibrate as calibrate_command
from stepscore.cli.trust import pairs as pairs_command
from stepscore.cli.trust import tune as tune_command
from tests.cli.five_forms import (
    Printed,
    all_forms,
    assert_same,
    assert_same_rows,
    check_cell,
    check_tables,
    result_of,
    shown_cells,
)

JUDGE = "random-monotone"
"""A judge whose answers differ between episodes, so that its numbers have intervals."""


@pytest.fixture(autouse=True)
def a_terminal_in_which_nothing_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.fixture(scope="module")
def labels(toys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Progress labels of the toys: they advance, the end of every third is not reached."""
    rows = ["episode_id,kind,name,start_s,end_s,value"]
    for number, curve in enumerate(sorted(toys.rglob("*.curve.csv"))):
        name = curve.relative_to(toys).as_posix().removesuffix(".curve.csv")
        top = 0.6 if number % 3 == 0 else 1.0
        rows += [f"{name},progress,potential,{i / 4},,{min(top, i / 12)}" for i in range(16)]
    file = tmp_path_factory.mktemp("labels") / "labels.csv"
    file.write_text("\n".join(rows), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def audited(toys: Path, tmp_path_factory: pytest.TempPathFactory) -> Printed:
    probes = "frozen-first,beyond-length,round-trip,other-task,counterfactual"
    call = partial(
        audit_command.audit,
        str(toys),
        JUDGE,
        tmp_path_factory.mktemp("audit"),
        test=[f"probes={probes}"],
        limit=18,
    )
    return result_of(audit_command, call)


@pytest.fixture(scope="module")
def pairs(toys: Path, labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Printed:
    folder = tmp_path_factory.mktemp("pairs")
    file = folder / "pairs.jsonl"
    pairs_command.make(str(toys), file, per_span=20, labels=labels)
    return result_of(
        pairs_command, partial(pairs_command.score_command, file, JUDGE, folder / "run", source=str(toys))
    )


@pytest.fixture(scope="module")
def calibrated(toys: Path, labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Printed:
    folder = tmp_path_factory.mktemp("calibrated")
    episodes = stepscore.open_episodes(toys, labels=labels)
    run = stepscore.score(episodes, stepscore.get_judge("recorded"), out=folder / "run")
    return result_of(
        calibrate_command, partial(calibrate_command.calibrate, run.path, folder / "map.json", labels=labels)
    )


@pytest.fixture(scope="module")
def tuned(toys: Path, labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Printed:
    call = partial(
        tune_command.tune,
        str(toys),
        JUDGE,
        tmp_path_factory.mktemp("tuned") / "out",
        over=["points=4,8", "seed=1,2"],
        labels=labels,
        tuning=["metric=progress-mae"],
    )
    return result_of(tune_command, call)


def test_an_audit_is_the_same_in_five_forms(audited: Printed, capsys: pytest.CaptureFixture[str]) -> None:
    tables, stored, lines = all_forms(audited, capsys)
    made = audited.tables
    headline, probes, *agreement = made
    assert [table.rows for table in tables] == [shown_cells(table) for table in made]
    assert any(row["worst"] for row in stored["trivial"])
    probed = [  # CSV has numbers alone: the episodes to look at first are in JSON
        {name: value for name, value in row.items() if name != "worst"}
        for row in (*stored["results"], *stored["trivial"])
    ]
    assert_same_rows(lines, [*probed, *stored["agreement"]["rows"]])
    assert check_tables(agreement, stored["agreement"]["rows"]) > 10
    own = {row["probe"]: row for row in stored["results"]}
    trivial = {(row["probe"], SHORT.get(row["judge"], row["judge"])): row for row in stored["trivial"]}
    checked = 0
    for table in (headline, probes):
        for row in table.rows:
            probe = row.group["probe"]
            for column, cell in zip(table.columns, row.cells, strict=True):
                found = trivial.get((probe, column.name), own[probe])
                if column.name == "outcome":
                    assert cell.text == found["outcome"]
                elif cell.metric == "n":
                    assert cell.text == str(found["n"])
                elif cell.metric:
                    check_cell(cell, found, scale=1, digits=2)
                elif table is probes and (probe, column.name) in trivial:
                    assert cell.text == found["outcome"].replace("undecided", "–")
                checked += bool(cell.metric)
    assert [row.group["probe"] for row in probes.rows] == [
        name for name, row in own.items() if not row["reason"]
    ]
    # All but the agreement with labels, which has a table of its own.
    assert checked >= 4 * (len(headline.rows) - 1) + 2 * (len(probes.rows) - 1) > 10
    assert any(cell.bounds for table in made for row in table.rows for cell in row.cells)


def test_pairs_are_the_same_in_five_forms(pairs: Printed, capsys: pytest.CaptureFixture[str]) -> None:
    tables, rows, lines = all_forms(pairs, capsys)
    table, fine = pairs.tables
    assert [one.rows for one in tables] == [shown_cells(table), shown_cells(fine)]
    assert tables[0].heads[1:] == ["accuracy ↑", "advances ↑", "regressions ↑", "AUROC ↑", "ties ↓", "n"]
    assert tables[1].heads == ["true hop", "accuracy ↑", "ties ↓", "n"]
    assert_same_rows(lines, rows)
    stored = {
        (row["group"]["judge"], row["group"].get("span", row["group"].get("hop")), row["metric"]): row
        for row in rows
    }
    for row in (*table.rows, *fine.rows):
        judge, place = row.group["judge"], row.group.get("span", row.group.get("hop"))
        for cell in row.cells[1:-1]:
            check_cell(cell, stored.pop((judge, place, cell.metric)))
        assert row.cells[0].text == (f"{judge}: {place}" if "span" in row.group else place)
    assert [metric for _, _, metric in stored] == ["resolution:d*", "resolution:levels", "resolution:step"]
    assert {row["group"]["by"] for row in rows} == {"curve"}
    assert {line["judge"] for line in lines} == {JUDGE, "linear-time", "constant"}
    assert any(cell.bounds for row in table.rows for cell in row.cells)


@pytest.fixture(scope="module")
def compared(toys: Path, labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Printed:
    folder = tmp_path_factory.mktemp("compared")
    pairs_command.make(str(toys), folder / "pairs.jsonl", per_span=12, labels=labels)
    call = partial(
        pairs_command.score_command,
        folder / "pairs.jsonl",
        "hop",
        folder / "run",
        source=str(toys),
        model="mock/<score>+10%</score>",
        judge_options=["points=4"],
        consistency=True,
        test=["pairs=12"],
    )
    return result_of(pairs_command, call)


def test_the_consistency_of_a_judge_is_the_same_in_five_forms(
    compared: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, rows, lines = all_forms(compared, capsys)
    assert [one.rows for one in tables] == [shown_cells(table) for table in compared.tables]
    assert_same_rows(lines, rows)
    stored = {(row["metric"], row["group"].get("points")): row for row in rows}
    table = compared.tables[-1]
    for row in table.rows:
        found = stored[row.group["metric"], row.group.get("points")]
        check_cell(row.cells[2], found, scale=1, digits=3)
        assert row.cells[4].text == str(found["n"])
    assert len(table.rows) > 10


def test_a_calibration_is_the_same_in_five_forms(
    calibrated: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, stored, lines = all_forms(calibrated, capsys)
    made = calibrated.tables
    assert [table.rows for table in tables] == [shown_cells(table) for table in made]
    by_place = {(line["table"], line["row"], line["column"]): line for line in lines}
    cells = {
        (table.title, row.cells[0].text, column.head): cell
        for table in made
        for row in table.rows
        for column, cell in zip(table.columns[1:], row.cells[1:], strict=True)
    }
    assert set(by_place) == set(cells)
    for place, cell in cells.items():
        _check_line(by_place[place], cell)
    for when in ("before", "after"):
        for name, key in (("mean absolute error", "mae"), ("concordance (CCC)", "ccc")):
            check_cell(cells["Against labelled progress", name, when], stored[when][key])
        for name, key in (("calibration error (ECE)", "ece"), ("mean squared error", "brier")):
            assert_same(cells["Against labelled progress", name, when].text, stored[when][key])
    for part in (part for part in stored["reliability"] if part["n"]):
        row = f"{100 * part['lo']:.0f}…{100 * part['hi']:.0f}"
        assert cells["Reliability after", row, "points"].text == str(part["n"])
        assert cells["Reliability after", row, "mean mapped"].text == percent(part["said"])
        assert cells["Reliability after", row, "mean label"].text == percent(part["true"])


def _check_line(line: dict[str, str], cell: Cell) -> None:
    if cell.value is None:
        assert line["value"] == cell.text
        return
    assert_same(cell.text, float(line["value"]) if line["value"] else None)
    found = (line["lo"], line["hi"])
    assert (
        found == ("", "")
        if cell.bounds is None
        else tuple(percent(float(end)) for end in found) == cell.bounds
    )


def test_a_tuning_is_the_same_in_five_forms(tuned: Printed, capsys: pytest.CaptureFixture[str]) -> None:
    tables, stored, lines = all_forms(tuned, capsys)
    assert [table.rows for table in tables] == [shown_cells(table) for table in tuned.tables]
    assert_same_rows(lines, tuned.options["csv_rows"])
    trials = {row["trial"]: row for row in stored["trials"]}
    assert len(trials) == 5
    for table in tuned.tables:
        for row in table.rows:
            found = trials[row.group["trial"]]
            for cell in row.cells[1:]:
                if cell.metric in ("choose", "from_best", "test", "from_default") and found[cell.metric]:
                    check_cell(cell, found[cell.metric])
                elif cell.metric in ("calls", "tokens"):
                    assert cell.value == found["per_episode"][cell.metric]
    assert tuned.options["notes"] == [stored["verdict"]]

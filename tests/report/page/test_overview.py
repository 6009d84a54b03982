"""How boards are called, and how success by judge is named where they differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stepscore.analysis import metric_columns
from stepscore.report.page.overview import board_labels, metric_infos


def board(judge: str, success_name: str, protocol: str = "abcdef012345") -> Any:
    run = SimpleNamespace(judge=judge, model="embedded", protocol=SimpleNamespace(hash=protocol))
    metrics = SimpleNamespace(success_name=success_name, columns=metric_columns("v1.0"))
    return SimpleNamespace(runs=[run], metrics=metrics)


def success_label(boards: list[Any]) -> str:
    return next(info["label"] for info in metric_infos(boards) if info["name"] == "success_judge")


def test_boards_that_decide_alike_say_so_in_the_column() -> None:
    boards = [board("gvl", "success by judge, uncalibrated"), board("hop", "success by judge, uncalibrated")]
    assert success_label(boards) == "success by judge, uncalibrated"
    assert board_labels(boards) == ["gvl embedded", "hop embedded"]


def test_boards_that_decide_by_other_rules_each_state_their_own() -> None:
    boards = [board("topreward", "success by judge"), board("stepeval", "success by judge, uncalibrated")]
    assert success_label(boards) == "success by judge"
    assert board_labels(boards) == ["topreward embedded", "stepeval embedded (success uncalibrated)"]


def test_two_protocols_of_one_judge_differ_by_their_hash() -> None:
    boards = [
        board("topreward", "success by judge", "aaaaaa11"),
        board("topreward", "success by judge, uncalibrated", "bbbbbb22"),
    ]
    assert board_labels(boards) == [
        "topreward embedded (aaaaaa)",
        "topreward embedded (bbbbbb, success uncalibrated)",
    ]


def test_many_differences_under_one_option_are_one_line() -> None:
    from stepscore.report.page.overview import warnings_of
    from stepscore.runs.protocol import Protocol

    maps: list[dict[str, Any]] = [{"x": [0.5]}, {}]
    maps[0] |= {f"task {i}. of many": i / 10 for i in range(9)}
    protocols = [
        Protocol({"judge": {"name": name, "options": {"calibration": fitted, "fps": 2.0}}})
        for name, fitted in zip(("one", "other"), maps, strict=True)
    ]
    boards: Any = [SimpleNamespace(runs=[SimpleNamespace(protocol=protocol)]) for protocol in protocols]
    (found,) = warnings_of(boards, ["one", "other"], [])
    assert found["details"] == [
        'judge.name is "one", not "other"',
        "judge.options.calibration: 10 values differ",
    ]

"""How boards are called, and how success by judge is named where they differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stepscore.analysis import metric_columns
from stepscore.report.page.overview import leaderboard_labels, metric_infos


def board(judge: str, success_name: str, protocol: str = "abcdef012345") -> Any:
    run = SimpleNamespace(judge=judge, model="embedded", protocol=SimpleNamespace(hash=protocol))
    metrics = SimpleNamespace(success_name=success_name, columns=metric_columns("v1.0"))
    return SimpleNamespace(runs=[run], judged=metrics, metrics=metrics)


def success_label(boards: list[Any]) -> str:
    return next(info["label"] for info in metric_infos(boards) if info["name"] == "success_judge")


def test_boards_that_decide_alike_say_so_in_the_column() -> None:
    boards = [board("gvl", "success by judge, uncalibrated"), board("hop", "success by judge, uncalibrated")]
    assert success_label(boards) == "success by judge, uncalibrated"
    assert leaderboard_labels(boards) == ["gvl embedded", "hop embedded"]


def test_boards_that_decide_by_other_rules_each_state_their_own() -> None:
    boards = [board("topreward", "success by judge"), board("stepeval", "success by judge, uncalibrated")]
    assert success_label(boards) == "success by judge"
    assert leaderboard_labels(boards) == ["topreward embedded", "stepeval embedded (success uncalibrated)"]


def test_two_protocols_of_one_judge_differ_by_their_hash() -> None:
    boards = [
        board("topreward", "success by judge", "aaaaaa11"),
        board("topreward", "success by judge, uncalibrated", "bbbbbb22"),
    ]
    assert leaderboard_labels(boards) == [
        "topreward embedded (aaaaaa)",
        "topreward embedded (bbbbbb, success uncalibrated)",
    ]


def test_many_differences_under_one_option_are_one_line() -> None:
    from stepscore.report.page.overview import warnings_of
    from stepscore.runs.protocol import Protocol

    maps: list[dict[str, Any]] = [{"x": [0.5]}, {}]
    maps[0] |= {f"task {i}. of many": i / 10 for i in range(9)}
    protocols = [
        Protocol({"judge": {"name": "one", "options": {"calibration": fitted, "fps": fps}}})
        for fps, fitted in zip((2.0, 4.0), maps, strict=True)
    ]
    boards: Any = [SimpleNamespace(runs=[SimpleNamespace(protocol=protocol)]) for protocol in protocols]
    (found,) = warnings_of(boards, ["one", "other"], [])
    assert found["details"] == [
        "judge.options.calibration: 10 values differ",
        "judge.options.fps is 2.0, not 4.0",
    ]


def test_judges_and_models_that_differ_are_meant_to_and_one_judge_with_two_protocols_is_not() -> None:
    from stepscore.report.page.overview import warnings_of
    from stepscore.runs.protocol import Protocol

    def protocol(judge: str, model: str | None, fps: float) -> Protocol:
        return Protocol(
            {"judge": {"name": judge, "options": {"fps": fps}}, "model": {"name": model} if model else None}
        )

    def warned(*protocols: Protocol) -> list[Any]:
        boards: Any = [SimpleNamespace(runs=[SimpleNamespace(protocol=one)]) for one in protocols]
        return warnings_of(boards, [f"board {number}" for number in range(len(boards))], [])

    first = protocol("topreward", "embedded", 2.0)
    assert warned(first, protocol("stepeval", "embedded", 2.0), protocol("linear-time", None, 1.0)) == []
    assert warned(first, protocol("topreward", "hf/Qwen", 2.0)) == []
    (found,) = warned(first, protocol("stepeval", "embedded", 2.0), protocol("topreward", "embedded", 4.0))
    assert found["text"].startswith("Runs of topreward follow different protocols.")
    assert found["details"] == ["board 0 and board 2: judge.options.fps is 2.0, not 4.0"]

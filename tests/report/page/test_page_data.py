"""Each number on the page is the one that ``stepscore metrics --json`` prints of the same runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.analysis import curves_by_episode
from stepscore.errors import OptionError
from stepscore.metrics.opd import REVISIONS, opd_prefixes
from stepscore.report.page.data import page_data
from stepscore.report.page.leaderboards import CURVE_METRICS
from stepscore.report.page.packing import unpack
from stepscore.runs import Run
from tests.report.made_runs import write_run

Metrics = Callable[..., list[dict[str, Any]]]
KEYS = ("value", "lo", "hi", "n", "clusters", "coverage", "method")


def spelt(page: dict[str, Any], est: list[Any]) -> tuple[Any, ...]:
    return (*est[:6], page["methods"][est[6]])


def printed(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in KEYS)


def cells(page: Any, groups: Any) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {
        (group["task"], group["policy"], name): spelt(page, est)
        for group in groups
        for name, est in group["cells"].items()
    }


def rows(found: list[dict[str, Any]], *, conditioned: bool) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {
        (row["group"].get("task"), row["group"].get("policy"), row["metric"]): printed(row)
        for row in found
        if ":" not in row["metric"] or (conditioned and "|" in row["metric"])
    }


@pytest.fixture(params=["toy", "tiny"])
def shown(
    request: pytest.FixtureRequest,
    toy_runs: list[Run],
    tiny_run: Run,
    toy_page: dict[str, Any],
    tiny_page: dict[str, Any],
) -> tuple[dict[str, Any], list[Run]]:
    return (toy_page, toy_runs) if request.param == "toy" else (tiny_page, [tiny_run])


def test_leaderboards_are_what_metrics_prints(shown: Any, metrics_json: Metrics) -> None:
    page, runs = shown
    for board in page["boards"]:
        paths = [str(runs[number].path) for number in board["runs"]]
        revision = ["--revision", page["revision"], "--show", "conditioned"]
        asked = {
            "overall": metrics_json(*paths, *revision, "--by", "policy"),
            "by_task": metrics_json(*paths, *revision, "--by", "task,policy"),
        }
        pooled = metrics_json(*paths, *revision, "--by", "task") + metrics_json(*paths, *revision, "--by", "")
        assert cells(page, board["overall"]) == rows(asked["overall"], conditioned=True)
        assert cells(page, board["by_task"]) == rows(asked["by_task"], conditioned=False)
        assert cells(page, board["all"]) == rows(pooled, conditioned=False)
        assert board["overall"][0]["cells"]


def test_subgoals_and_diagnosis_are_what_metrics_prints(shown: Any, metrics_json: Metrics) -> None:
    page, runs = shown
    for board in page["boards"]:
        paths = [str(runs[number].path) for number in board["runs"]]
        asked = ["--revision", page["revision"]]
        expected = {
            (row["group"].get("task"), row["group"]["policy"], row["metric"]): printed(row)
            for show in ("subgoals", "failure-modes")
            for row in metrics_json(*paths, *asked, "--show", show)
        }
        found = {}
        for table in board["subgoals"]:
            where, source = (table["task"], table["policy"]), table["source"]
            found[*where, f"subgoals out of order:{source}"] = spelt(page, table["violations"])
            for word, key in (
                ("reached", "reached"),
                ("reached given previous", "given_previous"),
                ("fails first", "fails_first"),
            ):
                for name, est in zip(table["names"], table[key], strict=True):
                    found[*where, f"{word}:{name}:{source}"] = spelt(page, est)
        diagnosis = board["diagnosis"]
        for policy in diagnosis["policies"]:
            where = (None, policy["policy"])
            for name, est in policy["shares"].items():
                found[*where, f"fingerprint:{name}|failure:{diagnosis['source']}"] = spelt(page, est)
            found[*where, f"fingerprint:too slow|success:{diagnosis['source']}"] = spelt(page, policy["slow"])
        # Similarity of tasks and z-scores are values without an interval, on the page and in the table.
        plain = {
            key: row[0] for key, row in expected.items() if key[2].startswith(("z:", "fingerprint:stab"))
        }
        for policy, scores in zip(diagnosis["policies"], diagnosis["z"], strict=True):
            where, ending = (None, policy["policy"]), f"failure:{diagnosis['source']}"
            named = zip(diagnosis["z_metrics"], scores, strict=True)
            values = {f"z:{name}|{ending}": score for name, score in named}
            values[f"fingerprint:stability|{ending}"] = policy["stability"]
            for name, value in values.items():
                assert plain.pop((*where, name), None) == value
        assert not plain
        assert found == {key: row for key, row in expected.items() if key in found}
        assert {key for key in expected if not key[2].startswith(("z:", "fingerprint:stab"))} == found.keys()


def test_the_agreement_of_a_judge_is_what_metrics_prints(shown: Any, metrics_json: Metrics) -> None:
    page, runs = shown
    for row in page["judge_agreement"]:
        if row["run"] < 0:
            continue
        printed_rows = metrics_json(str(runs[row["run"]].path), "--show", "judge")
        by_name = {}
        for one in printed_rows:
            if "baseline_for" not in one["group"]:  # baselines are rows of their own on the page
                name = one["metric"].removeprefix("judge:")
                question = one["group"].get("question")
                by_name[f"{question}: {name}" if question else name] = one
        # The page leaves out the finer rankings; what it has is what is printed.
        shown_cells = {name: cell for name, cell in row["cells"].items() if name not in CURVE_METRICS}
        assert shown_cells
        assert {name: spelt(page, cell) for name, cell in shown_cells.items()} == {
            name: printed(by_name[name]) for name in shown_cells
        }
        counts = {name for name in by_name if name.endswith((": TP", ": FP", ": FN", ": TN", ": unknown"))}
        assert {name for name in by_name if ": " in name} - counts <= shown_cells.keys()
        for name in counts:
            question, _, count = name.rpartition(": ")
            place = ["TP", "FP", "FN", "TN", "unknown"].index(count)
            assert row["confusion"][question][place] == by_name[name]["value"]


def test_episode_values_are_what_metrics_prints(shown: Any, metrics_json: Metrics) -> None:
    page, runs = shown
    for run, judged in zip(runs, page["judgements"], strict=True):
        asked = [str(run.path), "--revision", page["revision"], "--show", "episodes"]
        expected = {row["episode_id"]: row for row in metrics_json(*asked)}
        ids = [page["episodes"]["id"][i] for i in judged["episode"]]
        assert sorted(ids) == sorted(expected)
        for name, packed in judged["values"].items():
            values = [None if np.isnan(v) else float(v) for v in unpack(packed)]
            assert values == [expected[episode][name] for episode in ids]


def test_curves_on_the_page_measure_as_those_of_the_run(shown: Any) -> None:
    page, runs = shown
    for run, judged in zip(runs, page["judgements"], strict=True):
        curves = dict(curves_by_episode(run.curves(), "progress"))
        lengths = judged["curves"]["length"]
        ends = np.cumsum(lengths)
        times, progress = unpack(judged["curves"]["times"]), unpack(judged["curves"]["progress"])
        if judged["curves"]["rate"] is not None:
            times = times / np.repeat(unpack(judged["curves"]["rate"]), lengths)
        for place, end, length in zip(judged["episode"], ends, lengths, strict=True):
            expected = curves[page["episodes"]["id"][place]]
            here = times[end - length : end], progress[end - length : end]
            for revision in REVISIONS:
                seen = opd_prefixes(here[1], revision, here[0])
                for name, values in opd_prefixes(expected[1], revision, expected[0]).items():
                    np.testing.assert_allclose(seen[name], values, atol=1e-6)


def test_judges_that_differ_have_tables_of_their_own_without_a_warning(toy_page: dict[str, Any]) -> None:
    assert [board["label"] for board in toy_page["boards"]] == ["recorded", "linear-time"]
    assert [run["baseline"] for run in toy_page["runs"]] == [False, True]
    assert [w for w in toy_page["warnings"] if w["kind"] == "protocols"] == []


def test_a_judge_is_compared_with_the_baselines(toy_page: dict[str, Any], tiny_page: dict[str, Any]) -> None:
    listed = [(row["judge"], row["run"], row["baseline_for"]) for row in toy_page["judge_agreement"]]
    assert listed == [
        ("recorded", 0, -1),
        ("linear-time", 1, -1),
        ("constant", -1, 0),
        ("random-monotone", -1, 0),
    ]
    assert toy_page["judge_agreement"][3]["cells"]["VOC"][0] == 1.0
    assert [row["run"] for row in tiny_page["judge_agreement"]] == [0, -1, -1, -1]


def test_runs_of_one_protocol_are_one_board(tmp_path: Path, metrics_json: Metrics) -> None:
    def shift(number: int, record: dict[str, Any]) -> None:
        record["id"] = f"more-{number:02d}"

    runs = [write_run(tmp_path / "a", 12, steps=9), write_run(tmp_path / "b", 9, steps=9, change=shift)]
    page = page_data(runs)
    assert [board["runs"] for board in page["boards"]] == [[0, 1]]
    assert not [w for w in page["warnings"] if w["kind"] == "protocols"]
    expected = metrics_json(str(runs[0].path), str(runs[1].path), "--by", "policy", "--show", "conditioned")
    assert cells(page, page["boards"][0]["overall"]) == rows(expected, conditioned=True)
    assert [len(judged["episode"]) for judged in page["judgements"]] == [12, 9]


def test_an_episode_that_two_runs_hold_counts_once(tmp_path: Path, metrics_json: Metrics) -> None:
    runs = [write_run(tmp_path / name, 30, steps=9) for name in ("a", "b")]
    page = page_data(runs)
    expected = metrics_json(*(str(run.path) for run in runs), "--by", "policy", "--show", "conditioned")
    assert cells(page, page["boards"][0]["overall"]) == rows(expected, conditioned=True)
    assert page["episodes"]["n"] == sum(group["episodes"] for group in page["boards"][0]["overall"]) == 30
    assert [len(judged["repeated"]) for judged in page["judgements"]] == [0, 30]


def test_an_episode_judged_differently_under_one_protocol_is_refused(tmp_path: Path) -> None:
    def other(number: int, record: dict[str, Any]) -> None:
        record["judgement"]["curve"]["progress"] = [0.5] * 4

    runs = [write_run(tmp_path / "a", 3, steps=4), write_run(tmp_path / "b", 3, steps=4, change=other)]
    with pytest.raises(OptionError, match="Pass only one of these runs"):
        page_data(runs)


def test_episodes_of_several_sources_may_share_an_id(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, 6, steps=4, source=name) for name in ("x", "y")]
    page = page_data(runs)
    assert page["episodes"]["n"] == 12
    assert len(set(page["episodes"]["key"] or ())) == 12
    assert [judged["episode"] for judged in page["judgements"]] == [list(range(6)), list(range(6, 12))]


def test_verdicts_prompts_errors_and_costs_are_on_the_page(tmp_path: Path) -> None:
    def fill(number: int, record: dict[str, Any]) -> None:
        record["episode"]["subgoals"] = [
            {"name": n, "criterion": f"is {n}?", "mode": "ever", "view": "", "reviewed": True, "label": label}
            for n, label in (("grasp", True), ("lift", None))
        ]
        record["judgement"]["verdicts"] = [
            {"subgoal": "grasp", "answer": "yes", "score": 0.9, "when_s": 1.5, "why": "it holds it"},
            {"subgoal": "lift", "answer": "unknown", "score": None, "when_s": None, "why": ""},
        ]
        prompt = f"Look at the video.\nEpisode {number}.\nAnswer yes or no."
        tokens = {"tokens_in": 5, "tokens_out": 1}
        record["calls"] = [
            {"key": "k", "kind": "Generate", "prompt": prompt, "frames": "[]", "answer": "yes", **tokens}
        ]
        record["usage"] |= {"calls": 1, "cost": 0.25, "latencies_s": [2.0]}
        if number == 2:
            record["judgement"] |= {"error": "The video is cut off.", "verdicts": []}
            del record["judgement"]["curve"]

    page = page_data([write_run(tmp_path / "run", 4, steps=5, change=fill)])
    judged, verdicts = page["judgements"][0], page["judgements"][0]["verdicts"]
    failed = list(judged["error"])
    assert [judged["error"][place] for place in failed] == ["The video is cut off."]
    assert judged["curves"]["length"][int(failed[0])] == 0
    assert verdicts["answer"] == "y?y?y?"
    assert verdicts["why"]["values"][verdicts["why"]["codes"][0]] == "it holds it"
    assert unpack(verdicts["when_s"])[0] == 1.5
    assert np.isnan(unpack(verdicts["score"])[1])
    texts = [
        "\n".join(page["prompt_lines"][i] for i in page["prompts"][p]) for p in judged["calls"]["prompt"]
    ]
    assert sorted(texts)[0] == "Look at the video.\nEpisode 0.\nAnswer yes or no."
    assert page["prompt_lines"].count("Answer yes or no.") == 1
    assert page["episodes"]["subgoal_labels"] == ["1?"] * 4
    run = page["runs"][0]
    assert (run["n"], run["errors"], run["usage"]["cost"], run["usage"]["p95_s"]) == (4, 1, 1.0, 2.0)
    assert page["boards"][0]["subgoals"][0]["criteria"] == ["is grasp?", "is lift?"]
    assert {w["kind"] for w in page["warnings"]} == {"errors"}


def test_calls_that_do_not_fit_are_counted_and_reported(tmp_path: Path) -> None:
    def fill(number: int, record: dict[str, Any]) -> None:
        call = {"key": "k", "kind": "Generate", "frames": "[]", "answer": "", "tokens_in": 0, "tokens_out": 0}
        record["calls"] = [{**call, "prompt": f"{number} {part} " + "x" * 200_000} for part in range(2)]

    page = page_data([write_run(tmp_path / "run", 8, steps=3, change=fill)])
    calls = page["judgements"][0]["calls"]
    assert calls["left_out"] == 3
    assert len(calls["row"]) == 2 * 5
    assert any(w["kind"] == "left-out" and "calls.parquet" in w["text"] for w in page["warnings"])


def test_the_page_data_is_json_without_nan(toy_page: dict[str, Any]) -> None:
    written = json.dumps(toy_page, allow_nan=False)  # an error where there is one
    assert json.loads(written).keys() == toy_page.keys()


def test_a_report_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="at least one run"):
        page_data([])


def test_a_count_that_is_unknown_adds_nothing_to_a_runs_usage(tmp_path: Path) -> None:
    def damage(number: int, record: dict[str, Any]) -> None:
        record["usage"] |= {"images": "many" if number else 3, "seconds": None}

    page = page_data([write_run(tmp_path / "run", 2, steps=5, change=damage)])
    assert page["runs"][0]["usage"]["images"] == 3

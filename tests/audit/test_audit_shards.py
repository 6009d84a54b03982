"""Shards of an audit: judged apart, merged by the command without --shard, to the result of an undivided one."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stepscore.audit import AuditOptions, audit, audit_shard
from stepscore.cli.app import app
from stepscore.errors import BudgetError, ProtocolMismatchError, RunError, UnfinishedShardsError
from stepscore.judges import Judge, get_judge
from stepscore.models import Request
from stepscore.models.calls import Budget
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions, Cut, Shard, open_run
from stepscore.testing import write_toy_rollouts
from tests.audit.planted_judges import COUNTERFACTUALS, scripted_episodes
from tests.fakes import FakeView

OF_THIS_START = ("created", "decoded")
SECONDS = ("cost:p50 s", "cost:p95 s")


def answer(request: Request) -> str:
    """Answer each request alike, and others otherwise."""
    return str(-(zlib.crc32(repr(request).encode()) % 997) / 300)


def asking() -> tuple[MockModel, Judge]:
    model = MockModel(script=answer)
    return model, get_judge("topreward", model=model, prefixes=3)


def options(budget: Budget | None = None, **more: Any) -> AuditOptions:
    calls = CallOptions(budget or Budget(), cache=False)
    return AuditOptions(counterfactuals=COUNTERFACTUALS, trivial=False, call_options=calls, **more)


def result(stored: dict[str, Any]) -> dict[str, Any]:
    """Return an audit without dates, seconds and what was decoded for it just now."""
    rows = [row for row in stored["agreement"]["rows"] if row["metric"] not in SECONDS]
    agreement = {**stored["agreement"], "rows": rows}
    return {
        name: value for name, value in {**stored, "agreement": agreement}.items() if name not in OF_THIS_START
    }


def test_the_shards_of_an_audit_make_the_result_of_an_undivided_one_and_ask_nothing_twice(
    tmp_path: Path,
) -> None:
    episodes = scripted_episodes(1)
    model, judge = asking()
    whole = audit(episodes, judge, tmp_path / "whole", options())
    divided, judge = asking()
    parts: dict[str, list[Cut]] = {}
    for index in (3, 1, 2):
        audit_shard(
            episodes,
            judge,
            tmp_path / "shards",
            Shard(index, 3),
            options(),
            on_part=lambda name, part: parts.setdefault(name, []).append(part),
        )
    assert not (tmp_path / "shards/audit.json").exists()
    assert len(divided.requests) == len(model.requests) > 0
    merged = audit(episodes, judge, tmp_path / "shards", options())
    assert len(divided.requests) == len(model.requests)
    assert result(merged.to_dict()) == result(whole.to_dict())
    assert list(parts) == ["judge", "again", "denser"]
    for name, found in parts.items():
        ids = [one.id for part in found for one in part.episodes]
        assert len(ids) == len(set(ids)) == len(open_run(tmp_path / "whole" / name).judgements())


def test_shards_that_are_missing_are_named_and_nothing_is_judged_in_their_place(tmp_path: Path) -> None:
    episodes, (model, judge) = scripted_episodes(1), asking()
    audit_shard(episodes, judge, tmp_path / "a", Shard(2, 3), options())
    asked = len(model.requests)
    with pytest.raises(UnfinishedShardsError) as error:
        audit(episodes, judge, tmp_path / "a", options())
    assert "2 of the 3 shards" in str(error.value)
    assert "1/3 (judge, again, denser), 3/3 (judge, again, denser)" in str(error.value)
    assert len(model.requests) == asked


def test_a_shard_has_its_share_of_the_budget_and_goes_on_with_more(tmp_path: Path) -> None:
    episodes, (model, judge) = scripted_episodes(1), asking()
    parts: list[Cut] = []
    with pytest.raises(BudgetError):
        audit_shard(
            episodes,
            judge,
            tmp_path / "a",
            Shard(1, 2),
            options(Budget(max_calls=10)),
            on_part=lambda _, part: parts.append(part),
        )
    assert len(model.requests) == 10 * len(parts[0].episodes) // parts[0].total < 6
    audit_shard(episodes, judge, tmp_path / "a", Shard(1, 2), options())
    with pytest.raises(UnfinishedShardsError, match=r": 2/2 "):
        audit(episodes, judge, tmp_path / "a", options())


def test_shards_of_another_plan_or_judge_are_not_taken_for_this_ones(tmp_path: Path) -> None:
    episodes, clock = scripted_episodes(1), get_judge("linear-time")
    few = options(probes=["frozen-first"])
    audit_shard(episodes, clock, tmp_path / "a", Shard(1, 1), few)
    assert audit(episodes, clock, tmp_path / "a", few).results[0].probe == "frozen-first"
    with pytest.raises(RunError, match="divided for 16 episodes"):
        audit(episodes, clock, tmp_path / "a", options())
    with pytest.raises(ProtocolMismatchError):
        audit(episodes, get_judge("constant"), tmp_path / "a", few)
    with pytest.raises(RunError, match="divided into 1 shards"):
        audit_shard(episodes, clock, tmp_path / "a", Shard(1, 2), few)
    audit(episodes, clock, tmp_path / "b", few)
    with pytest.raises(RunError, match="without --shard"):
        audit_shard(episodes, clock, tmp_path / "b", Shard(1, 2), few)


def test_an_episode_that_changed_since_its_shard_is_found_and_judged_again_by_it(tmp_path: Path) -> None:
    before, clock, few = scripted_episodes(1), get_judge("linear-time"), options(probes=["frozen-first"])
    now = [replace(before[0], views={"top": FakeView(50, 10.0, "recorded anew")}), *before[1:]]
    audit_shard(before, clock, tmp_path / "a", Shard(1, 1), few)
    with pytest.raises(RunError, match=r"and 1 more .* judged with another recording"):
        audit(now, clock, tmp_path / "a", few)
    audit_shard(now, clock, tmp_path / "a", Shard(1, 1), few)
    assert audit(now, clock, tmp_path / "a", few).results[0].effect.n == len(now)


def test_the_command_judges_shards_says_which_are_missing_and_then_has_the_result(tmp_path: Path) -> None:
    source = write_toy_rollouts(tmp_path / "toys", scenes=2)
    runner = CliRunner()

    def invoke(folder: str, *more: str) -> tuple[int, str, str]:
        flags = ["--judge", "linear-time", "-T", "probes=frozen-first,reversed", "--json"]
        ended = runner.invoke(app, ["audit", str(source), *flags, "-o", str(tmp_path / folder), *more])
        return ended.exit_code, ended.stdout, ended.stderr

    code, printed, said = invoke("a", "--shard", "2/2")
    assert (code, printed) == (0, "")
    assert "Shard 2/2: " in said
    assert "trivial/constant" in said
    assert "without --shard" in said
    code, printed, said = invoke("a")
    assert (code, printed) == (1, "")
    assert "1 of the 2 shards" in said
    assert "1/2 (judge, trivial/linear-time" in said
    assert not (tmp_path / "a/audit.json").exists()
    assert invoke("a", "--shard", "1/2")[0] == 0
    code, printed, _ = invoke("a")
    assert code == 0
    assert result(json.loads(printed)) == result(json.loads(invoke("whole")[1]))
    assert (tmp_path / "a/report.html").is_file()

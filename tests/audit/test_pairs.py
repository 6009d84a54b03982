"""The pairwise test of a judge: pairs that a clock cannot tell, and what is read off them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from stepscore.audit import Judged
from stepscore.audit.pairs import (
    SPANS,
    Pair,
    make_progress_pairs,
    pair_table,
    pair_videos,
    read_pairs,
    score_pairs,
    trivial_results,
    write_pairs,
)
from stepscore.cli.app import app
from stepscore.episodes import Episode
from stepscore.errors import ManifestError, OptionError
from stepscore.metrics import roc_auc
from stepscore.testing import write_toy_rollouts
from tests.audit.planted_judges import planted_judges, scripted_episodes
from tests.fakes import episode


def made(per_span: int = 60) -> tuple[list[Episode], tuple[Pair, ...], dict[str, Episode]]:
    episodes = scripted_episodes()
    pairs = make_progress_pairs(episodes, per_span=per_span)
    return episodes, pairs, pair_videos(pairs, {one.id: one for one in episodes})


def answers(fault: str, episodes: list[Episode], videos: dict[str, Episode]) -> dict[str, Judged]:
    judge = planted_judges(episodes)[fault]
    said = {video.id: judge.judge_now(video).curve for video in videos.values()}
    return {name: Judged(curve.times, curve.progress) for name, curve in said.items() if curve is not None}


def test_half_of_every_span_falls_and_each_pair_says_what_is_true() -> None:
    _, pairs, videos = made()
    for span, (lo, hi) in SPANS.items():
        inside = [pair for pair in pairs if pair.span == span]
        assert len(inside) == 60
        assert sum(pair.change < 0 for pair in inside) == 30
        assert all(lo <= abs(pair.change) + 1e-6 and abs(pair.change) - 1e-6 < hi for pair in inside)
    for pair in pairs:
        times, truth = videos[pair.id].labels.progress()
        before, after = np.interp([pair.before_s, pair.after_s], times, truth)
        assert after - before == pytest.approx(pair.change, abs=2e-3)
        assert pair.before_s < pair.after_s


def test_pairs_are_spread_over_tasks_and_depend_on_the_seed_alone() -> None:
    episodes, pairs, _ = made()
    assert min(Counter(pair.task for pair in pairs).values()) >= 30
    assert make_progress_pairs(episodes[::-1], per_span=60) == pairs
    assert make_progress_pairs(episodes, per_span=60, seed=1) != pairs


def test_a_clock_and_a_constant_score_one_half() -> None:
    _, pairs, videos = made()
    for result in trivial_results(pairs, videos):
        assert all(one.accuracy.value == pytest.approx(0.5) for one in result.spans)
        assert result.resolved is None
    clock, constant = trivial_results(pairs, videos)
    assert clock.spans[-1].advances.value == 1.0
    assert clock.spans[-1].regressions.value == 0.0
    assert constant.spans[-1].ties.value == 1.0


def test_the_oracle_resolves_small_changes_and_a_coarse_judge_only_large_ones() -> None:
    episodes, pairs, videos = made(200)
    oracle = score_pairs("oracle", pairs, videos, answers("none", episodes, videos))
    assert oracle.resolved == "small"
    assert oracle.spans[-1].auroc.value > 0.99
    coarse = score_pairs("coarse", pairs, videos, answers("quantised", episodes, videos))
    by_span = {one.span: one for one in coarse.spans}
    assert (
        by_span["small"].accuracy.value < by_span["medium"].accuracy.value < by_span["large"].accuracy.value
    )
    assert by_span["small"].ties.value > 0.2
    assert by_span["small"].accuracy.value < oracle.spans[0].accuracy.value - 0.1


def test_numbers_are_those_of_a_loop_over_pairs() -> None:
    episodes, pairs, videos = made()
    judged = answers("noisy", episodes, videos)
    result = score_pairs("noisy", pairs, videos, judged)
    signs, changes, truths = [], [], []
    for pair in pairs:
        curve = judged[videos[pair.id].id]
        before, after = (np.interp(t, curve.times, curve.progress) for t in (pair.before_s, pair.after_s))
        signs.append(0.5 if after == before else float((after > before) == (pair.change > 0)))
        changes.append(after - before)
        truths.append(pair.change > 0)
    assert result.spans[-1].accuracy.value == pytest.approx(np.mean(signs))
    assert result.spans[-1].auroc.value == pytest.approx(roc_auc(changes, truths))
    assert result.spans[-1].accuracy.clusters == len({(p.task, p.scene) for p in pairs})


def test_unknown_answers_count_against_coverage_alone() -> None:
    episodes, pairs, videos = made()
    judged = answers("none", episodes, videos)
    some = dict(list(judged.items())[::2])
    result = score_pairs("half", pairs, videos, some)
    assert result.spans[-1].accuracy.value > 0.95
    assert result.spans[-1].accuracy.coverage < 0.8
    assert pair_table([result]).rows[-1].cells[0].text == "half: all"


def test_a_file_of_pairs_is_read_as_it_was_written_and_damage_is_named(tmp_path: Path) -> None:
    _, pairs, _ = made()
    file = tmp_path / "pairs.jsonl"
    write_pairs(file, pairs)
    assert read_pairs(file) == pairs
    line = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    for wrong, why in (
        ({"after_s": -1}, "after_s"),
        ({"change": 7}, "change"),
        ({"change": 0.001}, "too small"),
        ({"after_s": line["before_s"]}, "not later"),
        ({"played": "sideways"}, "played"),
    ):
        file.write_text(json.dumps({**line, **wrong}), encoding="utf-8")
        with pytest.raises(ManifestError, match=why):
            read_pairs(file)
    file.write_text(json.dumps(line) + "\n" + json.dumps(line), encoding="utf-8")
    with pytest.raises(ManifestError, match="two pairs"):
        read_pairs(file)
    file.write_text("", encoding="utf-8")
    with pytest.raises(ManifestError, match="no pairs"):
        read_pairs(file)


def test_episodes_without_labelled_progress_and_pairs_of_other_episodes_are_refused() -> None:
    with pytest.raises(OptionError, match="--labels"):
        make_progress_pairs([episode()])
    _, pairs, _ = made()
    with pytest.raises(ManifestError, match="is not in the source"):
        pair_videos(pairs, {})


def test_the_commands_make_and_score_pairs(tmp_path: Path) -> None:
    source = write_toy_rollouts(tmp_path / "toys", scenes=4)
    rows = ["episode_id,kind,name,start_s,end_s,value"]
    for curve in sorted(source.rglob("*.curve.csv")):
        name = curve.relative_to(source).as_posix().removesuffix(".curve.csv")
        rows += [f"{name},progress,potential,{i / 4},,{min(1, i / 12)}" for i in range(16)]
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(rows), encoding="utf-8")
    file, runner = tmp_path / "pairs.jsonl", CliRunner()
    asked = ["pairs", "make", str(source), "--labels", str(labels), "-o", str(file), "--per-span", "20"]
    assert runner.invoke(app, asked).exit_code == 0
    scored = [
        "pairs",
        "score",
        str(file),
        "--source",
        str(source),
        "--judge",
        "linear-time",
        "-o",
        str(tmp_path / "r"),
    ]
    result = runner.invoke(app, [*scored, "--json"])
    assert result.exit_code == 0, result.output
    found = {
        (row["group"]["judge"], row["group"]["span"]): row["value"]
        for row in json.loads(result.stdout)
        if row["metric"] == "pairs:accuracy"
    }
    assert found["linear-time", "all"] == pytest.approx(0.5)
    assert found["constant", "all"] == 0.5

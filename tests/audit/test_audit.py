"""An audit: which episodes its probes take, what its outcomes mean, and how it is told."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from stepscore.audit import (
    PROBES,
    TRIVIAL_JUDGES,
    AuditOptions,
    Bound,
    Context,
    Judged,
    audit,
    audit_tables,
    choose_probes,
    headline_sentences,
    make_plan,
    read_texts,
    scene_of,
)
from stepscore.audit.frame_cache import FrameCache, with_frame_cache
from stepscore.cli.app import app
from stepscore.episodes import Episode, Labels, open_episodes
from stepscore.errors import ManifestError, UnknownNameError
from stepscore.judges import Ask, Judge, get_judge
from stepscore.runs import open_run
from stepscore.testing import write_toy_rollouts
from stepscore.types import Curve, Estimate, Judgement
from tests.audit.planted_judges import COUNTERFACTUALS, scripted_episodes
from tests.fakes import FakeView, episode

EVERY_PROBE = tuple(PROBES.values())


def estimate(value: float, lo: float, hi: float, n: int = 20, method: str = "t") -> Estimate:
    return Estimate(value, lo, hi, n, n, 1.0, method)


@pytest.mark.parametrize(
    ("good", "lo", "hi", "n", "outcome"),
    [
        ("below", -0.1, 0.05, 20, "pass"),
        ("below", 0.05, 0.15, 20, "warn"),
        ("below", 0.11, 0.3, 20, "fail"),
        ("above", 0.11, 0.3, 20, "pass"),
        ("above", 0.05, 0.15, 20, "warn"),
        ("above", -0.1, 0.05, 20, "fail"),
        ("below", 0.5, 0.9, 7, "undecided"),
        ("below", math.nan, math.nan, 20, "undecided"),
    ],
)
def test_the_outcome_follows_from_where_the_interval_is(
    good: str, lo: float, hi: float, n: int, outcome: str
) -> None:
    assert Bound(0.1, good).decide(estimate((lo + hi) / 2, lo, hi, n)) == outcome  # type: ignore[arg-type]


def test_where_all_effects_are_equal_their_value_decides() -> None:
    level = estimate(1.0, math.nan, math.nan, method="no variation")
    assert Bound(0.1, "below").decide(level) == "fail"
    assert Bound(0.1, "above").decide(level) == "pass"


def test_by_default_an_audit_judges_at_most_ten_times_the_episodes() -> None:
    for scenes in (1, 3, 10):
        episodes = scripted_episodes(scenes)
        plan = make_plan(episodes, EVERY_PROBE, Context(episodes, dict(COUNTERFACTUALS)))
        assert len(plan.to_judge(causal=False, probes=EVERY_PROBE)) <= 10 * len(episodes)
        whole = make_plan(episodes, EVERY_PROBE, Context(episodes, dict(COUNTERFACTUALS)), full=True)
        assert len(whole.to_judge(causal=False, probes=EVERY_PROBE)) > 15 * len(episodes)


def test_a_subset_is_spread_over_tasks_and_policies_and_depends_on_the_seed_alone() -> None:
    episodes = scripted_episodes(10)
    plan = make_plan(episodes, choose_probes(["frozen-first"]), Context(episodes))
    by_id = {one.id: one for one in episodes}
    taken = [by_id[one.episode] for one in plan.probed]
    assert len(taken) == len(episodes)  # one probe can have them all
    first = taken[:40]
    assert len({scene_of(one) for one in first}) == 40
    assert set(Counter((one.task, one.policy) for one in first).values()) == {5}
    again = make_plan(episodes[::-1], choose_probes(["frozen-first"]), Context(episodes))
    assert [one.episode for one in again.probed] == [one.episode for one in plan.probed]
    other = make_plan(episodes, choose_probes(["frozen-first"]), Context(episodes, seed=1))
    assert {one.episode for one in other.probed[:40]} != {one.episode for one in plan.probed[:40]}


def test_probes_of_successes_take_successes_and_all_where_none_is_labelled() -> None:
    episodes = scripted_episodes(2)
    plan = make_plan(episodes, choose_probes(["round-trip"]), Context(episodes), full=True)
    won = {one.id for one in episodes if one.labels.success}
    assert {one.episode for one in plan.probed} == won
    bare = [replace(one, labels=Labels()) for one in episodes]
    unlabelled = make_plan(bare, choose_probes(["round-trip"]), Context(bare), full=True)
    assert len(unlabelled.probed) == len(bare)
    assert not unlabelled.labelled


def test_a_probe_that_fits_no_episode_says_why() -> None:
    one = [episode(instruction="tidy up")]
    plan = make_plan(one, EVERY_PROBE, Context(one), full=True)
    assert "verb" in plan.not_applicable["opposite"]
    assert "one camera" in plan.not_applicable["swapped-cameras"]
    assert "another task" in plan.not_applicable["other-task"]
    with pytest.raises(UnknownNameError, match="frozen-first"):
        choose_probes(["frozen-firs"])


def test_a_changed_episode_that_two_probes_use_is_judged_once() -> None:
    episodes = scripted_episodes(2)
    probes = choose_probes(["frozen-first", "still-success", "beyond-length"])
    plan = make_plan(episodes, probes, Context(episodes), full=True)
    assert len(plan.to_judge(causal=False, probes=probes)) == 2 * len(episodes)


def test_a_judge_that_never_looks_ahead_is_not_asked_about_truncated_videos() -> None:
    episodes = scripted_episodes(1)
    probes = choose_probes(["truncated-50", "early-success"])
    plan = make_plan(episodes, probes, Context(episodes), full=True)
    assert len(plan.to_judge(causal=True, probes=probes)) == len(episodes)
    said = Judged(np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.5, 0.9]), 1.0, np.array([0.0, 0.2, 0.8]))
    assert said.up_to(1.5).last == 0.5
    assert said.up_to(1.5).success == 0.0
    assert said.up_to(2.0).success == 1.0


def test_a_level_curve_has_no_order_and_an_unknown_one_none_at_all() -> None:
    level = Judged(np.arange(4.0), np.full(4, 0.3))
    assert level.order() == 0.0
    assert math.isnan(Judged(np.arange(4.0), np.full(4, np.nan)).order())
    assert Judged(np.arange(4.0), np.array([0.1, 0.2, 0.3, 0.4])).order() == pytest.approx(1.0)
    assert math.isnan(Judged().gain)


def test_frames_are_decoded_once_a_size_and_memory_is_bounded() -> None:
    cache = FrameCache(max_bytes=6 * 8 * 3 * 10)
    view = with_frame_cache(episode(views={"top": FakeView(n=50)}), cache).view()
    assert [int(frame[0, 0, 0]) for frame in view.read([3, 5, 3])] == [3, 5, 3]
    view.read([5, 3])
    assert cache.decoded == 2
    view.read(range(20))
    assert len(cache._frames) == 10
    assert view.digest() == FakeView(n=50).digest()


def test_the_clock_fails_an_audit_and_says_so(tmp_path: Path) -> None:
    episodes = scripted_episodes(3)
    options = AuditOptions(probes=["beyond-length", "round-trip", "slowed"], full=True, trivial=False)
    found = audit(episodes, get_judge("linear-time"), tmp_path / "audit", options)
    assert {one.probe: one.outcome for one in found.results} == {
        "agreement": "fail",  # it calls every video a success
        "beyond-length": "fail",
        "round-trip": "fail",
        "slowed": "pass",
        "policies-success": "fail",
        "policies-progress": "fail",
    }
    assert found.counts() == {"pass": 1, "warn": 0, "fail": 5, "undecided": 0}
    said = headline_sentences(found)
    assert any("its progress is a clock" in one for one in said)
    assert any("does not notice what is undone" in one for one in said)
    written = json.loads(found.write(tmp_path / "audit").read_text(encoding="utf-8"))
    assert written["results"][0]["outcome"] == "fail"
    assert written["episodes"] == len(episodes)
    tables = audit_tables(found)
    assert tables[1].rows[0].cells[1].text == "fail"


def test_the_command_prints_every_probe_and_goes_on_with_what_is_there(tmp_path: Path) -> None:
    source = write_toy_rollouts(tmp_path / "toys", scenes=2)
    command = ["audit", str(source), "--judge", "linear-time", "-o", str(tmp_path / "a"), "-T"]
    runner = CliRunner()
    asked = runner.invoke(app, [*command, "probes=frozen-first,other-task", "--json"])
    first = json.loads(asked.stdout)
    assert {one["probe"] for one in first["results"] if one["family"] != "labels"} == {
        "frozen-first",
        "other-task",
    }
    assert {one["judge"] for one in first["trivial"]} == {"linear-time", "constant", "image-difference"}
    assert "frozen-first" in runner.invoke(app, [*command, "probes=frozen-first,other-task"]).stdout
    assert json.loads((tmp_path / "a/judge/run.json").read_text(encoding="utf-8"))["last"]["judged"] == 0
    wrong = runner.invoke(app, [*command, "probes=frozen-firs"])
    assert isinstance(wrong.exception, UnknownNameError)


def test_a_judge_that_needs_goal_images_is_audited_with_them(tmp_path: Path) -> None:
    source = write_toy_rollouts(tmp_path / "toys", scenes=2)
    flags = ["--judge", "similarity", "--model", "embedded", "-M", "gate=false", "-J", "frames=4"]
    probes = ["-T", "probes=frozen-last,other-task", "-T", "trivial=false", "--json"]
    command = ["audit", str(source), *flags, *probes, "--goal", "last-success", "-o", str(tmp_path / "a")]
    results = json.loads(CliRunner().invoke(app, command).stdout)["results"]
    still, other, *recorded = results
    assert still["n"] > 0
    assert still["value"] == 0.0  # every frame is the same
    assert other["n"] == 0  # there is no goal image of another task
    assert [one["family"] for one in recorded] == ["labels"] * len(recorded)


def test_the_same_video_in_other_words_is_judged_right_after_it() -> None:
    episodes = scripted_episodes(1)
    probes = choose_probes(["frozen-first", "negated", "paraphrase", "noisy"])
    asked = make_plan(episodes, probes, Context(episodes), full=True).to_judge(causal=False, probes=probes)
    first = [one.id.partition("~")[2].partition("-")[0] for one in asked[:5]]
    assert episodes[0].labels.success
    assert first == ["", "negated", "paraphrase", "frozen", "noisy"]


def test_longer_videos_cost_more_and_asking_again_has_its_share() -> None:
    episodes = scripted_episodes(10)
    plan = make_plan(episodes, EVERY_PROBE, Context(episodes, dict(COUNTERFACTUALS)))
    recorded = {one.id: one.info.duration_s for one in episodes if one.info is not None}
    spent = {}
    for one in plan.probed:
        assert one.changed.info is not None
        spent[one.changed.id] = one.changed.info.duration_s / recorded[one.episode]
    again, denser = 40, 40 * 2
    assert len(episodes) == 80
    assert len(episodes) + sum(spent.values()) + again + denser <= 10 * len(episodes)


def test_files_of_texts_are_read_and_wrong_ones_refused(tmp_path: Path) -> None:
    file = tmp_path / "texts.yaml"
    file.write_text("open the drawer: [close it, push it]\npress: pull\n", encoding="utf-8")
    assert read_texts(file) == {"open the drawer": ("close it", "push it"), "press": ("pull",)}
    for wrong in ("[]", "a: 3", "a: []", "a: ['']"):
        file.write_text(wrong, encoding="utf-8")
        with pytest.raises(ManifestError, match="text"):
            read_texts(file)


def test_an_audit_of_real_files_reads_their_labels(tmp_path: Path) -> None:
    episodes = open_episodes(write_toy_rollouts(tmp_path / "toys", scenes=4))
    options = AuditOptions(probes=["frozen-first", "reversed"], full=True, trivial=False)
    found = audit(episodes, get_judge("image-difference"), tmp_path / "a", options)
    by_name = {one.probe: one for one in found.results}
    assert by_name["frozen-first"].outcome == "pass"
    assert by_name["reversed"].outcome == "fail"
    assert by_name["reversed"].eligible == sum(bool(one.labels.success) for one in episodes)


def test_a_probe_that_is_not_passed_names_its_worst_episodes_and_one_that_passes_none(tmp_path: Path) -> None:
    episodes = scripted_episodes(3)
    options = AuditOptions(probes=["reversed", "slowed"], full=True, trivial=False)
    found = audit(episodes, get_judge("linear-time"), tmp_path / "audit", options)
    failed, passed = found.results[:2]
    assert (failed.outcome, passed.outcome) == ("fail", "pass")
    successes = {one.id for one in episodes if one.labels.success}
    assert {case.episode for case in failed.worst} <= successes
    assert len(failed.worst) == 6
    assert all(case.changed == f"{case.episode}~reversed" for case in failed.worst)
    effects = [case.effect for case in failed.worst]
    assert effects == sorted(effects, reverse=True)
    assert passed.worst == ()
    stored = json.loads(json.dumps(found.to_dict()))["results"]
    assert stored[0]["worst"][0] == {
        "episode": failed.worst[0].episode,
        "changed": failed.worst[0].changed,
        "effect": effects[0],
    }


def test_with_goal_images_the_similarity_with_them_stands_beside_the_judge(tmp_path: Path) -> None:
    source = write_toy_rollouts(tmp_path / "toys", scenes=2)
    options = AuditOptions(probes=["frozen-last", "slowed"], full=True)
    plain = audit(open_episodes(source), get_judge("linear-time"), tmp_path / "plain", options)
    assert {one.judge for one in plain.trivial} == set(TRIVIAL_JUDGES)
    image = tmp_path / "goal.png"
    frames = open_episodes(source)[0].clip(count=2).frames
    Image.fromarray(frames[-1]).save(image)
    with_goal = open_episodes(source, goal=image)
    found = audit(with_goal, get_judge("linear-time"), tmp_path / "goal", options)
    assert [one.judge for one in found.trivial if one.probe == "slowed"] == [*TRIVIAL_JUDGES, "similarity"]
    last = next(one for one in found.trivial if (one.judge, one.probe) == ("similarity", "frozen-last"))
    assert last.effect.value == 0.0  # one frame throughout is as near to the goal at any time


def test_the_command_asks_again_and_more_densely_unless_probes_are_named(tmp_path: Path) -> None:
    source = str(write_toy_rollouts(tmp_path / "toys", scenes=1))
    words = [
        "audit",
        source,
        "--judge",
        "topreward",
        "--model",
        "mock/-1.5",
        "-T",
        "trivial=false",
        "-T",
        "page=false",
    ]
    for more, made in (([], True), (["-T", "probes=slowed"], False)):
        out = tmp_path / f"audit{made}"
        assert CliRunner().invoke(app, [*words, "-o", str(out), *more]).exit_code == 0
        probes = {one["probe"] for one in json.loads((out / "audit.json").read_text())["results"]}
        assert ({"again", "denser"} <= probes) == (out / "again").is_dir() == made


@dataclass(frozen=True)
class Dice:
    """A judge without a model whose answers differ from call to call, as code of a user's own may."""

    name = "dice"
    version = 1
    models = ()

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        times = episode.view(episode.main_view).timestamps()[::8]
        return Judgement(Curve(times, np.random.default_rng().uniform(size=len(times))))


def test_a_judge_without_a_model_is_asked_again_too(tmp_path: Path) -> None:
    episodes = [one for one in scripted_episodes(2) if one.policy == "good"]
    found = audit(episodes, cast(Judge, Dice()), tmp_path / "dice", AuditOptions(trivial=False))
    again, denser = found.result("again"), found.result("denser")
    assert again is not None
    assert denser is not None
    assert (again.outcome, again.effect.clusters) == ("fail", 8)
    assert "no option of sampling" in denser.reason


def test_the_command_audits_only_the_episodes_it_is_given_and_says_what_they_cannot_show(
    tmp_path: Path,
) -> None:
    source = str(write_toy_rollouts(tmp_path / "toys", scenes=2))
    ids = open_episodes(source).ids()
    words = ["audit", source, "--judge", "linear-time", "-T", "trivial=false", "-T", "page=false", "--json"]
    words += ["-T", "probes=frozen-first,still-success", "-o", str(tmp_path / "a"), "--episodes"]
    asked = CliRunner().invoke(app, [*words, f"{ids[1]},0"])
    assert json.loads(asked.stdout)["episodes"] == 2
    said = " ".join(asked.stderr.split())
    assert "at least 8 scenes are needed, there are 2" in said
    assert "at least 35 scenes are needed" in said
    judged = open_run(tmp_path / "a/judge").episodes().column("episode_id").to_pylist()
    assert {one for one in judged if "~" not in one} == set(ids[:2])
    wrong = CliRunner().invoke(app, [*words, "nothing-like-it"])
    assert wrong.exit_code != 0

"""Direct comparison: a judge is asked about exactly the two frames of a pair, through a run like any other."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from stepscore.audit.pairs import (
    Compare,
    Pair,
    Question,
    check_compares,
    compared,
    comparing_judges,
    make_progress_pairs,
    pair_changes,
    pair_clips,
    pair_videos,
    score_changes,
    trivial_comparisons,
)
from stepscore.cli.app import app
from stepscore.episodes import Episode
from stepscore.errors import BudgetError, OptionError
from stepscore.judges import FrameComparer, Hop, get_judge
from stepscore.judges.common.pairs import repeated
from stepscore.metrics import hop_between
from stepscore.models.calls import Budget
from stepscore.models.media import DecodedMedia
from stepscore.models.mock import MockModel
from stepscore.models.prompts import Prompt
from stepscore.models.requests import Generate, Request
from stepscore.runs import CallOptions, dry_run, score
from tests.audit.pair_judges import EXPECTED, scripted_comparers
from tests.audit.planted_judges import scripted_episodes
from tests.cli.command_walk import invoke


def made(per_span: int = 60) -> tuple[list[Episode], tuple[Pair, ...], list[Episode]]:
    episodes = scripted_episodes()
    pairs = make_progress_pairs(episodes, per_span=per_span)
    return episodes, pairs, pair_clips(pairs, pair_videos(pairs, {one.id: one for one in episodes}))


def test_a_pair_becomes_the_recorded_start_its_two_frames_and_the_recorded_end() -> None:
    episodes, pairs, clips = made()
    by_id = {one.id: one for one in episodes}
    for pair, clip in zip(pairs, clips, strict=True):
        recorded = by_id[pair.episode]
        times, truth = recorded.labels.progress()
        shown = clip.view("top").read(range(4))[:, 0, 0, 0].astype(int)
        assert shown[[0, 3]].tolist() == [0, len(times) - 1]
        assert truth[shown[2]] - truth[shown[1]] == pytest.approx(pair.change, abs=1e-6)
        assert float(hop_between(truth[shown[1]], truth[shown[2]])) == pytest.approx(pair.hop, abs=1e-6)
        assert (clip.id, clip.instruction, clip.labels.potentials) == (pair.id, recorded.instruction, ())
    places = {(one.episode, one.played, one.before_s, one.after_s) for one in pairs}
    assert len({clip.fingerprint for clip in clips}) == len(places)


@pytest.mark.parametrize("fault", EXPECTED)
def test_each_judge_of_the_kit_has_the_accuracy_that_was_stated(fault: str, tmp_path: Path) -> None:
    episodes, pairs, clips = made(20)
    judge = scripted_comparers(episodes)[fault]
    changes = pair_changes(score(clips, Compare(judge), tmp_path / "run"), pairs)
    overall = score_changes(fault, pairs, changes, by="compare").spans[-1]
    for found, expected in (
        (overall.accuracy, EXPECTED[fault].accuracy),
        (overall.ties, EXPECTED[fault].ties),
    ):
        if expected is None:
            assert math.isnan(found.value)
            assert found.coverage == 0
        else:
            assert expected[0] - 1e-9 <= found.value <= expected[1] + 1e-9


def test_an_answer_that_does_not_change_is_right_half_of_the_time() -> None:
    _, pairs, _ = made()
    for result in trivial_comparisons(pairs):
        assert all(one.accuracy.value == 0.5 for one in result.spans)
        assert (result.by, result.resolved) == ("compare", None)


def stated(request: Request) -> str:
    """State the change of the grey value between the last two images, in percent of a frame each."""
    assert isinstance(request, Generate)
    images = [
        part.clip.frames[0, 0, 0, 0]
        for turn in request.prompt.turns
        for part in turn.parts
        if isinstance(part, DecodedMedia)
    ]
    return f"<score>{int(images[-1]) - int(images[-2]):+d}%</score>"


def test_hop_states_the_change_between_exactly_the_two_frames_and_nothing_is_asked_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "cache"))
    _, pairs, clips = made(6)
    model = MockModel(script=stated)
    one_view = [clip.with_views(["top"]) for clip in clips]
    judge = Compare(Hop(model))
    changes = pair_changes(score(one_view, judge, tmp_path / "run"), pairs)
    frames = [clip.view("top").read([1, 2])[:, 0, 0, 0].astype(int) for clip in clips]
    assert changes == [pytest.approx((after - before) / 100) for before, after in frames]
    asked = len(model.requests)
    assert asked == len(pairs)
    assert pair_changes(score(one_view, judge, tmp_path / "run"), pairs) == changes
    assert len(model.requests) == asked


def test_a_broken_answer_is_unknown_and_counted_against_coverage(tmp_path: Path) -> None:
    _, pairs, clips = made(20)
    seen: list[Request] = []

    def every_other(request: Request) -> str:
        seen.append(request)
        return "no idea" if len(seen) % 2 else stated(request)

    model = MockModel(script=every_other)
    options = CallOptions(cache=False)
    changes = pair_changes(
        score(clips, Compare(Hop(model)), tmp_path / "run", views=["top"], call_options=options), pairs
    )
    overall = score_changes("hop", pairs, changes, by="compare").spans[-1].accuracy
    assert (overall.n, overall.coverage) == (len(pairs) // 2, 0.5)


def test_a_budget_stops_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    _, pairs, clips = made(6)
    model = MockModel(script=stated)
    judge, run = Compare(Hop(model)), tmp_path / "run"
    with pytest.raises(BudgetError):
        score(clips, judge, run, views=["top"], call_options=CallOptions(Budget(5), cache=False))
    changes = pair_changes(
        score(clips, judge, run, views=["top"], call_options=CallOptions(Budget(99), cache=False)), pairs
    )
    assert not np.isnan(changes).any()
    assert len(model.requests) == len(pairs)


def test_a_dry_run_counts_a_call_a_pair_and_sends_none(tmp_path: Path) -> None:
    _, pairs, clips = made(6)
    model = MockModel(script=stated)
    counted = dry_run(clips, Compare(Hop(model)), CallOptions(cache=False), views=["top"])
    assert (counted.episodes, counted.calls, counted.failed) == (len(pairs), len(pairs), 0)
    assert not model.requests


def test_an_episode_that_cannot_be_read_is_a_pair_with_its_error(tmp_path: Path) -> None:
    episodes, pairs, _ = made(6)
    broken = {one.id: one for one in episodes}
    name = pairs[0].episode
    broken[name] = Episode(id=name, instruction="", error="its file is gone")
    clips = pair_clips(
        [one for one in pairs if one.played == "forwards"],
        {one.id: broken[one.episode] for one in pairs if one.played == "forwards"},
    )
    run = score(clips, Compare(scripted_comparers(episodes)["none"]), tmp_path / "run")
    errors = {row["episode_id"]: row["error"] for row in run.judgements().to_pylist()}
    assert errors[pairs[0].id] == "its file is gone"
    assert sum(error is not None for error in errors.values()) == sum(
        one.episode == name for one in pairs if one.played == "forwards"
    )


def test_questions_are_answered_by_name_and_repeats_are_asked_again(tmp_path: Path) -> None:
    _, _, clips = made(6)
    model = MockModel(script=stated)
    questions = (Question(1, 2), Question(2, 1), Question(1, 1), Question(1, 2, 1))
    uncached = CallOptions(cache=False)
    run = score(
        clips[:1], Compare(Hop(model), questions), tmp_path / "run", views=["top"], call_options=uncached
    )
    answers = compared(run)[clips[0].id]
    assert set(answers) == {"1>2", "2>1", "1>1", "1>2#1"}
    assert answers["1>2"] == -answers["2>1"] == answers["1>2#1"]
    assert answers["1>1"] == 0
    assert sorted(one.repeat for one in model.requests if isinstance(one, Generate)) == [0, 0, 0, 1]


def test_a_repeat_of_a_sampled_answer_has_a_seed_of_its_own() -> None:
    sampled = Generate(Prompt(()), temperature=0.1, seed=7)
    assert [(one.seed, one.repeat) for one in (repeated(sampled, 0), repeated(sampled, 2))] == [
        (7, 0),
        (9, 2),
    ]
    assert repeated(Generate(Prompt(())), 2).seed is None


def test_judges_that_compare_are_known_and_others_are_refused_with_what_to_do() -> None:
    assert comparing_judges() == ["grm", "hop", "image-difference", "similarity", "vlac"]
    for name in ("hop", "similarity"):
        assert isinstance(get_judge(name, model="mock/x"), FrameComparer)
    with pytest.raises(OptionError, match=r"--by curve. Judges that compare frames: grm, hop"):
        check_compares(get_judge("linear-time"))


def test_image_difference_compares_distances_to_the_start(tmp_path: Path) -> None:
    _, pairs, clips = made(6)
    changes = pair_changes(score(clips, Compare(get_judge("image-difference")), tmp_path / "run"), pairs)
    for clip, change in zip(clips, changes, strict=True):
        start, before, after, _ = clip.view("top").read(range(4))[:, 0, 0, 0].astype(float)
        assert change == pytest.approx((abs(after - start) - abs(before - start)) / 255)


def test_the_protocol_of_a_comparison_holds_the_judge_and_its_questions(tmp_path: Path) -> None:
    _, _, clips = made(6)
    run = score(clips[:1], Compare(Hop(MockModel("x"))), tmp_path / "run", views=["top"])
    options = json.loads(run.protocol.text)["judge"]["options"]
    assert options["judge"]["name"] == "hop"
    assert options["questions"] == ["1>2"]


class TestTheCommand:
    def line(self, toy_pairs: tuple[Path, Path], out: Path, *more: str) -> list[str]:
        return ["pairs", "score", str(toy_pairs[0]), "--source", str(toy_pairs[1]), "-o", str(out), *more]

    def test_a_judge_that_compares_is_asked_about_frames_and_every_row_says_so(
        self, toy_pairs: tuple[Path, Path], tmp_path: Path
    ) -> None:
        asked = self.line(toy_pairs, tmp_path / "r", "--judge", "hop", "--model", "mock/<score>+10%</score>")
        result = CliRunner().invoke(app, [*asked, "-E", "cache=false", "--json"])
        assert result.exit_code == 0, result.output
        rows = json.loads(result.stdout)
        assert {row["group"]["by"] for row in rows} == {"compare"}
        found = {
            row["group"]["judge"]: row["value"]
            for row in rows
            if row["metric"] == "pairs:accuracy" and row["group"]["span"] == "all"
        }
        assert found == {"hop": 0.5, "linear-time": 0.5, "constant": 0.5}
        printed = CliRunner().invoke(app, asked).stdout
        assert "Scored by direct comparison of the two frames" in " ".join(printed.split())

    def test_the_curve_is_scored_where_it_is_asked_for_or_nothing_else_is_possible(
        self, toy_pairs: tuple[Path, Path], tmp_path: Path
    ) -> None:
        for judge, more in (("linear-time", []), ("image-difference", ["--by", "curve"])):
            asked = self.line(toy_pairs, tmp_path / judge, "--judge", judge, "--json", *more)
            rows = json.loads(CliRunner().invoke(app, asked).stdout)
            assert {row["group"]["by"] for row in rows} == {"curve"}

    def test_a_dry_run_prints_the_calls_and_writes_nothing(
        self, toy_pairs: tuple[Path, Path], tmp_path: Path
    ) -> None:
        asked = self.line(toy_pairs, tmp_path / "r", "--judge", "hop", "--model", "mock/x", "--dry-run")
        result = CliRunner().invoke(app, [*asked, "-E", "cache=false"])
        assert result.exit_code == 0
        assert "12 pairs, 0 of which cannot be judged\n12 calls" in result.stdout
        assert not (tmp_path / "r").exists()

    def test_what_cannot_be_done_is_said_in_one_line(
        self, toy_pairs: tuple[Path, Path], tmp_path: Path
    ) -> None:
        for more, why in (
            (["--judge", "constant", "--by", "compare"], "cannot compare two frames"),
            (["--judge", "constant", "--by", "nonsense"], "compare, curve"),
        ):
            ended = invoke(self.line(toy_pairs, tmp_path / "r", *more))
            assert ended.code == 2
            assert why in ended.err
            assert len(ended.err.strip().splitlines()) == 1

    def test_pairs_that_cannot_be_judged_are_named_and_end_in_1(
        self, toy_pairs: tuple[Path, Path], tmp_path: Path
    ) -> None:
        asked = ["--judge", "similarity", "--model", "mock/0.5", "-E", "cache=false"]
        ended = invoke(self.line(toy_pairs, tmp_path / "r", *asked))
        assert ended.code == 1
        assert "has no goal image" in ended.err

    def test_a_goal_image_is_given_as_to_judge(self, toy_pairs: tuple[Path, Path], tmp_path: Path) -> None:
        Image.fromarray(np.full((48, 64, 3), 200, np.uint8)).save(tmp_path / "goal.png")
        asked = ["--judge", "similarity", "--model", "mock/0.5", "-E", "cache=false"]
        ended = invoke(self.line(toy_pairs, tmp_path / "r", *asked, "--goal", str(tmp_path / "goal.png")))
        assert ended.code == 0, ended.err

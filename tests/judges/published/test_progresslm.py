"""ProgressLM is asked as evaluated: system text, goal, demonstration, image, instructions; n/a is unknown."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import stepscore
from stepscore.episodes.labels import Subgoal
from stepscore.errors import EpisodeError, OptionError
from stepscore.judges.published.progresslm import ProgressLm, shifts_text, steps_text
from stepscore.models import DecodedMedia, FrameRef, Generate
from stepscore.models.mock import MockModel
from stepscore.testing import write_toy_rollouts
from tests.judges.published.asking import ask_judge, asked, shown, subject

MODEL = MockModel("ProgressLM-3B-RL")
STEPS = (Subgoal("reach"), Subgoal("insert"), Subgoal("remove"))


def test_a_demonstration_in_words_is_numbered_with_its_percentages() -> None:
    text = steps_text([step.name for step in STEPS])
    assert text.count("\n\n") == 2
    assert [line.split()[-1] for line in text.splitlines()[1::3]] == ["33%.", "67%.", "100%."]
    assert shifts_text(5).endswith("<image> 0% <image> 25% <image> 50% <image> 75% <image> 100%")


def test_the_parts_stand_in_the_evaluated_order() -> None:
    judge = ProgressLm(MODEL, points=2, prompt="own")
    requests = asked(judge, subject(subgoals=STEPS))
    assert [shown(request) for request in requests] == [["top 0"], ["top 4"]]
    system, user = requests[0].prompt.turns
    texts = judge.texts("text")
    assert system.parts == (texts["system"],)
    goal = "The overall task goal is open the drawer."
    steps = steps_text([step.name for step in STEPS])
    image = FrameRef("top", 0, 1157)  # scaled up to the published least number of pixels
    assert user.parts == (
        texts["system"],
        goal,
        texts["part1"],
        steps,
        texts["part2"],
        image,
        texts["part3"],
    )
    assert (requests[0].temperature, requests[0].top_p, requests[0].top_k) == (0.6, 0.9, 50)


def test_a_demonstration_in_images(tmp_path: Path) -> None:
    write_toy_rollouts(tmp_path / "rollouts", scenes=1)
    video = next((tmp_path / "rollouts").rglob("*.mp4"))
    judge = ProgressLm(MODEL, points=1, prompt="own", demo=str(video), demo_frames=3)
    (request,) = asked(judge, subject())
    _, user = request.prompt.turns
    kinds = [
        "text" if isinstance(part, str) else "demo" if isinstance(part, DecodedMedia) else "image"
        for part in user.parts
    ]
    assert kinds == ["text"] * 3 + ["demo"] * 3 + ["text"] * 2 + ["image", "text"]
    assert user.parts[6] == shifts_text(3)
    assert user.parts[1] == "The overall task goal is open the drawer"
    assert judge.options()["demo"] != str(video)
    with pytest.raises(OptionError, match="a demonstration is one video"):
        ProgressLm(MODEL, prompt="own", demo=str(tmp_path / "rollouts")).options()


def test_what_the_model_declines_is_unknown() -> None:
    said = {
        0: "<ref>1</ref><score>5%</score>",
        2: "<ref>n/a</ref><score>n/a</score>",
        4: "<score>0.4</score>",
    }

    def answer(request: Generate) -> str:
        return said[int(shown(request)[0].split()[1])]

    judged, _ = ask_judge(ProgressLm(MODEL, points=3, prompt="own"), subject(subgoals=STEPS), answer)
    assert judged.curve is not None
    assert judged.curve.progress == pytest.approx([0.05, math.nan, math.nan], nan_ok=True)
    assert judged.facts == {"declined": 1.0, "unread": 1.0}
    assert math.isnan(judged.success_score)


def test_without_a_demonstration_nothing_is_asked(tmp_path: Path) -> None:
    judge = ProgressLm(MODEL, prompt="own")
    with pytest.raises(EpisodeError, match="-J demo=VIDEO"):
        asked(judge, subject())
    with pytest.raises(OptionError, match="--subgoals"):
        stepscore.score([subject()], judge, tmp_path / "run")

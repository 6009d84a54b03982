"""What the parser of GVL's answers reads, and that it never reads what an answer did not state."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.judges.common.frame_percentages import parse_frame_percentages

FRAMES = range(1, 16)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Frame 1: Frame Description: near, Task Completion Percentages:45%\nFrame 2: 30%", {1: 45, 2: 30}),
        ("**Frame 3:**\n\n- Description: near\n- Task Completion Percentage: **45%**\n", {3: 45}),
        ("Frame 1: 10%, Frame 2: 20%; Frame 3: 30", {1: 10, 2: 20, 3: 30}),
        ("Frame 1: closed. Task Completion Percentages: 10%. Frame 2: open, progress = 20 %", {1: 10, 2: 20}),
        ("| Frame 3 | gripper near | 45% |", {3: 45}),
        ("1. Frame 2 - 45.5%", {2: 45.5}),
        ("Frame 1: 45% - the gripper closed", {1: 45}),
        ("Frame 1: gripper near (45%)", {1: 45}),
        ("Frame 1: task completion percentage is about 45%", {1: 45}),
        ("Frame 1: -5%\nFrame 2: 120%", {1: -5, 2: 120}),
        ('{"frames": [{"frame": 1, "percent": 45}, {"frame": "2", "percent": "30%"}]}', {1: 45, 2: 30}),
        ('```json\n[{"frame_number": 1, "task_completion_percentage": 45}]\n```', {1: 45}),
        ('{"Frame 1": 10, "2": {"description": "50% open", "percentage": 20}}', {1: 10, 2: 20}),
        ("<think>Frame 1: 90%</think>Frame 1: 10%", {1: 10}),
        ("Frame 1: 10%\nFrame 1: 10%", {1: 10}),
    ],
)
def test_a_percentage_is_read_with_its_frames_number(text: str, expected: dict[int, float]) -> None:
    assert parse_frame_percentages(text, FRAMES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10%, 20%, 30%",
        "[10, 20, 30]",
        '{"prediction": [10, 20, 30]}',
        "Frame 1: the drawer is 50% open",
        "Frame 1: as far as frame 2 (30%)",
        "Frame 1: the same as frame 2, 30%",
        "Frame 1: 40-50%",
        "Frame 1: Task Completion Percentage: 40 to 50%",
        "Frame 1: less than 10%",
        "Frame 1: completion: < 10%",
        "Frame 1: completion: 45 out of 100%",
        "Frame 1: completion: 45/100",
        "Frame 1: completion: 0.5",
        "Frame 1: completion: 1,5%",
        "Frame 1: completion: 1e1%",
        "Frame 1: 10%\nFrame 1: 20%",
        "Frame 99: 10%",
        "Frames 1-3: 10%",
        "Frame 1.5: 10%",
        "Frame 1: hidden.\nOverall completion: 100%",
        "Frame 1:\nnothing\n\nTask Completion Percentage: 100%",
        '{"frame": 1, "percent": true}',
        '{"frame": 1, "percent": null}',
        '{"frame": 1, "percent": NaN}',
        '{"frame": 1, "percent": 0.5}',
        '{"frame": 1, "percent": 10, "progress": 20}',
        '{"frame": 1, "percent": 10, "percent": 20}',
        '{"frame": 1, "percent": [10]}',
        "<think>Frame 1: 90%",
        "[" * 5000,
        '{"frame": ' + "9" * 5000 + "}",
        "Frame " + "9" * 5000 + ": 10%",
        "Frame 1: " + "9" * 5000 + "%",
    ],
)
def test_what_is_not_stated_of_one_frame_is_unknown(text: str) -> None:
    assert parse_frame_percentages(text, FRAMES) == {}


@pytest.mark.parametrize("whole", ["Frame 1: 10%\nFrame 2: Task Completion Percentages:45%", "Frame 2: 45"])
def test_a_number_that_the_end_of_a_cut_answer_may_have_shortened_is_not_read(whole: str) -> None:
    for end in range(len(whole)):
        assert parse_frame_percentages(whole[:end], FRAMES, cut=True).get(2) in (None, 45)


def test_the_whole_entries_of_a_cut_json_answer_are_read() -> None:
    text = '{"frames": [{"frame": 1, "percent": 45}, {"frame": 2, "percent": 5'
    assert parse_frame_percentages(text, FRAMES, cut=True) == {1: 45}


# 20,000 malformed answers

NOISE = ["the gripper is 50% open", "", "closer than in frame 2", "???", "it moved 3 cm", "see Frame 4 (70%)"]
Stated = dict[int, set[float] | None]
"""What an answer states of each frame: one value, several that contradict, or None for nothing exact."""


def number(rng: random.Random) -> str:
    return rng.choice([str(rng.randint(-20, 130)), str(rng.randint(0, 100)), f"{rng.uniform(2, 100):.1f}"])


def line(rng: random.Random, frame: int, stated: Stated) -> str:
    """A line about a frame, in a good form or a bad one; what it states is noted."""
    value, other, noise = number(rng), number(rng), rng.choice(NOISE)
    good = [
        f"Frame {frame}: Frame Description: {noise}, Task Completion Percentages:{value}%",
        f"- **Frame {frame}**: {value}%",
        f"Frame {frame}:\n- Task completion percentage: {value} %",
        f"| Frame {frame} | {value}% |",
        f"frame {frame} - progress: ~{value}%",
    ]
    bad = [
        f"Frame {frame}: {noise}",
        f"Frame {frame}: completion: {value}-{other}%",
        f"Frame {frame}: completion: between {value} and {other}%",
        f"Frame {frame}: completion: less than {value}%",
        f"Frame {frame}: completion: >{value}%",
        f"Frame {frame}: completion: {value} out of 100",
        f"Frame {frame}: completion: 0.{rng.randint(1, 99)}",
        f"{frame}: {value}%",
        f"{value}%",
        f"Overall completion: {value}%",
        f"Frames {frame}-{frame + 1}: {value}%",
        f"Frame Description: {noise}",
    ]
    if rng.random() < 0.5:
        stated.setdefault(frame, set()).add(float(value))  # type: ignore[union-attr]
        return rng.choice(good)
    return rng.choice(bad)


def entry(rng: random.Random, frame: int, stated: Stated) -> object:
    """A JSON entry about a frame, good or bad."""
    value = rng.randint(2, 120)
    good: list[dict[str, object]] = [
        {"frame": frame, "percent": value, "description": rng.choice(NOISE)},
        {"frame_number": str(frame), "task_completion_percentage": f"{value}%"},
        {"Frame": f"Frame {frame}", "progress": float(value)},
    ]
    bad: list[object] = [
        {"frame": frame},
        {"frame": frame, "percent": rng.choice([None, True, "a lot", [value], {"of": value}, 0.3, "40-50%"])},
        {"frame": None, "percent": value},
        {"percent": value},
        value,
        [frame, value],
        None,
    ]
    if rng.random() < 0.5:
        stated.setdefault(frame, set()).add(float(value))  # type: ignore[union-attr]
        return rng.choice(good)
    return rng.choice(bad)


def malformed(rng: random.Random) -> tuple[str, Stated, bool]:
    """An answer, what it states, and whether it was cut off."""
    stated: Stated = {}
    frames = [rng.randint(1, 6) for _ in range(rng.randint(1, 6))]
    if rng.random() < 0.3:
        entries = [entry(rng, frame, stated) for frame in frames]
        text = json.dumps(
            {"frames": entries} if rng.random() < 0.5 else entries, indent=rng.choice([None, 1])
        )
        text = rng.choice(["{}", "```json\n{}\n```", "Here: {}"]).replace("{}", text)
    else:
        text = "\n".join(line(rng, frame, stated) for frame in frames)
    cut = rng.random() < 0.3
    return (text[: rng.randint(0, len(text))] if cut else text), stated, cut


def test_10_000_malformed_answers_give_no_value_that_they_did_not_state() -> None:
    rng = random.Random(0)
    read = 0
    for _ in range(10_000):
        text, stated, cut = malformed(rng)
        for frame, value in parse_frame_percentages(text, FRAMES, cut=cut).items():
            assert value in (stated.get(frame) or ()), (text, frame, value)
            assert cut or stated[frame] == {value}, (text, frame, value)
            read += 1
    assert read > 5_000


def spliced(rng: random.Random) -> str:
    """Pieces of several answers, cut anywhere, with characters changed."""
    texts = [malformed(rng)[0] for _ in range(rng.randint(1, 3))]
    parts = [text[rng.randint(0, len(text)) :][: rng.randint(0, 200)] for text in texts]
    characters = list("".join(parts))
    for _ in range(rng.randint(0, 8)):
        at = rng.randint(0, len(characters))
        characters[at : at + rng.randint(0, 2)] = rng.choice(list("0123456789%:.,-{}[]\"'\n |*<>é−٣ fF"))
    return "".join(characters)


def stands_beside(text: str, frame: int, value: float) -> bool:
    """Whether the number stands somewhere after the frame's number, as digits of its own."""
    digits = list(re.finditer(r"[-+]?[0-9]+(?:\.[0-9]+)?", text))
    places = [m.start() for m in re.finditer(rf"(?<![0-9.])0*{frame}(?![0-9])", text)]
    after = [m for m in digits if places and m.start() > places[0]]
    # A JSON object may name its percentage first.
    return any(float(m[0]) == value for m in (digits if "{" in text else after))


def test_10_000_spliced_answers_give_no_number_that_does_not_stand_beside_its_frame() -> None:
    rng = random.Random(1)
    read = 0
    for _ in range(10_000):
        text = spliced(rng)
        for frame, value in parse_frame_percentages(text, FRAMES).items():
            assert stands_beside(text, frame, value), (text, frame, value)
            read += 1
    assert read > 2_000


@given(st.text(), st.booleans())
def test_any_text_is_read_without_a_crash(text: str, cut: bool) -> None:
    assert parse_frame_percentages(f"Frame 1: {text}", [], cut=cut) == {}
    parse_frame_percentages(text, FRAMES, cut=cut)
    parse_frame_percentages(f"Frame 1: {text}%\n{{{text}", FRAMES, cut=cut)

"""The words of a question: from a text, from the published files themselves, and what is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stepscore.errors import ModelError, OptionError
from stepscore.judges import get_judge
from stepscore.judges.published.profiles import load_profile, profile_names
from stepscore.judges.published.prompting import fill_text, question_texts, text_digests, with_images
from stepscore.judges.published.published_judge import PublishedJudge
from stepscore.models import FrameRef
from stepscore.models.mock import MockModel
from tests.judges.published.profiles.served import SOURCE, TEXT, profile, sha256

IMAGES = (FrameRef("top", 0), FrameRef("top", 1))


def test_a_published_file_is_known_by_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "downloaded.py"
    file.write_bytes(SOURCE)
    assert question_texts(profile(), "pair", str(file)) == {"user": TEXT}
    assert question_texts(profile(), "pair", str(tmp_path)) == {"user": TEXT}
    assert text_digests(profile(), "pair", str(file)) == text_digests(profile(), "pair", "published")
    changed = tmp_path / "other" / "downloaded.py"
    changed.parent.mkdir()
    changed.write_bytes(SOURCE + b"#")
    with pytest.raises(OptionError, match="none of the published files"):
        question_texts(profile(), "pair", str(changed.parent))


def test_a_text_that_is_not_the_pinned_one_is_refused_from_a_file_as_well(tmp_path: Path) -> None:
    file = tmp_path / "downloaded.py"
    file.write_bytes(SOURCE)
    with pytest.raises(ModelError, match="not the text that was pinned"):
        question_texts(profile(text=sha256(b"x")), "pair", str(file))


def test_sections_are_roles_and_may_be_of_one_question(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("[system]\nLook.\n[compare user]\n<image> <image> {}?\n[done user]\n<image> {}!\n")
    vlac = load_profile("vlac")
    assert question_texts(vlac, "compare", str(file)) == {"system": "Look.", "user": "<image> <image> {}?"}
    assert question_texts(vlac, "done", str(file)) == {"system": "Look.", "user": "<image> {}!"}
    file.write_text("[system]\nLook.\n[user]\n<image> <image> {}?\n")
    with pytest.raises(OptionError, match=r"2 marks <image>; the question done has 1 images.*\[done user\]"):
        question_texts(vlac, "done", str(file))
    file.write_text("Only words: {}")
    with pytest.raises(OptionError, match=r"no section \[system\] for the question compare"):
        question_texts(vlac, "compare", str(file))


def test_a_text_whose_hash_is_not_known_comes_from_a_file_alone(tmp_path: Path) -> None:
    vlac = load_profile("vlac")
    texts = {
        role: text.model_copy(update={"source": None, "sha256": None})
        for role, text in vlac.questions["done"].texts.items()
    }
    unknown = vlac.model_copy(
        update={"questions": {"done": vlac.questions["done"].model_copy(update={"texts": texts})}}
    )
    with pytest.raises(OptionError, match="-J prompt=FILE"):
        question_texts(unknown, "done", "published")
    file = tmp_path / "words.txt"
    file.write_text("[system]\nLook.\n[user]\n<image> {}?\n")
    assert question_texts(unknown, "done", str(file))["user"] == "<image> {}?"


def taken(name: str, question: str, file: str) -> str:
    try:
        texts = question_texts(load_profile(name), question, file)
    except OptionError as error:
        return "refused" if "\n" not in str(error) else str(error)
    return "whole" if set(texts) == set(load_profile(name).questions[question].texts) else str(texts)


@pytest.mark.parametrize("seed", range(20))
def test_any_file_is_taken_or_refused_in_one_line(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    file = tmp_path / "noise"
    pieces = [b"[user]\n", b"[system]\n", b"<image>", b"{}", b"{task}", b"\n", b"\xff", b"\0", b"[", b"a"]
    file.write_bytes(b"".join(rng.choices(pieces, k=rng.randint(0, 40))))
    for name in profile_names():
        for question in load_profile(name).questions:
            assert taken(name, question, str(file)) in ("whole", "refused")


def test_a_wrong_file_is_refused_before_a_run_begins(tmp_path: Path) -> None:
    judge = get_judge("vlac", model=MockModel("VLAC"), prompt=str(tmp_path / "nothing"))
    assert isinstance(judge, PublishedJudge)
    with pytest.raises(OptionError, match="there is none"):
        judge.prepare()


@pytest.mark.parametrize("name", [n for n in profile_names() if n not in ("procvlm", "robometer")])
def test_our_wording_has_the_fields_of_the_published_one(name: str) -> None:
    for question, asked in load_profile(name).questions.items():
        texts = question_texts(load_profile(name), question, "own")
        for role, text in asked.texts.items():
            assert all(f"{{{field}}}" in texts[role] for field in text.fields), (question, role)


def test_what_is_filled_in_holds_no_fields_and_no_images() -> None:
    assert (
        fill_text("{a} {b} {}", {"a": "x", "b": "y", "": "z"}, {"x": "{b}", "y": 1, "z": "{a}"})
        == "{b} 1 {a}"
    )
    parts = with_images("<image>{a}<image>", IMAGES, {"a": "x"}, {"x": "<image>"})
    assert parts == (IMAGES[0], "<image>", IMAGES[1])
    assert with_images("after", IMAGES, {}, {}) == (*IMAGES, "after")

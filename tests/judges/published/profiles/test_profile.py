"""Every profile in the package is whole, and a wrong one names its wrong field."""

from __future__ import annotations

import re

import pytest

from stepscore.errors import ModelError, UnknownNameError
from stepscore.judges import judge_registry
from stepscore.judges.published.profiles import (
    Images,
    find_checkpoint,
    load_profile,
    model_licence,
    parse_profile,
    profile_names,
    published_checkpoints,
    source_url,
)
from stepscore.models.mock import MockModel


@pytest.mark.parametrize("name", profile_names())
def test_a_profile_is_whole(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert profile.judge in judge_registry.names()
    assert profile.citation
    for source in profile.sources.values():
        assert re.fullmatch(r"https://[a-z.]+/[\w.-]+/[\w.-]+/[0-9a-f]{40}/[\w./-]+", source_url(source))
    for question in profile.questions.values():
        assert all(slot.view <= profile.views for slot in question.images)


def test_a_name_means_one_profile_and_one_licence() -> None:
    """Two owners may publish one checkpoint under one name; what it is then known as is the same."""
    ids = [checkpoint.id for _, checkpoint in published_checkpoints()]
    assert len(ids) == len(set(ids))
    known = {
        (name.casefold(), profile.name, checkpoint.licence, checkpoint.non_commercial)
        for profile, checkpoint in published_checkpoints()
        for name in (checkpoint.short_name, *checkpoint.names)
    }
    names = [name for name, *_ in known]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "model",
    ["hf/tanhuajie2001/Robo-Dopamine-GRM-3B", "vllm/robo-dopamine-grm-3b", "hf/models/Robo-Dopamine-GRM-3B/"],
)
def test_a_model_is_known_by_the_last_part_of_its_name(model: str) -> None:
    found = find_checkpoint(model)
    assert found is not None
    assert (found[0].name, found[1].licence) == ("grm", "Apache-2.0")


def test_other_models_are_not_known() -> None:
    assert find_checkpoint("hf/Qwen/Qwen3-VL-4B-Instruct") is None
    assert model_licence(MockModel("x")).name == "unknown"
    with pytest.raises(UnknownNameError, match="grm"):
        load_profile("grmm")


GOOD = """
name: a
judge: grm
title: A
checkpoints: [{id: a/b}]
citation: none
progress: hop
questions: {q: {images: [before 1], texts: {user: {}}, answer: {pattern: '([0-9])', lowest: 0, highest: 1}}}
"""


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("before 1", "during 1", "questions.q.images.0"),
        ("'([0-9])'", "'[0-9]'", "one group"),
        ("'([0-9])'", "'([0-9'", "regular expression"),
        ("progress: hop", "progress: leap", "progress"),
        ("title: A", "heading: A", "title"),
        ("user: {}", "user: {source: x, sha256: " + "ab" * 32 + "}", "names no source"),
        ("user: {}", "user: {source: x}", "sha256"),
        ("checkpoints: [{id: a/b}]", "checkpoints: []", "checkpoints"),
    ],
)
def test_a_wrong_profile_names_its_wrong_field(old: str, new: str, field: str) -> None:
    parse_profile(GOOD, "good")
    with pytest.raises(ModelError, match=re.escape(field)):
        parse_profile(GOOD.replace(old, new), "bad")


def test_the_size_of_an_image_keeps_to_the_limits_of_pixels() -> None:
    limits = Images(min_pixels=12544, max_pixels=76800)
    assert limits.longer_side(640, 480) == 320
    assert limits.longer_side(320, 240) is None
    assert limits.longer_side(64, 64) == 112
    assert Images(side=448).longer_side(1920, 1080) == 448
    assert Images().longer_side(1920, 1080) is None

"""Answers in the run folder stand in for the cache of another machine."""

from __future__ import annotations

from pathlib import Path

from stepscore.models.calls.answer_cache import CallCache
from stepscore.models.calls.shared_folder import SharedAnswers


def opened(folder: Path, machine: str) -> SharedAnswers:
    return SharedAnswers(CallCache(folder / f"{machine}.sqlite"), folder / "answers.jsonl")


def test_another_machine_finds_the_answers_of_the_first(tmp_path: Path) -> None:
    first = opened(tmp_path, "here")
    first.put("k", "m", {"kind": "answer", "text": "½"})
    first.put("l", "m", {"kind": "answer", "text": "no"})
    first.close()
    with (tmp_path / "answers.jsonl").open("ab") as file:
        file.write(b"damaged\n{}\n" + b'{"key": "torn", "ans')
    second = opened(tmp_path, "there")
    assert second.get("k") == {"kind": "answer", "text": "½"}
    assert second.get("torn") is None
    second.put("n", "m", {"kind": "answer", "text": "new"})
    second.forget("l")
    assert second.get("l") is None
    second.close()
    assert opened(tmp_path, "elsewhere").get("n") == {"kind": "answer", "text": "new"}
    cache = CallCache(tmp_path / "there.sqlite")
    assert cache.get("n") is not None
    assert cache.get("k") is None

"""What stands on a board: the words of the command line, and the file for long lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscore.audit.board import Entry, combined, read_entries, split_entry
from stepscore.errors import ManifestError, OptionError


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("topreward", "topreward", []),
        ("topreward:form=chat:target=Yes", "topreward", ["form=chat", "target=Yes"]),
        ("mine.py:Judge:points=3", "mine.py:Judge", ["points=3"]),
        ("vllm/qwen:7b", "vllm/qwen:7b", []),
        ("hf/x:base=http://host:80/v1", "hf/x", ["base=http://host:80/v1"]),
    ],
)
def test_options_follow_a_name_after_colons(text: str, name: str, options: list[str]) -> None:
    assert split_entry(text) == (name, options)


def test_every_judge_stands_with_every_model_and_one_without_a_model_once() -> None:
    entries = combined(
        [Entry("topreward"), Entry("constant")], [("mock/a", {}), ("mock/b", {"scores": "top"})]
    )
    assert [entry.label for entry in entries] == [
        "topreward@mock/a",
        "topreward@mock/b:scores=top",
        "constant",
    ]
    with pytest.raises(OptionError, match="--models"):
        combined([Entry("topreward")], [])


def test_the_command_of_an_entry_names_it_again() -> None:
    entry = Entry("topreward", "embedded", {"form": "chat", "prefixes": 4}, {"gate": False})
    command = entry.command("DATA", ["--labels", "a file.csv"])
    assert command == (
        "stepscore bench DATA --labels 'a file.csv' --judges topreward:form=chat:prefixes=4 "
        "--models embedded:gate=false -o BOARD"
    )
    assert split_entry(entry.words()[1]) == ("topreward", ["form=chat", "prefixes=4"])


def test_long_lists_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "entries.yaml"
    file.write_text(
        "- {judge: gvl, model: embedded, label: GVL}\n- judge: constant\n  options: {value: 0.2}\n"
    )
    assert read_entries(file) == [
        Entry("gvl", "embedded", label="GVL"),
        Entry("constant", options={"value": 0.2}),
    ]


@pytest.mark.parametrize(
    "text", ["judge: gvl", "- {judge: gvl, size: x}", "- {judge: 3}", "- 4", "- {}", ":"]
)
def test_a_file_that_is_not_such_a_list_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "entries.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError, match=r"entries\.yaml"):
        read_entries(file)

"""The subgoals file."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscore.episodes.labels.subgoals import Subgoal, find_subgoals, parse_subgoals, read_subgoals
from stepscore.errors import ManifestError
from tests.paths import DOCS

FILE = """
tasks:
  open the drawer:
    success: ever
    subgoals:
      - name: grasp the handle
        criterion: the fingers close around the handle
        mode: holds
        view: wrist
        reviewed: false
      - the drawer is open
  "*":
    subgoals: [something happens]
"""


def write(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "subgoals.yaml"
    path.write_text(content)
    return path


def test_a_task_has_ordered_subgoals(tmp_path: Path) -> None:
    entry = read_subgoals(write(tmp_path, FILE))["open the drawer"]
    assert entry.success == "ever"
    assert entry.subgoals == (
        Subgoal("grasp the handle", "the fingers close around the handle", "holds", "wrist", reviewed=False),
        Subgoal("the drawer is open"),
    )
    assert (entry.subgoals[1].mode, entry.subgoals[1].reviewed) == ("ever", True)


def test_an_entry_is_found_by_task_then_instruction_then_star(tmp_path: Path) -> None:
    table = read_subgoals(write(tmp_path, FILE))
    drawer, anything = table["open the drawer"], table["*"]
    assert find_subgoals(table, "Open the Drawer ", "other") is drawer
    assert find_subgoals(table, "other", "open the drawer") is drawer
    assert find_subgoals(table, None, "other") is anything
    assert find_subgoals({"a": drawer}, None, "other") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("tasks: {a: {subgoals: [{name: x, mode: often}]}}", "mode"),
        ("tasks: {a: {subgoals: [{name: x, criteria: y}]}}", "criteria"),
        ("tasks: {a: {subgoals: [{criterion: x}]}}", "name"),
        ("tasks: {a: {subgoals: []}}", r"tasks\.a\.subgoals"),
        ("tasks: {a: {subgoals: ['']}}", r"tasks\.a\.subgoals"),
        ("tasks: {a: {success: sometimes, subgoals: [x]}}", r"tasks\.a\.success"),
        ("tasks: {a: {subgoals: [x, y, x]}}", "subgoal 'x' appears twice"),
        (
            "tasks:\n  a: {subgoals: [x]}\n  b: {subgoals: [x]}\n  a: {subgoals: [y]}",
            "'a' appears twice, in lines 2 and 4",
        ),
        ("tasks: {a: {subgoals: [{name: x, name: y}]}}", "'name' appears twice, in lines 1 and 1"),
        ("tasks: {Open: {subgoals: [x]}, 'open ': {subgoals: [y]}}", "'Open' and 'open ' are the same task"),
        ("tusks: {}", "tusks|tasks"),
        ("", "the file"),
        ("tasks: [", "not YAML"),
    ],
)
def test_a_wrong_field_is_named_with_its_file(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(ManifestError, match=message) as error:
        read_subgoals(write(tmp_path, content))
    assert "subgoals.yaml" in str(error.value)


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="No subgoals file at"):
        read_subgoals(tmp_path / "none.yaml")


def test_a_list_can_be_parsed_by_itself() -> None:
    assert parse_subgoals(["a", {"name": "b"}], "here") == (Subgoal("a"), Subgoal("b"))
    with pytest.raises(ManifestError, match="here: "):
        parse_subgoals([3], "here")
    with pytest.raises(ManifestError, match="here: "):
        parse_subgoals([], "here")


def test_the_example_of_the_documentation_is_a_subgoals_file(tmp_path: Path) -> None:
    page = (DOCS / "data/readers.md").read_text(encoding="utf-8")
    table = read_subgoals(write(tmp_path, page.split("```yaml\n")[-1].split("```")[0]))
    assert [subgoal.name for subgoal in table["open the drawer"].subgoals] == [
        "grasp the handle",
        "the drawer is open",
    ]

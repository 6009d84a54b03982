"""Options that go together are one parameter of a command, and options as any others of its command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from stepscore.cli.options import After, with_groups


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option("--width")] = 4
    names: Annotated[list[str], typer.Option("--name")] = field(default_factory=list)
    height: Annotated[int, typer.Option("--height")] = 3


@dataclass(frozen=True)
class Place:
    left: Annotated[int, typer.Option("--left")]
    top: Annotated[int, typer.Option("--top")] = 0


def app(seen: list[Any]) -> typer.Typer:
    made = typer.Typer()

    @made.command()
    @with_groups
    def draw(
        what: Annotated[str, typer.Argument()],
        *,
        size: Size,
        depth: Annotated[int, typer.Option("--depth"), After("width")] = 1,
        place: Place,
        fast: Annotated[bool, typer.Option("--fast")] = False,
    ) -> None:
        """Draw it."""
        seen.append((what, size, depth, place, fast))

    return made


def test_a_command_is_called_with_its_groups_made_of_their_options() -> None:
    seen: list[Any] = []
    line = ["a box", "--left", "2", "--height", "9", "--name", "x", "--name", "y", "--depth", "5"]
    assert CliRunner().invoke(app(seen), line).exit_code == 0
    assert seen == [("a box", Size(4, ["x", "y"], 9), 5, Place(2, 0), False)]


def test_what_is_not_given_is_the_default_of_the_group() -> None:
    seen: list[Any] = []
    draw = app(seen)
    for _ in range(2):
        assert CliRunner().invoke(draw, ["it", "--left", "1", "--fast"]).exit_code == 0
    assert seen == [("it", Size(), 1, Place(1), True)] * 2
    assert seen[0][1].names is not seen[1][1].names


def test_an_option_without_a_default_must_be_given() -> None:
    ended = CliRunner().invoke(app([]), ["it"])
    assert ended.exit_code == 2
    assert "--left" in ended.output


def test_options_stand_in_the_help_where_their_group_or_the_option_above_them_stands() -> None:
    shown = CliRunner().invoke(app([]), ["--help"]).output
    assert "Draw it." in shown
    order = ["--width", "--depth", "--name", "--height", "--left", "--top", "--fast"]
    assert sorted(order, key=shown.index) == order


def test_two_groups_with_an_option_of_the_same_name_are_refused() -> None:
    def draw(*, size: Size, other: Size) -> None: ...

    with pytest.raises(ValueError, match="duplicate parameter name"):
        with_groups(draw)

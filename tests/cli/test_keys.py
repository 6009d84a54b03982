"""``-E KEY=VALUE``: keys, defaults, help and ranges all come from one dataclass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from stepscore._options import Range
from stepscore.cli.commands import COMMANDS
from stepscore.cli.main import run
from stepscore.cli.options import KeyGroup, with_groups
from stepscore.errors import OptionError, UnknownNameError
from tests.cli.command_walk import functions, invoke

if TYPE_CHECKING:
    from collections.abc import Hashable as Unknown


@dataclass(frozen=True)
class Base:
    """What is shared.

    Attributes:
        size: Pixels a side, of ``square`` images,
            the first.
    """

    size: Annotated[int, Range(1, 64)] = 8


@dataclass(frozen=True)
class Oven(Base):
    """An oven.

    Attributes:
        heat: Degrees.
        fan_on: Whether it blows.
        shelf: Where.
    """

    heat: Annotated[float | None, Range(0, 300, above=True)] = None
    fan_on: bool = False
    shelf: Literal["top", "low"] = "top"
    names: Sequence[str] | None = None
    file: Path | None = None
    kind: Unknown = "x"
    many: tuple[str, ...] = field(default_factory=tuple)


GROUP = KeyGroup("-E", "oven")


def read(*pairs: str) -> Oven:
    made: Oven = GROUP.read(pairs, Oven)
    return made


def test_values_are_read_as_the_field_declares() -> None:
    given = read(
        "size=16", "heat=1.5", "fan-on=true", "shelf=low", "names=a, b", "file=x y", "kind=1", "many=c"
    )
    assert given == Oven(16, 1.5, True, "low", ("a", "b"), Path("x y"), "1", ("c",))
    assert read() == Oven()
    assert read("heat=none", "fan_on=False") == Oven()
    assert read("size=4", "size=5").size == 5, "the last one counts"


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("size=0", "-E size must be an integer from 1 to 64, got 0."),
        ("size=1.5", "-E size must be an integer from 1 to 64, got 1.5."),
        ("size=" + "9" * 5000, "-E size must be an integer from 1 to 64"),
        ("size=1_0", "an integer from 1 to 64, got 1_0"),
        ("size=", "got nothing"),
        ("heat=0", "-E heat must be a number above 0 and at most 300 or none, got 0.0."),
        ("heat=nan", "got nan"),
        ("fan-on=1", "-E fan-on must be true or false, got 1."),
        ("heat", "expected KEY=VALUE, for example -E size=8. -E help lists all keys."),
        ("=3", "expected KEY=VALUE"),
    ],
)
def test_a_wrong_value_names_what_is_allowed(pair: str, says: str) -> None:
    with pytest.raises(OptionError) as error:
        read(pair)
    assert says in str(error.value)


def test_a_wrong_name_lists_the_right_ones() -> None:
    with pytest.raises(
        UnknownNameError, match=r"Unknown key of -E 'fanon'\. Did you mean 'fan-on'.*Valid: fan-on, file"
    ):
        read("fanon=true")
    with pytest.raises(UnknownNameError, match="Valid: low, top"):
        read("shelf=middle")


def test_the_help_has_every_key_with_its_default_its_meaning_and_its_range() -> None:
    text = GROUP.help(Oven)
    assert "size=8 " in text
    assert "Pixels a side, of `square` images, the first. (from 1 to 64)" in text
    assert "heat=NUMBER" in text
    assert "Degrees. (above 0 and at most 300)" in text
    assert "shelf=top" in text
    assert "One of: top, low." in text


def test_a_command_gets_its_group_and_help_needs_no_other_option() -> None:
    seen: list[Any] = []
    app = typer.Typer()

    @app.command()
    @with_groups
    def bake(
        what: Annotated[str, typer.Argument()],
        *,
        oven: Annotated[Oven, GROUP],
        rest: Annotated[
            dict[str, Any], KeyGroup("-T", "rest", of=(f"{__name__}:Oven",), leave_out=("size",))
        ],
    ) -> None:
        seen.append((what, oven, rest))

    assert (
        CliRunner().invoke(app, ["bread", "-E", "size=2", "-T", "heat=9", "-E", "fan-on=true"]).exit_code == 0
    )
    assert seen == [("bread", Oven(2, fan_on=True), {"heat": 9.0})]
    shown = CliRunner().invoke(app, ["-T", "help"])
    assert shown.exit_code == 0
    assert "size" not in shown.output
    assert CliRunner().invoke(app, ["bread", "-T", "size=2"]).exit_code == 1


GROUPS = [
    (words, declared, group)
    for words, function in functions()
    for declared, group in getattr(function, "key_groups", {}).values()
]


@pytest.mark.parametrize(
    ("words", "declared", "group"),
    GROUPS,
    ids=[f"{' '.join(words)} {group.flag}" for words, _, group in GROUPS],
)
def test_every_key_of_every_command_is_explained(
    words: tuple[str, ...], declared: Any, group: KeyGroup
) -> None:
    shown = invoke([*words, group.flag, "help"])
    assert shown.code == 0, shown.err
    assert all(key.help for key in group.keys(declared).values())
    for key in group.keys(declared).values():
        assert f"  {key.shown} " in shown.out


def test_every_default_is_one_that_the_key_allows() -> None:
    for _, declared, group in GROUPS:
        for key in group.keys(declared).values():
            if key.range is not None and key.default is not None:
                assert key.range.allows(key.default), key


def test_the_command_line_stays_small() -> None:
    """The limits of parameters, ``--config`` apart: of all commands, of the largest one, and with all keys."""
    from stepscore.cli.app import app

    whole: Any = typer.main.get_command(app)
    commands = [
        command
        for name in COMMANDS
        for command in getattr(whole.commands[name], "commands", {"": whole.commands[name]}).values()
    ]
    counts = [sum(param.name != "config_file" for param in command.params) for command in commands]
    assert max(counts) <= 24
    assert sum(counts) <= 350
    keys = {(group.flag, group.what, key) for _, declared, group in GROUPS for key in group.keys(declared)}
    assert sum(counts) + len(keys) < 434


def test_an_error_of_a_key_is_one_line_with_exit_code_2(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["judge", "x", "--judge", "constant", "-o", "r", "-E", "worker=4"]) == 2
    assert capfd.readouterr().err.startswith("Error: Unknown key of -E 'worker'. Did you mean 'workers'?")


def test_options_declared_for_trainings_have_the_defaults_of_their_jobs() -> None:
    from stepscore.training.sarm import SarmTrainConfig

    (group,) = (group for words, _, group in GROUPS if words == ("train", "sarm"))
    keys = group.keys(dict)
    stated = {each.name: each.default for each in fields(SarmTrainConfig) if each.default is not MISSING}
    assert {name: keys[name].default for name in keys if name in stated}.items() <= stated.items()
    assert {"steps", "encoder", "seed"} <= set(keys)

from __future__ import annotations

import pickle

import pytest

from stepscore.errors import MissingExtraError, OptionError, UnknownNameError
from stepscore.registry import Registry


def registry() -> Registry[object]:
    return Registry("thing", {"path": "pathlib:Path", "json": "json:dumps"}, group="stepscore.no-such-group")


def test_names_are_listed_without_loading() -> None:
    things: Registry[object] = Registry("thing", {"broken": "no_such_module:x"}, group="stepscore.none")
    assert things.names() == ["broken"]
    with pytest.raises(ModuleNotFoundError):
        things.get("broken")


def test_a_name_loads_its_target() -> None:
    from pathlib import Path

    assert registry().get("path") is Path


def test_a_wrong_name_answers_with_the_closest_and_the_command() -> None:
    with pytest.raises(
        UnknownNameError, match=r"Unknown thing 'pth'. Did you mean 'path'\?.*stepscore ls things"
    ):
        registry().get("pth")


def test_a_decorator_adds_and_a_taken_name_is_refused() -> None:
    things = registry()
    things.register("mine")(42)
    assert things.get("mine") == 42
    with pytest.raises(OptionError, match="already registered"):
        things.register("json")(1)


def test_errors_survive_being_sent_to_another_process() -> None:
    error = UnknownNameError("view", "tpo", ["top"], where="episode x")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert "stepscore[hdf5]" in str(pickle.loads(pickle.dumps(MissingExtraError("HDF5", "hdf5"))))

"""The extras of the package: what they bring, and what is said where one is missing."""

from __future__ import annotations

import sys
import tomllib

import pytest

from stepscore._imports import EXTRAS, check_extra, missing_modules
from stepscore.errors import MissingExtraError
from tests.paths import ROOT

PACKAGES = {"huggingface_hub": "huggingface-hub"}
NOT_FOR_USERS = {"dev", "docs", "server", "test"}
"""Extras for contributors, and one that brings nothing."""


def requirements(extra: str) -> str:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return " ".join(declared[extra]).replace("stepscore[local]", " ".join(declared["local"]))


def test_every_extra_of_the_package_is_known_with_its_modules() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS) == set(project["optional-dependencies"]) - NOT_FOR_USERS
    for extra, modules in EXTRAS.items():
        assert all(PACKAGES.get(module, module) in requirements(extra) for module in modules), extra


def test_a_missing_module_is_found_without_importing_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    assert "peft" in missing_modules("train")
    with pytest.raises(MissingExtraError, match=r"Then: pip install 'stepscore\[train\]'"):
        check_extra("train", "LoRA training")


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_cpu_build_is_named_where_an_extra_brings_torch_and_nowhere_else(extra: str) -> None:
    message = str(MissingExtraError("This", extra))
    assert f"pip install 'stepscore[{extra}]'" in message
    assert ("CPU build of torch" in message) == ("torch" in EXTRAS[extra])

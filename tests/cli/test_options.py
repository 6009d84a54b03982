from __future__ import annotations

from pathlib import Path
from typing import Optional

import pytest

from stepscore.cli.options import open_model, read_pairs
from stepscore.errors import OptionError
from stepscore.judges import judge_registry
from stepscore.judges.topreward import TopReward


def test_numbers_and_words_are_read_as_what_they_are() -> None:
    given = ["points=16", "clip=True", "size=none", 'words=["a", "b"]', "max-frames=8", "path=x.csv"]
    assert read_pairs(given, "-J") == {
        "points": 16,
        "clip": True,
        "size": None,
        "words": ["a", "b"],
        "max_frames": 8,
        "path": "x.csv",
    }


def test_what_is_declared_as_text_stays_text() -> None:
    given = ["target=True", "other=False", "prefixes=4", "size=None", "calibration=None", "form=chat"]
    found = read_pairs(given, "-J", TopReward)
    assert found == {
        "target": "True",
        "other": "False",
        "prefixes": 4,
        "size": None,
        "calibration": None,
        "form": "chat",
    }
    assert read_pairs(["column=3", "scale=3"], "-J", judge_registry.get("recorded")) == {
        "column": "3",
        "scale": 3,
    }


def test_types_are_read_as_well_as_their_text() -> None:
    def make(a: str, b: Optional[str], c: Path, d: float | str, e: int = 0) -> None: ...  # noqa: UP045

    make.__annotations__ = {"a": str, "b": Optional[str], "c": Path, "d": float | str, "e": int}  # noqa: UP045
    given = ["a=1", "b=2", "c=3", "d=4", "e=5"]
    assert read_pairs(given, "-J", make) == {"a": "1", "b": "2", "c": "3", "d": 4, "e": 5}
    assert read_pairs(["a=none", "b=none"], "-J", make) == {"a": "none", "b": None}


def test_the_words_of_a_models_options_stay_words() -> None:
    assert open_model("mock/x", ["scores=none", "served=true"], None).capabilities.scores == "none"
    with pytest.raises(OptionError, match="Invalid model string"):
        open_model("mokc/x", ["scores=none"], None)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("openai/gpt-4o", "openai-api/gpt-4o"),
        ("huggingface/Qwen/Q", "hf/Qwen/Q"),
        ("vlm/x", "vllm/x"),
        ("embed", "embedded"),
    ],
)
def test_a_model_string_of_another_tool_or_a_slip_names_the_one_that_was_meant(
    written: str, meant: str
) -> None:
    with pytest.raises(OptionError, match=f"Did you mean '{meant}'\\?"):
        open_model(written, [], None)

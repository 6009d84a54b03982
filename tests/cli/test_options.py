from __future__ import annotations

from pathlib import Path
from typing import Optional

import pytest

from stepscore.cli.key_values import read_pairs
from stepscore.cli.main import run
from stepscore.cli.options import open_model
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
    assert open_model("mock/x", ["scores=none", "served=true"]).capabilities.scores == "none"
    with pytest.raises(OptionError, match="Invalid model string"):
        open_model("mokc/x", ["scores=none"])


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
        open_model(written, [])


def test_an_id_of_the_hub_names_the_two_backends_that_run_it() -> None:
    with pytest.raises(OptionError, match=r"Did you mean 'hf/Qwen/Qwen3-VL-8B-Instruct'.*'vllm/Qwen/Qwen3"):
        open_model("Qwen/Qwen3-VL-8B-Instruct", [])


def test_options_of_code_that_is_not_ours_are_checked_by_their_declared_type() -> None:
    def make(frames: int = 4, scale: float | None = None, loud: bool = False, other: object = 1) -> None: ...

    given = ["frames=8", "scale=2", "loud=true", "other=x"]
    assert read_pairs(given, "-J", make) == {"frames": 8, "scale": 2, "loud": True, "other": "x"}
    assert read_pairs(["scale=none"], "-J", make) == {"scale": None}
    for wrong, takes in {
        "frames=four": "an integer",
        "frames=1.5": "an integer",
        "frames=true": "an integer",
        "scale=x": "none or a number",
        "loud=1": "true or false",
    }.items():
        with pytest.raises(
            OptionError, match="-J {} must be {takes}, got {}".format(*wrong.split("="), takes=takes)
        ):
            read_pairs([wrong], "-J", make)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["judge", "x", "--judge", "linear-time", "--limit", "two", "-o", "r"],
            "'two' is not an integer",
        ),
        (["metrics", "x", "--done-at", "all"], "'all' is not a number"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(
    words: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert said in capfd.readouterr().err


class TestWhereItWrites:
    """What cannot be written is refused before a source is opened: none of these sources exists."""

    @pytest.mark.parametrize("below", ["", "run"])
    @pytest.mark.parametrize(
        "words",
        [
            ["judge", "nowhere", "--judge", "linear-time"],
            ["report", "nowhere"],
            ["plot", "nowhere"],
            ["demo"],
            ["sim"],
            ["train", "sarm", "nowhere"],
        ],
    )
    def test_a_folder_that_is_a_file_or_below_one(
        self, words: list[str], below: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "file"
        file.touch()
        assert run([*words, "-o", str(file / below)]) == 2
        said = capfd.readouterr().err
        assert f"{file} is a file, not a folder" in said
        assert len(said.splitlines()) == 1

    @pytest.mark.parametrize(
        "words",
        [
            ["plan", "lift it", "--model", "mock/x", "--force"],
            ["calibrate", "nowhere"],
            ["annotate", "nowhere", "--model", "mock/x"],
            ["progress-labels", "nowhere"],
            ["weights", "nowhere", "--method", "filter"],
        ],
    )
    def test_a_file_that_is_a_folder(
        self, words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert run([*words, "-o", str(tmp_path)]) == 2
        assert "that is a folder. Name the file to write." in capfd.readouterr().err


def test_the_embedded_judge_does_not_plan(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "lift it", "--model", "embedded", "-o", str(tmp_path / "s.yaml")]) == 2
    assert "trained to judge, not to plan" in capfd.readouterr().err

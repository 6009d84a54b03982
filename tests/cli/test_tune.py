"""``stepscore tune`` as a user meets it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import stepscore
from stepscore.cli.key_values import read_over
from stepscore.cli.main import run
from stepscore.errors import OptionError
from stepscore.judges import StepEval


def line(toys: Path, out: Path, *more: str) -> list[str]:
    return ["tune", str(toys), "--judge", "random-monotone", "-o", str(out), *more]


@pytest.fixture(scope="module")
def tuned(toys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tune") / "out"
    more = [
        "points=4,8",
        "seed=1,2",
        "-J",
        "points=16",
        "-T",
        "metric=success-auc",
        "--views",
        "main",
    ]
    views = {name for episode in stepscore.open_episodes(toys) for name in episode.views}
    more[-1] = ",".join(views)
    assert run([str(word) for word in line(toys, out, *more)]) == 0
    return out


def test_words_after_over_are_values_too(tuned: Path) -> None:
    stored = json.loads((tuned / "tuned.json").read_text())
    names = [trial["trial"] for trial in stored["trials"]]
    assert names == ["default", *(f"points={p},seed={s}" for p in (4, 8) for s in (1, 2))]
    assert {path.name for path in (tuned / "trials").iterdir()} == set(names)


def test_the_printed_command_judges_as_the_chosen_trial_did(
    tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = json.loads((tuned / "tuned.json").read_text())
    words = shlex.split(stored["command"])
    assert words[0] == "stepscore"
    words[words.index("RUN")] = str(tmp_path / "run")
    assert run(words[1:]) == 0, capsys.readouterr().err
    judged = stepscore.open_run(tmp_path / "run")
    trial = stepscore.open_run(tuned / "trials" / stored["chosen"])
    assert judged.protocol.hash == trial.protocol.hash
    rows = {row["episode_id"]: row["success_score"] for row in judged.judgements().to_pylist()}
    for row in trial.judgements().to_pylist():
        assert rows[row["episode_id"]] == row["success_score"]


def test_tables_fit_eighty_columns(
    toys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(line(toys, tmp_path / "o", "points=4,8", "seed=1,2")) == 0
    printed = capsys.readouterr()
    assert max(map(len, printed.out.splitlines())) <= 80
    assert "Pareto front" in " ".join(printed.out.split())
    assert "To judge as chosen: stepscore judge" in printed.err
    assert "5 trials (4 combinations)" in printed.err


def test_a_dry_run_sends_and_writes_nothing(
    toys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", str(toys), "--judge", "gvl", "--model", "mock/x", "frames=4,8", "--dry-run"]
    assert run([*words, "-o", str(tmp_path / "o"), "-E", "price-in=1", "-E", "price-out=1"]) == 0
    printed = capsys.readouterr().out
    assert "3 trials" in printed
    assert "calls" in printed
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ([], "nothing to tune"),
        (["point=4"], "Did you mean 'points'"),
        (["points"], "2 are a source"),
        (["points="], "expected OPTION=A,B"),
        (["points=,"], "expected OPTION=A,B"),
        (["=4"], "2 are a source"),
        (["points=4", "points=8"], "given twice"),
        (["points=4", "other-folder"], "2 are a source"),
        (["points=-1"], "points=-1"),
        (["points=nan"], "points"),
        (["views=nowhere"], "nowhere"),
        (["model=a,b"], "of one model"),
        (["points=4", "-T", "metric=success-acu"], "Did you mean 'success-auc'"),
        (["points=4", "-T", "metric=subgoal-f1"], "label of subgoal"),
        (["points=4", "-T", "share=0"], "share"),
        (["points=4", "-T", "rewrite=2"], "takes none"),
        (["points=4", "-T", "rewrite=51"], "51"),
        (["points=4", "-T", "max-trials=0"], "0"),
        ([f"points={','.join(map(str, range(2, 1500)))}"], "1498 combinations"),
    ],
)
def test_a_mistake_is_one_line(
    more: list[str], why: str, toys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line(toys, tmp_path / "out", *more)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (said,) = printed.err.splitlines()
    assert said.startswith("Error: ")
    assert why in said
    assert not (tmp_path / "out").exists()


def test_values_are_read_by_what_the_option_declares(tmp_path: Path) -> None:
    over = ["frames=8,16,8", "size=null,224", "template=default,True.txt", "reason=true,false", "fps=1.5"]
    source, values = read_over(["s", 'words=["Yes","No"],["A","B"]', "views=top,top+wrist", *over], StepEval)
    assert source == "s"
    assert values == {
        "frames": [8, 16],
        "size": [None, 224],
        "template": ["default", "True.txt"],
        "reason": [True, False],
        "fps": [1.5],
        "words": [["Yes", "No"], ["A", "B"]],
        "views": [["top"], ["top", "wrist"]],
    }
    odd = tmp_path / "a=b"
    odd.mkdir()
    assert read_over(["frames=4", str(odd)], StepEval) == (str(odd), {"frames": [4]})
    with pytest.raises(OptionError, match="none is a source"):
        read_over(["frames=4"], StepEval)

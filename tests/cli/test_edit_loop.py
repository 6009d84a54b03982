"""Writing a judge or reader in a file: what fails is named with its line, and the corrected file is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscore.cli.main import run
from stepscore.runs import open_run

JUDGE = """
import numpy as np
from stepscore.types import Curve, Judgement

class Mine:
    name, version, models = "mine", 1, ()

    def options(self):
        return {}

    async def judge(self, episode, ask):
        clip = episode.clip(count=2, size=16)
        return Judgement(Curve(clip.timestamps, np.zeros(len(clip.timestamps))))
"""
ASKING = """
import json
from dataclasses import dataclass
from stepscore.judges import SingleModelJudge
from stepscore.models import Generate, Model, Prompt, Turn
from stepscore.types import Judgement

@dataclass(frozen=True)
class Mine(SingleModelJudge):
    model: Model
    name = "mine"
    version = 1

    def options(self):
        return {}

    async def judge(self, episode, ask):
        answer = await ask(Generate(Prompt((Turn("user", ("Done?",)),))))
        return Judgement(success_score=json.loads(answer.text)["score"])
"""
READER = """
from dataclasses import dataclass
from pathlib import Path
from stepscore.episodes import Episode, Listing
from stepscore.episodes.video import VideoView

class Torn(VideoView):
    def read(self, *args, **options):
        return self.table()["frames"]

    def table(self):
        return {}

class Reader:
    def matches(self, path):
        return False

    def read(self, path, options):
        videos = sorted(Path(path).rglob("*.mp4"))
        return Listing([Episode(id=v.stem, instruction="push", views={"main": Torn(v)}) for v in videos[:2]])
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(JUDGE, encoding="utf-8")
    return file


def broken(code: str, line: str) -> str:
    return code.replace(line, "raise KeyError('gone')")


def judge(toys: Path, mine: Path, out: Path, *more: str) -> int:
    return run(["judge", str(toys), "--judge", f"{mine}:Mine", "--limit", "2", "-o", str(out), *more])


def line_of(code: str, text: str) -> int:
    return next(number for number, line in enumerate(code.splitlines(), 1) if text in line)


def test_a_corrected_judge_is_judged_by_the_same_command(
    toys: Path, mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    mine.write_text(broken(JUDGE, "clip = episode.clip(count=2, size=16)"))
    assert judge(toys, mine, out) == 1
    first = open_run(out).protocol.hash
    mine.write_text(JUDGE)
    capfd.readouterr()
    assert judge(toys, mine, out, "--limit", "1") == 0
    assert "Warning" not in capfd.readouterr().err, "nobody has cut the journal"
    made = open_run(out)
    assert made.protocol.hash != first
    assert made.judgements().num_rows == 1, "of the start that judged nothing nothing is left"
    assert made.judgements().column("error").null_count == 1


def test_what_was_judged_is_kept_and_the_message_says_why_and_names_a_free_folder(
    toys: Path, mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    (tmp_path / "run-2").mkdir()
    assert judge(toys, mine, out) == 0
    kept = (out / "journal.jsonl").read_bytes()
    mine.write_text(JUDGE + "# edited\n")
    assert judge(toys, mine, out) == 2
    said = capfd.readouterr().err.strip().splitlines()[-1]
    assert "holds 2 judged episodes of another protocol" in said
    assert "mine.py was edited" in said
    assert f"-o {out}-3" in said
    assert (out / "journal.jsonl").read_bytes() == kept


def test_a_folder_that_another_process_writes_is_not_cleared(
    toys: Path, mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from stepscore.runs.journal import Journal

    out = tmp_path / "run"
    mine.write_text(broken(JUDGE, "clip = episode.clip(count=2, size=16)"))
    assert judge(toys, mine, out) == 1
    kept = (out / "journal.jsonl").read_bytes()
    mine.write_text(JUDGE)
    with Journal(out / "journal.jsonl"):
        assert judge(toys, mine, out) == 2
    assert "Another process is writing" in capfd.readouterr().err
    assert (out / "journal.jsonl").read_bytes() == kept


def test_a_fault_in_a_reader_names_its_own_line_and_not_the_judges(
    toys: Path, mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = tmp_path / "reader.py"
    reader.write_text(READER)
    assert judge(toys, mine, tmp_path / "run", "--reader", f"{reader}:Reader") == 1
    said = capfd.readouterr().err
    assert f"KeyError: 'frames' (reader.py, line {line_of(READER, 'self.table()')})" in said
    assert "mine.py" not in said


@pytest.mark.parametrize("workers", ["1", "2"])
def test_traceback_shows_the_whole_of_what_became_a_row(
    toys: Path, mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], workers: str
) -> None:
    mine.write_text(broken(JUDGE, "clip = episode.clip(count=2, size=16)"))
    words = ["judge", str(toys), "--judge", f"{mine}:Mine", "--limit", "2", "-o", str(tmp_path / "run")]
    assert run(["--traceback", *words, "-E", f"workers={workers}"]) == 1
    said = capfd.readouterr().err
    assert f'{mine}", line {line_of(JUDGE, "clip = ")}, in judge' in said
    if workers == "1":
        assert said.count("in judge\n") == 1, "equal ones are printed once"
    assert run(words) == 1
    assert "Traceback" not in capfd.readouterr().err


def test_a_reader_that_fails_while_it_lists_is_no_bug_of_the_product(
    toys: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = tmp_path / "reader.py"
    body = 'videos = sorted(Path(path).rglob("*.mp4"))'
    reader.write_text(broken(READER, body))
    assert run(["inspect", str(toys), "--reader", f"{reader}:Reader"]) == 2
    said = capfd.readouterr().err.strip().splitlines()
    assert f"KeyError: 'gone' (reader.py, line {line_of(READER, body)})" in said[-1]
    assert "bug" not in said[-1]


def test_a_judge_that_cannot_be_made_names_its_line(
    toys: Path, mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mine.write_text(JUDGE.replace("return {}", "return 1 / 0"))
    assert judge(toys, mine, tmp_path / "run") == 2
    said = capfd.readouterr().err.strip().splitlines()
    assert f"ZeroDivisionError: division by zero (mine.py, line {line_of(JUDGE, 'return {}')})" in said[-1]
    assert "bug" not in said[-1]


def test_a_dry_run_of_a_judge_that_cannot_read_an_empty_answer_says_so(
    toys: Path, mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mine.write_text(ASKING, encoding="utf-8")
    words = ["--model", "mock/x", "--dry-run", "-E", "cache=false"]
    assert judge(toys, mine, tmp_path / "run", *words) == 0
    said = capfd.readouterr()
    assert "2 episodes, 0 of which cannot be judged\n2 calls, 0 of which are in the cache" in said.out
    line = line_of(ASKING, "json.loads")
    assert "could not parse the empty answer that replaces the model's (JSONDecodeError" in said.out
    assert f"(mine.py, line {line})): a real run may make more calls" in said.out
    assert "bug" not in said.err

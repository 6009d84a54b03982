"""A template is chosen on one split and reported on another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepscore.analysis.template_choice import choose_template
from stepscore.episodes import Episode
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.errors import OptionError, RunError
from stepscore.judges.stepeval import StepEval
from stepscore.models import Request
from stepscore.models.mock import MockModel
from stepscore.runs.run import Run
from tests.fakes import FakeView, episode
from tests.judges.asked import run_judge, text_of

GOALS = (Subgoal("grasp"), Subgoal("place"))


def labelled(n: int, pair: str | None = None) -> Episode:
    """Episode n; grasp is true when n is even, place never."""
    rows = (Label("subgoal", "grasp", value=float(n % 2 == 0)), Label("subgoal", "place", value=0.0))
    return episode(
        f"e{n:03d}",
        instruction=f"task {n}",
        views={"top": FakeView(4, mark=str(n))},
        subgoals=GOALS,
        labels=Labels(rows),
        pair=pair,
    )


def judged(out: Path, template: str, wrong: float, subjects: list[Episode]) -> Run:
    """A run whose verdicts are wrong in a share of the episodes, and unknown for place in episode 0."""
    rng = np.random.default_rng(len(template))
    flips = {f"task {n}": rng.uniform() < wrong for n in range(len(subjects))}

    def script(request: Request) -> str:
        instruction = text_of(request).split('told: "')[1].split('"')[0]
        n = int(instruction.split()[1])
        grasp = (n % 2 == 0) != flips[instruction]
        place = "unknown" if n == 0 else ("yes" if flips[instruction] else "no")
        return (
            f'[{{"number": 1, "answer": "{"yes" if grasp else "no"}"}}, {{"number": 2, "answer": "{place}"}}]'
        )

    judge = StepEval(MockModel("m", script=script), template=template, frames=2)
    return run_judge(judge, subjects, out / template)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    subjects = [labelled(n) for n in range(60)]
    out = tmp_path_factory.mktemp("runs")
    return [judged(out, name, wrong, subjects) for name, wrong in [("default", 0.4), ("strict", 0.1)]]


def test_the_better_template_is_chosen_and_reported_on_other_episodes(runs: list[Run]) -> None:
    choice = choose_template(runs)
    assert choice.best.template == "strict"
    for result in choice.results:
        assert result.chosen_by.n == result.reported.n == 60
        assert result.reported.clusters == 30
    assert choice.best.reported.lo < choice.best.reported.value < choice.best.reported.hi
    assert choice.left_out == 0


def test_its_numbers_are_plain_counts(runs: list[Run]) -> None:
    labels = {
        (e["episode_id"], g["name"]): "yes" if g["label"] else "no"
        for e in runs[0].episodes().to_pylist()
        for g in e["subgoals"]
    }
    for run, result in zip(runs, choose_template(runs).results, strict=True):
        right = [labels[r["episode_id"], r["subgoal"]] == r["answer"] for r in run.verdicts().to_pylist()]
        both = [result.chosen_by, result.reported]
        assert sum(e.value * e.n for e in both) == pytest.approx(sum(right))
        assert sum(e.coverage * e.n for e in both) == pytest.approx(119)  # one verdict of 120 is unknown


def test_the_split_follows_the_seed_and_not_the_order_of_runs(runs: list[Run]) -> None:
    assert choose_template(runs).best == choose_template(runs[::-1]).best
    values = {choose_template(runs, seed=seed).best.reported.value for seed in range(5)}
    assert len(values) > 1


def test_scenes_stay_together(tmp_path: Path) -> None:
    subjects = [labelled(n, pair=f"scene {n // 10}") for n in range(40)]
    runs = [judged(tmp_path, name, 0.3, subjects) for name in ("default", "strict")]
    choice = choose_template(runs)
    assert choice.best.chosen_by.n % 20 == 0
    assert choice.best.chosen_by.clusters + choice.best.reported.clusters == 4


def test_what_cannot_be_chosen_says_why(runs: list[Run], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="at least two runs"):
        choose_template(runs[:1])
    with pytest.raises(OptionError, match="share is 1"):
        choose_template(runs, share=1)
    unlabelled = judged(tmp_path, "evidence", 0.0, [episode("other", instruction="task 0", subgoals=GOALS)])
    with pytest.raises(RunError, match="No episode with subgoal labels is in all"):
        choose_template([*runs, unlabelled])


def test_the_command_prints_the_choice(runs: list[Run], capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from stepscore.cli.judging.choose_template import choose_template as command

    paths = [run.path for run in runs]
    command(paths, json=True)
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 4
    assert [(r["template"], r["split"]) for r in rows if r["chosen"]] == [
        ("strict", "choose"),
        ("strict", "report"),
    ]
    command(paths)
    printed = capsys.readouterr().out
    assert "strict *" in printed
    assert "reporting" in printed

"""TOPReward's own tables: the paper's scores, by an independent count; a cell without a number says why."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from stepscore.audit.board import (
    BenchmarkParts,
    Opened,
    bench,
    open_benchmark,
    open_entries,
    topreward_cells,
    topreward_entries,
    topreward_tables,
)
from stepscore.audit.board.topreward import TableCell
from stepscore.errors import CapabilityError
from stepscore.judges import TopReward, get_judge
from stepscore.models import Answer, DecodedMedia, PrefixScores, Request, Response, ScorePrefixes
from stepscore.models.mock import MockModel
from stepscore.runs import Run, open_run
from tests.audit.board.scripted import LABELS, SUBGOALS
from tests.paths import TINY_SIM


def answer(request: Request) -> object:
    """Numbers that differ between videos, prefixes and words; no answer in form chat."""
    assert isinstance(request, ScorePrefixes)
    if request.prompts[0].template == "chat":
        raise CapabilityError("the word is several tokens.")
    assert isinstance(request.video, DecodedMedia)
    words = sum(map(ord, "".join(request.candidates)))
    rng = np.random.default_rng([words, int(request.video.clip.frames.sum())])
    shape = (len(request.prompts), len(request.lengths), len(request.candidates))
    return np.log(rng.uniform(0.01, 1, shape))


class Scripted(MockModel):
    async def answer(self, request: Request) -> Response:
        if isinstance(request, ScorePrefixes):
            return PrefixScores(np.asarray(answer(request)), tokens_in=5)
        return Answer("no idea", tokens_in=5, tokens_out=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[TableCell], Path]:
    folder = tmp_path_factory.mktemp("topreward")
    parts = BenchmarkParts(str(TINY_SIM), "tiny", labels=LABELS, subgoals=SUBGOALS)
    entries = topreward_entries([("mock/x", {})])
    judges = [Opened(e, get_judge(e.judge, **{**e.options, "model": Scripted("x")})) for e in entries]
    board = bench(open_benchmark(parts), [*judges, *open_entries([])], folder)
    return topreward_cells(board, folder, "mock/x"), folder


def cell(cells: list[TableCell], table: str, row: str, column: str) -> TableCell:
    (found,) = [c for c in cells if (c.table, c.row, c.column) == (table, row, column)]
    return found


def naive(run: Run, channel: str) -> tuple[float, float]:
    """VOC of the successes and AUC of the mean of the last three values, by loops."""
    curves: dict[str, list[float]] = {}
    for row in run.curves().to_pylist():
        curves.setdefault(row["episode_id"], []).append(row[channel])
    success = {row["episode_id"]: row["success"] for row in run.episodes().to_pylist()}
    vocs = [spearmanr(curve, range(len(curve))).statistic for name, curve in curves.items() if success[name]]
    scores = {name: float(np.mean(curve[-3:])) for name, curve in curves.items()}
    won = [
        (scores[a] > scores[b]) + 0.5 * (scores[a] == scores[b])
        for a, b in itertools.product(scores, scores)
        if success[a] and not success[b]
    ]
    return float(np.mean(vocs)), float(np.mean(won))


@pytest.mark.parametrize(
    ("table", "row", "folder"),
    [
        ("Target words", "True / False", "topreward@mock-x-*"),
        ("Prompt forms", "upstream", "topreward@mock-x-*"),
        ("Prompt forms", "paper", "topreward-form=paper*"),
        ("Target words", "Yes / No", "topreward-target=yes-other=no@mock-x-*"),
    ],
)
def test_voc_and_auc_are_those_of_the_papers_scores(
    made: tuple[list[TableCell], Path], table: str, row: str, folder: str
) -> None:
    cells, board = made
    runs = [open_run(path / "recorded") for path in sorted((board / "runs").glob(folder))]
    wanted = [naive(run, "logp_true") for run in runs]
    voc, auc = (cell(cells, table, row, column).estimate for column in ("VOC", "AUC"))
    assert voc is not None
    assert auc is not None
    assert any((voc.value, auc.value) == pytest.approx(one) for one in wanted)


def test_the_instructions_own_tokens_are_scored_by_their_mean_log_likelihood(
    made: tuple[list[TableCell], Path],
) -> None:
    cells, board = made
    (folder,) = (board / "runs").glob("topreward-variant=instruction*")
    voc = cell(cells, "Prompt forms", "instruction's own tokens", "VOC").estimate
    assert voc is not None
    assert voc.value == pytest.approx(naive(open_run(folder / "recorded"), "raw")[0])


def test_a_cell_that_cannot_be_measured_says_why(made: tuple[list[TableCell], Path]) -> None:
    cells, _ = made
    chat = cell(cells, "Prompt forms", "chat", "VOC")
    assert chat.estimate is None
    assert chat.reason == "the word is several tokens."
    gvl = cell(cells, "VOC by dataset", "all", "gvl")
    assert gvl.estimate is None
    assert gvl.reason == "no answer of the model can be read as a score"
    assert chat.to_dict()["value"] is None
    assert json.loads(json.dumps(chat.to_dict()))["group"]["row"] == "chat"
    text = " ".join(note for table in topreward_tables(cells) for note in table.notes)
    assert "chat: unknown. the word is several tokens." in text


def test_published_figures_stand_below_the_tables_and_are_marked(made: tuple[list[TableCell], Path]) -> None:
    cells, _ = made
    tables = {table.title: " ".join(table.notes) for table in topreward_tables(cells)}
    assert set(tables) == {
        f"{name}, mock/x" for name in ("VOC by dataset", "Success AUC", "Target words", "Prompt forms")
    }
    assert (
        "measured by others on other data. topreward: 0.857 Qwen3-VL-8B" in tables["VOC by dataset, mock/x"]
    )
    assert "0.500" in tables["Prompt forms, mock/x"]
    assert "others on other data" not in tables["Target words, mock/x"]


def test_voc_is_by_task_where_there_is_one_dataset(made: tuple[list[TableCell], Path]) -> None:
    cells, _ = made
    rows = [c for c in cells if c.table == "VOC by dataset" and c.column == "linear-time"]
    assert [c.row for c in rows] == [
        "all",
        "insert the peg into the hole in the side of the box",
        "open the drawer",
        "pick up the puck and bring it to the mark",
    ]
    assert all(c.estimate is not None and c.estimate.value == 1.0 for c in rows)
    assert rows[0].estimate is not None
    assert math.isnan(rows[0].estimate.lo)  # all equal: no interval


def test_the_entries_are_one_of_each_form_and_each_pair_of_words_for_every_model() -> None:
    entries = topreward_entries([("embedded", {}), ("vllm/x", {})])
    assert len({entry.label for entry in entries}) == len(entries) == 2 * 8
    judge = get_judge("topreward", model=MockModel("-1"))
    assert isinstance(judge, TopReward)
    assert (judge.form, judge.target, judge.other) == ("upstream", "True", "False")  # the plain entry

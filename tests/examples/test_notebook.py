"""The notebook of examples/ runs from a clean kernel, and shows its tables and figures inline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from stepscore.analysis import measure
from tests.paths import ROOT

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("matplotlib")
pytest.importorskip("pandas")
NOTEBOOK = ROOT / "examples" / "python_api.ipynb"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def outputs(folder: Path) -> dict[str, dict[str, Any]]:
    """What each code cell shows, by the first line that is not an import: MIME type to content."""
    given = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        given, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=dict(os.environ))
    shown: dict[str, dict[str, Any]] = {}
    for cell in given.cells:
        if cell.cell_type == "code":
            data = shown.setdefault(cell.source.splitlines()[-1], {})
            for output in cell.outputs:
                data |= output.get("data", {})
                if output.output_type == "stream":
                    assert output.name == "stdout", output.text
                    data["stdout"] = data.get("stdout", "") + output.text
    return shown


def test_it_is_kept_without_outputs() -> None:
    cells = [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    assert len(cells) > 10
    assert not any(cell.outputs or cell.execution_count for cell in cells)


def test_every_figure_is_shown_inline(outputs: dict[str, dict[str, Any]]) -> None:
    figures = [data for line, data in outputs.items() if line.startswith("stepscore.draw(")]
    assert len(figures) == 6
    assert all("image/png" in data for data in figures)


def test_tables_are_shown_inline_with_the_numbers_of_the_run(
    outputs: dict[str, dict[str, Any]], folder: Path
) -> None:
    rows = measure(folder / "runs" / "topreward", metrics=["MP"]).to_pandas()
    for policy in ("drop", "expert", "hesitate", "undo"):
        assert policy in outputs["table"]["text/html"]
    (best,) = rows.query("policy == 'expert' and metric == 'MP'")["value"]
    assert f"{100 * best:.1f}" in outputs["table"]["text/html"]
    assert "\\toprule" in outputs["print(table.to_latex())"]["stdout"]
    assert "runs/topreward" in outputs["run"]["text/html"]


def test_the_worst_failure_and_the_trust_in_the_judge_are_said(outputs: dict[str, dict[str, Any]]) -> None:
    assert "undone at" in outputs["    print(failure.episode_id, failure.policy, failure.text)"]["stdout"]
    assert "can be trusted" in outputs["print(findings.trust.text)"]["stdout"]


def test_its_report_is_written(outputs: dict[str, dict[str, Any]], folder: Path) -> None:
    assert outputs
    assert (folder / "report" / "index.html").stat().st_size > 100_000

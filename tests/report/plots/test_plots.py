"""Figures show the run's own Estimates and nothing else."""

from __future__ import annotations

import math
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import stepscore
from stepscore.analysis import grouped_estimates, measure_episodes
from stepscore.analysis.subgoals import subgoal_tables
from stepscore.cli.app import app
from stepscore.episodes import Episode, Label, Labels, Subgoal
from stepscore.errors import MissingExtraError, OptionError, RunError, UnknownNameError
from stepscore.judges.base import Ask
from stepscore.models import Model
from stepscore.report.figures import grouping, plot
from stepscore.report.plots.curve_bands import median_band
from stepscore.report.plots.curves import MAX_CURVES, curve_grid, draw_curves
from stepscore.report.plots.leaderboard import METRICS, draw_leaderboard, leaderboard
from stepscore.report.plots.style import fit_lines, group_style, paper_style
from stepscore.report.plots.subgoals import draw_vectors, task_vectors
from stepscore.runs import Run
from stepscore.types import Curve, Judgement, Verdict
from tests.fakes import episode

GOALS = (Subgoal("the hand is at the handle"), Subgoal("the drawer is open"))
TIMES = np.arange(0.25, 5.0, 0.5)


@dataclass
class FixedJudge:
    """Knows each episode's curve from its metadata."""

    name: str = "fixed"
    version: int = 1
    models: tuple[Model, ...] = ()
    verdicts: bool = True

    def options(self) -> dict[str, object]:
        return {"verdicts": self.verdicts}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        top = float(episode.metadata["top"])  # type: ignore[arg-type]
        if math.isnan(top):
            return Judgement()
        progress = np.minimum(TIMES / 4.0, top)
        verdicts = (
            Verdict(GOALS[0].name, "yes", 0.9, 1.0, "seen"),
            Verdict(GOALS[1].name, "unknown" if top == 0.3 else "yes" if top > 0.8 else "no"),
        )
        return Judgement(Curve(TIMES, progress), verdicts if self.verdicts else ())


def labels(*, success: bool) -> Labels:
    goal = (Label("subgoal", g.name, value=float(success or k == 0)) for k, g in enumerate(GOALS))
    return Labels((Label("success", "holds", value=float(success)), *goal))


def made(policy: str, number: int, top: float, **fields: object) -> Episode:
    known: dict[str, object] = {
        "policy": policy,
        "task": "open the drawer",
        "subgoals": GOALS,
        "metadata": {"top": top},
    }
    known |= {"pair": f"scene {number}", "labels": labels(success=top == 1.0)}
    return episode(f"{policy}_{number}", **{**known, **fields})


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    tops = {"bold": (1.0, 1.0, 1.0, 0.4), "shy": (1.0, 0.3, 0.3, 0.5), "lone": (math.nan,)}
    episodes = [made(policy, k, top) for policy, row in tops.items() for k, top in enumerate(row)]
    return stepscore.score(episodes, FixedJudge(), tmp_path_factory.mktemp("runs") / "fixed")


@pytest.fixture(scope="session")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Another judge, without verdicts, on an episode without labels."""
    alone = made("bold", 0, 0.7, labels=Labels())
    return stepscore.score(
        [alone], FixedJudge("silent", verdicts=False), tmp_path_factory.mktemp("runs") / "silent"
    )


def marks(axes: Any) -> tuple[list[tuple[float, float]], list[tuple[float, float, float]]]:
    """The dots (x, y) and the intervals (from, to, y) of a panel."""
    lines = [(line.get_xdata(), line.get_ydata()) for line in axes.lines if line.get_color() != "#D9D9D9"]
    dots = [(float(x[0]), float(y[0])) for x, y in lines if len(x) == 1]
    return dots, [(float(x[0]), float(x[1]), float(y[0])) for x, y in lines if len(x) == 2]


class TestLeaderboard:
    def test_every_dot_and_interval_is_the_estimate_of_metrics(self, run: Run) -> None:
        measures = measure_episodes(run)
        printed = {(m.group["policy"], m.metric): m.estimate for m in grouped_estimates(measures, ["policy"])}
        with paper_style():
            shown = leaderboard(measures, ["policy"])
            figure = draw_leaderboard(shown)
        assert [column.name for column in shown.columns] == list(METRICS)
        for axes, column in zip(figure.axes, shown.columns, strict=False):
            expected = [printed[row.name, column.name] for row in shown.rows]
            dots, intervals = marks(axes)
            assert dots == [(100 * e.value, y) for y, e in enumerate(expected) if not math.isnan(e.value)]
            assert intervals == [
                (100 * e.lo, 100 * e.hi, y) for y, e in enumerate(expected) if math.isfinite(e.lo)
            ]

    def test_the_best_comes_first_and_the_unknown_last(self, run: Run) -> None:
        shown = leaderboard(measure_episodes(run), ["policy"], ["MP"])
        assert [row.name for row in shown.rows] == ["bold", "shy", "lone"]
        assert leaderboard(measure_episodes(run), ["policy"], ["STR"]).rows[0].name == "bold"

    def test_an_unknown_value_is_a_word_and_not_a_dot_at_zero(self, run: Run) -> None:
        with paper_style():
            (axes,) = draw_leaderboard(leaderboard(measure_episodes(run), ["policy"], ["MP"])).axes
        assert len(marks(axes)[0]) == 2
        assert [text.get_text() for text in axes.texts] == ["unknown"]

    def test_rows_say_how_many_episodes_they_are_of(self, run: Run) -> None:
        with paper_style():
            figure = draw_leaderboard(leaderboard(measure_episodes(run), ["policy"]))
        names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert names == ["bold (4)", "shy (4)", "lone (1)"]

    def test_a_wrong_metric_lists_the_valid_ones(self, run: Run) -> None:
        with pytest.raises(UnknownNameError, match="Did you mean 'PPL'"):
            leaderboard(measure_episodes(run), ["policy"], ["PPI"])


class TestVectors:
    def test_dots_are_the_subgoal_tables_by_judge_and_by_label_apart(self, run: Run) -> None:
        tables = subgoal_tables(run, ["policy"])
        with paper_style():
            tasks, groups = task_vectors(tables)
            (figure,) = draw_vectors(tasks, groups)
        assert groups == ["bold", "lone", "shy"]
        for axes, source in zip(figure.axes, ("judge", "label"), strict=True):
            expected = {
                (round(100 * e.value, 6), y, groups.index(str(made.group["policy"])))
                for made in tables
                if made.source == source
                for y, e in enumerate(made.reached)
                if e.n
            }
            dots = {
                (round(x, 6), round(y), round(2 * ((y - round(y)) / 0.7 + 0.5))) for x, y in marks(axes)[0]
            }
            assert dots == expected

    def test_many_tasks_go_to_several_pages(self, run: Run) -> None:
        tasks, groups = task_vectors(subgoal_tables(run, ["policy"]))
        with paper_style():
            pages = list(draw_vectors(tasks * 20, groups))
        assert sum(len(page.axes) for page in pages) == 40
        assert all(page.get_size_inches()[1] < 10 for page in pages)

    def test_a_dot_says_how_many_are_behind_it(self, run: Run) -> None:
        with paper_style():
            (figure,) = draw_vectors(*task_vectors(subgoal_tables(run, ["policy"])))
        assert "n = 1…4" in [text.get_text() for text in figure.texts]


class TestCurves:
    def test_every_curve_is_drawn_in_the_panel_of_its_policy_and_outcome(self, run: Run) -> None:
        measures = measure_episodes(run)
        grid = curve_grid(measures, ["policy"])
        assert (grid.groups, grid.outcomes, grid.source) == (("bold", "shy"), ("success", "failure"), "label")
        with paper_style():
            figure = draw_curves(grid)
        sizes = [len([line for line in axes.lines if line.get_label() != "median"]) for axes in figure.axes]
        assert sizes == [3, 1, 1, 3]
        line = figure.axes[1].lines[0]
        np.testing.assert_allclose(np.asarray(line.get_xdata(), float), 100 * TIMES / 5.0)
        np.testing.assert_allclose(np.asarray(line.get_ydata(), float), 100 * np.minimum(TIMES / 4.0, 0.4))

    def test_of_very_many_some_are_drawn_and_the_band_is_of_all(self, tmp_path: Path) -> None:
        many = [made("bold", k, 0.2 + 0.7 * k / 249) for k in range(250)]
        grid = curve_grid(
            measure_episodes(stepscore.score(many, FixedJudge(), tmp_path / "many")), ["policy"]
        )
        with paper_style():
            (axes,) = draw_curves(grid).axes
        assert len(axes.lines) == MAX_CURVES + 1
        assert [text.get_text() for text in axes.texts] == ["n=250, 100 drawn"]
        assert grid.panels[0, 0].band.n == 250

    def test_the_band_is_the_quartiles_of_curves_read_between_their_points(self) -> None:
        rng = np.random.default_rng(0)
        curves = [(np.array([0.0, 1.0, 2.0]), rng.uniform(size=3)) for _ in range(9)]
        band = median_band(curves, [2.0] * 9, points=5)
        naive = np.array([[v[0], (v[0] + v[1]) / 2, v[1], (v[1] + v[2]) / 2, v[2]] for _, v in curves])
        np.testing.assert_allclose(band.median, np.median(naive, axis=0))
        np.testing.assert_allclose(band.low, np.quantile(naive, 0.25, axis=0))
        np.testing.assert_allclose(band.high, np.quantile(naive, 0.75, axis=0))

    def test_unknown_points_and_early_ends_are_not_filled_in(self) -> None:
        whole = (np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.5, 1.0]))
        short = (np.array([0.0, 1.0]), np.array([0.0, 0.5]))
        holed = (np.array([0.0, 1.0, 2.0]), np.array([0.0, np.nan, 1.0]))
        assert np.isnan(median_band([whole, whole, short], [2.0] * 3, points=3).median).tolist() == [
            False,
            False,
            True,
        ]
        assert np.isnan(median_band([holed], [2.0], points=3).median).tolist() == [False, True, False]
        assert np.all(np.isnan(median_band([], [], points=3).median))


class TestFiles:
    def test_the_same_run_gives_the_same_bytes_with_no_date(self, run: Run, tmp_path: Path) -> None:
        kinds = ("leaderboard", "vectors", "curves")
        first = plot([run], tmp_path / "a", kinds=kinds).paths
        second = plot([run], tmp_path / "b", kinds=kinds).paths
        assert [path.name for path in first] == [
            f"{kind}.{form}" for kind in kinds for form in ("svg", "png")
        ]
        assert all(a.read_bytes() == b.read_bytes() for a, b in zip(first, second, strict=True))
        assert "dc:date" not in first[0].read_text(encoding="utf-8")

    def test_a_figure_is_as_wide_as_asked(self, run: Run, tmp_path: Path) -> None:
        (path,) = plot([run], tmp_path, kinds=["leaderboard"], formats=["svg"], width=7.0).paths
        assert float(ET.parse(path).getroot().attrib["width"].removesuffix("pt")) == pytest.approx(504)
        with pytest.raises(OptionError, match="at least 2"):
            plot([run], tmp_path, width=1.0)

    def test_hostile_names_are_drawn_as_text(self, tmp_path: Path) -> None:
        nasty = "<script>alert('$x_{')</script>--> \x00\x1b " + "אבג " + "long " * 2000
        one = [made(nasty, k, 1.0, id=f"e{k}", task=nasty, instruction=nasty) for k in range(3)]
        drawn = plot([stepscore.score(one, FixedJudge(), tmp_path / "r")], tmp_path / "p", formats=["svg"])
        assert len(drawn.paths) == 3
        for path in drawn.paths:
            tags = {element.tag.split("}")[1] for element in ET.parse(path).iter()}
            assert "script" not in tags

    def test_without_a_kind_what_cannot_be_drawn_is_left_out_with_the_reason(
        self, silent: Run, tmp_path: Path
    ) -> None:
        drawn = plot([silent], tmp_path, formats=["svg"])
        assert [path.name for path in drawn.paths] == ["leaderboard.svg", "curves.svg"]
        assert list(drawn.left_out) == ["vectors", "sheet", "overlay"]
        assert "--episode bold_0" in drawn.left_out["sheet"]

    def test_a_kind_asked_for_that_cannot_be_drawn_is_an_error(self, silent: Run, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="No subgoal has a known verdict or label"):
            plot([silent], tmp_path, kinds=["vectors"])
        with pytest.raises(OptionError, match="--episode bold_0"):
            plot([silent], tmp_path, kinds=["sheet"])

    def test_wrong_names_list_the_valid_ones(self, run: Run, tmp_path: Path) -> None:
        with pytest.raises(UnknownNameError, match="Did you mean 'curves'"):
            plot([run], tmp_path, kinds=["curve"])
        with pytest.raises(UnknownNameError, match="png, svg"):
            plot([run], tmp_path, formats=["gif"])
        with pytest.raises(UnknownNameError, match="Unknown episode 'bold_9'"):
            plot([run], tmp_path, kinds=["sheet"], episode="bold_9")

    def test_a_folder_that_cannot_be_written_is_an_error(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(RunError, match="Cannot write"):
            plot([run], tmp_path / "file", kinds=["curves"])


def test_runs_of_different_protocols_are_never_pooled(run: Run, silent: Run) -> None:
    assert grouping([run, run], ["policy"]) == ("policy",)
    assert grouping([run, silent], ["policy"]) == ("policy", "judge")
    assert grouping([run, silent], ["judge"]) == ("judge",)
    names = [
        row.name for row in leaderboard(measure_episodes([run, silent]), ("policy", "judge"), ["MP"]).rows
    ]
    assert names == ["bold / fixed", "bold / silent", "shy / fixed", "lone / fixed"]


def test_groups_differ_in_more_than_colour() -> None:
    styles = [group_style(k) for k in range(56)]
    assert len({(style.colour, style.marker) for style in styles}) == 56
    assert all(a.colour != b.colour and a.marker != b.marker for a, b in pairwise(styles))


def test_text_keeps_to_its_lines() -> None:
    assert fit_lines("a word", 2.0, most=1) == "a word"
    assert fit_lines("many words " * 50, 1.0, most=2).count("\n") == 1
    assert fit_lines("many words " * 50, 1.0, most=2).endswith("…")


def test_without_matplotlib_the_message_names_the_extra(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"stepscore\[plot\]"):
        plot([run], tmp_path)


def test_importing_the_plots_does_not_load_matplotlib() -> None:
    check = "import stepscore.report, sys; print('matplotlib' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_the_command_prints_the_files_it_wrote(run: Run, tmp_path: Path) -> None:
    line = ["plot", str(run.path), "-o", str(tmp_path), "--kind", "curves,leaderboard", "--format", "svg"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [str(tmp_path / "curves.svg"), str(tmp_path / "leaderboard.svg")]

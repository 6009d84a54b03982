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
from PIL import Image
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
from stepscore.report.plots.differences import differences, draw_differences
from stepscore.report.plots.leaderboard import METRICS, draw_leaderboard, leaderboard
from stepscore.report.plots.style import fit_lines, group_style, paper_style
from stepscore.report.plots.subgoals import draw_vectors, task_vectors
from stepscore.report.plots.voc import draw_voc, voc_distributions
from stepscore.runs import Run
from stepscore.types import Curve, Judgement, Verdict
from tests.fakes import episode
from tests.report.made_runs import write_run

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
        kinds = ("leaderboard", "differences", "vectors", "curves", "voc")
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
        assert len(drawn.paths) == 4
        for path in drawn.paths:
            tags = {element.tag.split("}")[1] for element in ET.parse(path).iter()}
            assert "script" not in tags

    def test_without_a_kind_what_cannot_be_drawn_is_left_out_with_the_reason(
        self, silent: Run, tmp_path: Path
    ) -> None:
        drawn = plot([silent], tmp_path, formats=["svg"])
        assert [path.name for path in drawn.paths] == ["leaderboard.svg", "curves.svg", "voc.svg"]
        assert list(drawn.left_out) == ["differences", "vectors", "trace", "sheet", "overlay", "clip"]
        assert "--episode bold_0" in drawn.left_out["sheet"]
        assert "a comparison needs two" in drawn.left_out["differences"]

    def test_a_kind_asked_for_that_cannot_be_drawn_is_an_error(self, silent: Run, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="No subgoal has a known verdict or label"):
            plot([silent], tmp_path, kinds=["vectors"])
        with pytest.raises(OptionError, match="--episode bold_0"):
            plot([silent], tmp_path, kinds=["sheet"])

    def test_wrong_names_list_the_valid_ones(self, run: Run, tmp_path: Path) -> None:
        with pytest.raises(UnknownNameError, match="Did you mean 'curves'"):
            plot([run], tmp_path, kinds=["curve"])
        with pytest.raises(UnknownNameError, match="png, svg"):
            plot([run], tmp_path, formats=["webp"])
        with pytest.raises(OptionError, match="drawn as svg or png, not gif"):
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


class TestTwoJudges:
    """A policy looks the same under every judge, and no two policies look alike."""

    @pytest.fixture(scope="class")
    @classmethod
    def other(cls, tmp_path_factory: pytest.TempPathFactory) -> Run:
        tops = {"bold": (0.9, 0.8, 1.0, 0.2), "shy": (0.1, 0.3, 0.2, 0.5)}
        episodes = [made(policy, k, top) for policy, row in tops.items() for k, top in enumerate(row)]
        return stepscore.score(episodes, FixedJudge("other"), tmp_path_factory.mktemp("runs") / "other")

    def test_the_leaderboard_has_a_section_for_each(self, run: Run, other: Run) -> None:
        board = leaderboard(measure_episodes([run, other]), ("policy",), ["MP"], apart=("judge",))
        assert [(row.section, row.name) for row in board.rows] == [
            ("fixed", "bold"),
            ("fixed", "shy"),
            ("fixed", "lone"),
            ("other", "bold"),
            ("other", "shy"),
        ]
        with paper_style():
            (axes,) = draw_leaderboard(board).axes
        names = [label.get_text() for label in axes.get_yticklabels()]
        assert names == ["by fixed", "bold (4)", "shy (4)", "lone (1)", "by other", "bold (4)", "shy (4)"]
        looks: dict[str, set[tuple[Any, Any]]] = {}
        for line in axes.lines:
            if len(np.atleast_1d(line.get_xdata())) == 1:
                name = names[round(float(np.atleast_1d(line.get_ydata())[0]))].split()[0]
                looks.setdefault(name, set()).add((line.get_color(), line.get_marker()))
        assert sorted(looks) == ["bold", "shy"]
        assert all(len(look) == 1 for look in looks.values())
        assert looks["bold"] != looks["shy"]

    def test_the_subgoals_have_a_panel_for_each_and_one_for_labels(self, run: Run, other: Run) -> None:
        tables = subgoal_tables([run, other], ["policy", "judge"])
        tasks, groups = task_vectors(tables, apart=("judge",))
        assert groups == ["bold", "lone", "shy"]
        (task,) = tasks
        assert {source: [number for number, _ in rows] for source, rows in task.tables.items()} == {
            "fixed": [0, 2],
            "other": [0, 2],
            "label": [0, 1, 2],
        }
        with paper_style():
            (figure,) = draw_vectors(tasks, groups)
        assert len(figure.axes) == 3

    def test_differences_are_within_a_judge(self, run: Run, other: Run) -> None:
        both = measure_episodes([run, other])
        found = differences(both, ["policy"], ["MP"], apart=["judge"])
        assert ("fixed: bold", "shy") in found.pairs
        assert ("other: bold", "shy") in found.pairs
        alone = stepscore.compare(other, metrics=["MP"])[0].comparison.difference
        shown = found.cells[("other: bold", "shy"), "MP"].comparison.difference
        assert (shown.value, shown.n, shown.method) == (alone.value, alone.n, alone.method)

    def test_all_kinds_are_drawn(self, run: Run, other: Run, tmp_path: Path) -> None:
        drawn = plot([run, other], tmp_path, formats=["svg"])
        assert {path.stem for path in drawn.paths} == {
            "leaderboard",
            "differences",
            "vectors",
            "curves",
            "voc",
        }


class TestDifferences:
    @pytest.fixture(scope="class")
    @classmethod
    def clear(cls, tmp_path_factory: pytest.TempPathFactory) -> Run:
        rng = np.random.default_rng(3)
        tops = {
            "good": 0.8 + 0.1 * rng.random(16),
            "bad": 0.2 + 0.1 * rng.random(16),
            "poor": 0.2 + 0.1 * rng.random(16),
        }
        episodes = [made(policy, k, float(top)) for policy, row in tops.items() for k, top in enumerate(row)]
        return stepscore.score(episodes, FixedJudge(), tmp_path_factory.mktemp("runs") / "clear")

    def test_every_dot_and_interval_is_that_of_compare(self, clear: Run) -> None:
        names = ["MP", "STR"]
        compared = {
            (f"{row.a['policy']} − {row.b['policy']}", row.metric): row
            for row in stepscore.compare(clear, metrics=names)
        }
        with paper_style():
            figure = draw_differences(differences(measure_episodes(clear), ["policy"], names))
        labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert len(labels) == 3
        filled = []
        for axes, metric in zip(figure.axes, names, strict=True):
            for y, label in enumerate(labels):
                row = compared[label, metric]
                d = row.comparison.difference
                at_row = [line for line in axes.lines if np.atleast_1d(line.get_ydata())[0] == y]
                (dot,) = (line for line in at_row if len(np.atleast_1d(line.get_xdata())) == 1)
                assert float(np.atleast_1d(dot.get_xdata())[0]) == 100 * d.value
                spans = [line.get_xdata() for line in at_row if line.get_color() == "#000000"]
                intervals = [tuple(span) for span in spans if len(np.atleast_1d(span)) == 2]  # type: ignore[arg-type]
                assert intervals == ([(100 * d.lo, 100 * d.hi)] if math.isfinite(d.lo) else [])
                filled.append(dot.get_markerfacecolor() == "#000000")
                assert filled[-1] == (row.q_value < 0.05)
        assert True in filled
        assert False in filled

    def test_the_side_on_which_a_is_better_is_shaded(self, clear: Run) -> None:
        with paper_style():
            figure = draw_differences(differences(measure_episodes(clear), ["policy"], ["MP", "STR"]))
        sides = [
            axes.patches[0].get_window_extent().x1 > axes.get_window_extent().x0 + 1 for axes in figure.axes
        ]
        assert sides == [True, True]
        (higher, lower) = (
            axes.patches[0].get_extents().transformed(axes.transData.inverted()) for axes in figure.axes
        )
        assert higher.x0 == pytest.approx(0)
        assert lower.x1 == pytest.approx(0, abs=1e-9)


class TestVoc:
    def test_the_bars_are_the_episodes_by_outcome_and_the_diamond_is_the_mean(self, run: Run) -> None:
        measures = measure_episodes(run)
        found = voc_distributions(measures, ["policy"])
        assert [row.name for row in found.rows] == ["bold", "shy"]
        with paper_style():
            figure = draw_voc(found)
        panels: list[Any] = list(figure.axes)
        for axes, row in zip(panels, found.rows, strict=True):
            inside = np.array([episode["policy"] == row.name for episode in measures.episodes])
            values, success = measures.values["VOC"][inside], measures.values["success_label"][inside]
            assert row.counts["success"].sum() == np.sum(success == 1)
            assert row.counts["failure"].sum() == np.sum(success == 0)
            assert sum(bar.get_height() for bar in axes.patches) == np.sum(~np.isnan(values))
            (mean,) = (line for line in axes.lines if line.get_marker() == "D")
            assert float(np.atleast_1d(mean.get_xdata())[0]) == 100 * measures.estimate("VOC", inside).value

    def test_a_run_without_curves_has_none(self, tmp_path: Path) -> None:
        unknown = stepscore.score([made("lone", 0, math.nan)], FixedJudge(), tmp_path / "unknown")
        with pytest.raises(OptionError, match="order can be compared with time"):
            voc_distributions(measure_episodes(unknown), ["policy"])


class TestDraw:
    def test_it_returns_the_figure_that_plot_writes(self, run: Run, tmp_path: Path) -> None:
        for kind in ("leaderboard", "differences", "vectors", "curves", "voc"):
            figure = stepscore.draw(run, kind)
            (path,) = plot([run], tmp_path, kinds=[kind], formats=["png"]).paths
            with paper_style():
                figure.savefig(tmp_path / "again.png", format="png", dpi=300)
            images = [Image.open(file) for file in (tmp_path / "again.png", path)]
            assert images[0].tobytes() == images[1].tobytes(), kind

    def test_a_notebook_shows_it(self, run: Run) -> None:
        figure: Any = stepscore.draw(str(run.path), "curves", by="task")
        assert figure._repr_png_().startswith(b"\x89PNG")

    def test_wrong_kinds_and_pages_are_errors(self, run: Run) -> None:
        with pytest.raises(UnknownNameError, match="Unknown figure 'overlay'"):
            stepscore.draw(run, "overlay")
        with pytest.raises(OptionError, match="page is 2; the figure has 1"):
            stepscore.draw(run, "vectors", page=2)


@pytest.mark.parametrize("revision", ["robust", "v1.0"])
def test_figures_of_opd_metrics_name_its_revision(run: Run, revision: str) -> None:
    for kind in ("leaderboard", "differences"):
        figure = stepscore.draw(run, kind, revision=revision)
        assert figure.get_supxlabel().startswith(f"OPD {revision};")


def test_a_judge_that_looks_at_no_frame_draws_no_curves_of_policies(run: Run, tmp_path: Path) -> None:
    def clock(number: int, record: dict[str, Any]) -> None:
        record["episode"]["policy"] = "steady"

    clock_run = write_run(tmp_path / "clock", 4, steps=5, judge="linear-time", change=clock)
    result = plot([clock_run], tmp_path, formats=["svg"])
    assert {path.stem for path in result.paths} == {"leaderboard"}
    for kind in ("curves", "voc"):
        assert result.left_out[kind].startswith("linear-time looks at no frame")
        with pytest.raises(OptionError, match="looks at no frame"):
            plot([clock_run], tmp_path, kinds=[kind])
    # Beside another judge its curves are left out; where judges are compared they are drawn.
    assert not any("linear-time" in one for one in panels_of([run, clock_run], "policy"))
    assert any("linear-time" in one for one in panels_of([run, clock_run], "judge"))


def panels_of(runs: list[Run], by: str) -> list[str]:
    """Texts on the figure of VOC, among them the names of its panels."""
    figure = stepscore.draw(runs, "voc", by=by)
    return [text.get_text() for axes in figure.axes for text in axes.texts]


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

"""The command line as a user meets it."""

from __future__ import annotations

import csv
import inspect
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

import stepscore
from stepscore.analysis import measure_episodes
from stepscore.cli import data, judging, results, tools, training, trust
from stepscore.cli.app import app
from stepscore.cli.commands import COMMANDS
from stepscore.errors import UnknownNameError
from tests.cli.command_walk import invoke

runner = CliRunner()
JUDGE_MODULES = ("judge", "progress_bar", "usage")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: real exit codes, real streams."""
    line = [sys.executable, "-c", "from stepscore.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True)


def stdout_of(*arguments: object) -> str:
    result = runner.invoke(app, [str(a) for a in arguments], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_flags_show_no_type_in_the_help() -> None:
    for command in ([], ["judge"], ["train", "vlm"], ["cache", "prune"]):
        printed = run(*command, "--help").stdout
        assert "--help" in printed
        assert "<bool>" not in printed


def test_ls_alone_lists_the_names_of_every_kind() -> None:
    names = json.loads(stdout_of("ls", "--json"))
    assert set(names) == {"judges", "models", "readers", "metrics"}
    assert {"topreward", "stepeval"} <= set(names["judges"])
    printed = stdout_of("ls")
    assert all(name in printed for listed in names.values() for name in listed)
    assert "stepscore ls KIND" in printed


def test_ls_shows_one_of_a_kind_by_its_name() -> None:
    (judge,) = json.loads(stdout_of("ls", "judges", "topreward", "--json"))
    assert "prefixes=16" in judge["options (-J)"]
    (model,) = json.loads(stdout_of("ls", "models", "hf/Qwen/Qwen3-VL-8B-Instruct", "--json"))
    assert model["name"] == "hf/..."
    with pytest.raises(UnknownNameError, match="Did you mean 'topreward'"):
        CliRunner().invoke(app, ["ls", "judges", "toprewrd"], catch_exceptions=False)


def test_summaries_have_no_markup_of_docstrings() -> None:
    assert "``" not in stdout_of("ls", "judges")


class TestInspect:
    def test_it_says_what_is_there(self, toys: Path) -> None:
        found = json.loads(stdout_of("inspect", toys, "--json"))
        assert found["episodes"] == 36
        assert len(found["tasks"]) == 3
        assert found["tasks"][0]["policies"] == {"hasty": 4, "steady": 4, "timid": 4}
        assert found["cameras"][0]["size"] == "96x96"
        assert found["labels"]["unlabelled"] == 0
        assert found["labels"]["with a recorded curve"] == 36
        assert found["problems"] == []

    def test_every_policy_is_shown_however_narrow_the_terminal(self, tmp_path: Path) -> None:
        policies = [f"policy-number-{number:02d}" for number in range(13)]
        lines = [{"id": p, "video": "absent.mp4", "instruction": "push", "policy": p} for p in policies]
        (tmp_path / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        shown = runner.invoke(app, ["inspect", str(tmp_path)], env={"COLUMNS": "80"}).stdout
        table = shown[shown.index("episodes by policy") : shown.index("Cameras")]
        assert all(len(line) <= 80 for line in table.splitlines())
        assert all(policy in table for policy in policies)

    def test_a_file_that_is_no_video_is_named_and_the_exit_code_is_1(self, tmp_path: Path) -> None:
        (tmp_path / "broken.mp4").write_bytes(b"this is no video")
        result = run("inspect", tmp_path)
        assert result.returncode == 1
        assert "broken" in result.stdout

    @pytest.mark.parametrize("make", [lambda p: p, lambda p: p / "nothing-here"])
    def test_nothing_to_read_is_an_error_without_a_traceback(self, tmp_path: Path, make: object) -> None:
        result = run("inspect", make(tmp_path))  # type: ignore[operator]
        assert result.returncode == 2
        assert result.stderr.startswith("Error: No ")
        assert "Traceback" not in result.stderr


class TestJudge:
    def test_it_writes_a_run_and_continues_it(self, toys: Path, tmp_path: Path) -> None:
        first = run(
            "judge", toys, "--judge", "linear-time", "-o", tmp_path / "r", "-J", "points=8", "--limit", 5
        )
        assert first.returncode == 0, first.stderr
        assert first.stdout == ""
        assert "5 judged" in first.stderr
        again = run(
            "judge", toys, "--judge", "linear-time", "-o", tmp_path / "r", "-J", "points=8", "-E", "workers=4"
        )
        assert "31 judged, 5 already there" in again.stderr
        assert stepscore.open_run(tmp_path / "r").curves().num_rows == 36 * 8

    def test_a_wrong_judge_option_or_flag_says_what_is_right(self, toys: Path, tmp_path: Path) -> None:
        wrong = [
            (["--judge", "linear-tim"], "Did you mean 'linear-time'?"),
            (["--judge", "linear-time", "-J", "point=3"], "Did you mean 'points'?"),
            (["--judge", "linear-time", "-J", "points"], "expected key=value"),
            (["--judge", "linear-time", "--limt", "3"], "--limit"),
            (["--judge", "linear-time", "--task", "juggle"], "Valid: push the blue block"),
            (["--judge", "linear-time", "--episodes", "steady/red_99"], "Did you mean"),
        ]
        for arguments, message in wrong:
            result = run("judge", toys, "-o", tmp_path / "r", *arguments)
            assert result.returncode == 2, arguments
            assert message in result.stderr.replace("\n", " "), arguments
            assert "Traceback" not in result.stderr

    def test_the_documented_words_of_topreward_can_be_given(self, toys: Path, tmp_path: Path) -> None:
        words = ["-J", "target=True", "-J", "other=False"]
        printed = stdout_of(
            *["judge", toys, "--judge", "topreward", "--model", "mock/x", *words, "--limit", 1],
            *["-o", tmp_path / "r", "-E", "cache=false", "--dry-run"],
        )
        assert "1 episodes, 0 of which cannot be judged" in printed

    def test_a_dry_run_says_why_nothing_can_be_judged_and_fails(self, toys: Path, tmp_path: Path) -> None:
        command = ["judge", toys, "-o", tmp_path / "r", "-E", "cache=false", "--dry-run", "--model", "mock/x"]
        result = run(*command, "--judge", "stepeval", "--limit", 7)
        assert result.returncode == 1
        assert "7 episodes, 7 of which cannot be judged" in result.stdout
        assert result.stderr.count("has no subgoals to judge") == 5
        assert "and 2 more" in result.stderr
        result = run(*command, "--judge", "topreward", "--limit", 2, "-M", "scores=none")
        assert result.returncode == 2
        assert "topreward needs token scores; mock/x gives none" in result.stderr
        assert not (tmp_path / "r").exists()

    def test_subgoals_that_no_episode_has_are_missed_before_anything_is_judged(
        self, toys: Path, tmp_path: Path
    ) -> None:
        command = [
            "judge",
            toys,
            "-o",
            tmp_path / "r",
            "-E",
            "cache=false",
            "--model",
            "mock/x",
            "--limit",
            7,
        ]
        for judge in (["stepeval"], ["procvlm", "-J", "progress=derived"]):
            result = run(*command, "--judge", *judge)
            assert result.returncode == 2
            assert f"Judge {judge[0]!r} judges subgoals, and none of the 7 episodes has any" in result.stderr
            assert "--subgoals FILE" in result.stderr
            assert len(result.stderr.splitlines()) == 1
            assert not (tmp_path / "r").exists()

    def test_goal_images_are_chosen_and_said_aloud(self, toys: Path, tmp_path: Path) -> None:
        arguments = [
            "judge",
            toys,
            "--judge",
            "hop",
            "--model",
            "mock/<score>-10%</score>",
            "-E",
            "cache=false",
        ]
        arguments += ["-J", "mode=backward", "-J", "points=2", "--limit", "2"]
        done = run(*arguments, "--goal", "last-success", "-o", tmp_path / "run")
        assert done.returncode == 0, done.stderr
        assert "labelled success of the same task in another scene; this uses labels" in done.stderr
        assert "looks at no goal image" not in done.stderr
        clock = ["judge", toys, "--judge", "linear-time", "--limit", "2", "--goal", "last-success"]
        assert "looks at no goal image" in run(*clock, "-o", tmp_path / "clock").stderr
        wrong = run(*arguments, "--goal", tmp_path / "no.png", "-o", tmp_path / "other")
        assert wrong.returncode == 2
        assert "No goal image at" in wrong.stderr

    @pytest.mark.parametrize(
        "who",
        [
            ["--judge", "gvl", "--model", "mock/x"],
            ["--judge", "cascade", "-J", "first=constant", "-J", "second=gvl@mock/x"],
        ],
    )
    def test_a_limit_in_money_without_a_price_is_refused_once(
        self, who: list[str], toys: Path, tmp_path: Path
    ) -> None:
        result = run(
            "judge", toys, *who, "-o", tmp_path / "r", "-E", "cache=false", "--limit", 3, "--max-cost", 1
        )
        assert result.returncode == 2
        assert result.stderr.count("needs a price for mock/x") == 1
        assert not (tmp_path / "r").exists()

    def test_another_protocol_in_the_same_folder_is_refused(self, toys: Path, tmp_path: Path) -> None:
        run("judge", toys, "--judge", "linear-time", "-o", tmp_path / "r", "--limit", 2)
        result = run("judge", toys, "--judge", "constant", "-o", tmp_path / "r", "--limit", 2)
        assert result.returncode == 2
        assert "another protocol" in result.stderr

    def test_one_bad_episode_costs_one_row_and_exit_code_1(self, toys: Path, tmp_path: Path) -> None:
        folder = tmp_path / "source" / "open the drawer"
        folder.mkdir(parents=True)
        (folder / "good.mp4").write_bytes((toys / "steady" / "red_00.mp4").read_bytes())
        (folder / "bad.mp4").write_bytes(b"no video at all")
        result = run("judge", tmp_path / "source", "--judge", "linear-time", "-o", tmp_path / "r")
        assert result.returncode == 1
        assert "1 failed" in result.stderr
        rows = pq.read_table(tmp_path / "r" / "judgements.parquet").to_pylist()
        errors = {row["episode_id"]: row["error"] for row in rows}
        assert errors["open the drawer/good"] is None
        assert "bad.mp4" in errors["open the drawer/bad"]

    def test_episodes_are_chosen_by_number_range_and_id(self, toys: Path, tmp_path: Path) -> None:
        run("judge", toys, "--judge", "constant", "-o", tmp_path / "r", "--episodes", "0,2-4,timid/red_03")
        ids = stepscore.open_run(tmp_path / "r").episodes().column("episode_id").to_pylist()
        everything = [episode.id for episode in stepscore.open_episodes(toys)]
        assert ids == [everything[i] for i in (0, 2, 3, 4)] + ["timid/red_03"]


class TestMetrics:
    def test_json_has_every_field_of_an_estimate(self, toy_run: Path) -> None:
        rows = json.loads(stdout_of("metrics", toy_run, "--json"))
        expected = {"group", "metric", "value", "lo", "hi", "n", "clusters", "coverage", "method", "revision"}
        expected |= {"fixed_scenes"}
        by_judge = [
            row for row in rows if row["metric"].endswith(("success_judge", "success:judge", "failure:judge"))
        ]
        assert all(set(row) == expected for row in rows if row not in by_judge)
        # What rests on success by judge says whether that is calibrated.
        assert all(set(row) == expected | {"calibrated"} for row in by_judge)
        chosen = {(row["group"]["policy"], row["metric"]): row for row in rows}
        assert chosen["steady", "MP"]["n"] == 12
        assert chosen["steady", "MP"]["lo"] <= chosen["steady", "MP"]["value"] <= chosen["steady", "MP"]["hi"]
        assert ("hasty", "PPL|failure:label") in chosen

    def test_its_numbers_are_those_of_the_pure_functions(self, toy_run: Path) -> None:
        from stepscore.metrics import compute_opd

        rows = json.loads(
            stdout_of("metrics", toy_run, "--json", "--by", "task,policy", "--revision", "robust")
        )
        run_ = stepscore.open_run(toy_run)
        task = "push the red block to the goal"
        curves = run_.curves().to_pylist()
        values = []
        for e in run_.episodes().to_pylist():
            if e["task"] == task and e["policy"] == "timid":
                mine = [c for c in curves if c["episode_id"] == e["episode_id"]]
                times, progress = [c["time_s"] for c in mine], [c["progress"] for c in mine]
                values.append(compute_opd(progress, revision="robust", times=times)["STR"])
        group = {"task": task, "policy": "timid"}
        row = next(r for r in rows if r["group"] == group and r["metric"] == "STR")
        assert row["value"] == pytest.approx(np.mean(values), abs=1e-12)

    def test_every_table_fits_a_terminal(self, toy_run: Path) -> None:
        text = stdout_of("metrics", toy_run, "--show", "all")
        assert "How each policy fails" in text
        assert "Among failure by label" in text
        assert max(map(len, text.splitlines())) <= 100

    def test_csv_and_per_episode_rows(self, toy_run: Path) -> None:
        rows = list(csv.DictReader(io.StringIO(stdout_of("metrics", toy_run, "--format", "csv"))))
        assert {row["policy"] for row in rows} == {"steady", "hasty", "timid"}
        per_episode = json.loads(stdout_of("metrics", toy_run, "--show", "episodes", "--json"))
        assert len(per_episode) == 36
        assert "median" in stdout_of("metrics", toy_run, "--show", "episodes")

    def test_a_wrong_name_lists_the_right_ones(self, toy_run: Path) -> None:
        for flag, value in (("--by", "polcy"), ("--revision", "v2"), ("--channel", "minmax")):
            result = run("metrics", toy_run, flag, value)
            assert result.returncode == 2
            assert "Valid:" in result.stderr

    def test_a_folder_that_is_no_run_says_how_to_make_one(self, tmp_path: Path) -> None:
        result = run("metrics", tmp_path)
        assert result.returncode == 2
        assert "stepscore judge SOURCE" in result.stderr

    def test_a_folder_of_recordings_is_not_named_as_the_run_to_write(self, toys: Path) -> None:
        result = runner.invoke(app, ["metrics", str(toys)])
        assert f"stepscore judge {toys} --judge J -o RUN" in str(result.exception)


class TestCompare:
    def test_nothing_in_common_is_said(self, toys: Path, toy_run: Path, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text(
            "from stepscore.types import Judgement\n"
            "class Silent:\n"
            "    name, version, models = 'silent', 1, ()\n"
            "    def options(self): return {}\n"
            "    async def judge(self, episode, ask): return Judgement()\n"
        )
        source = stepscore.open_episodes(toys)
        name = f"{tmp_path / 'mine.py'}:Silent"
        assert run("judge", source.source, "--judge", name, "-o", tmp_path / "run").returncode == 0
        printed = stdout_of("compare", toy_run, tmp_path / "run", "--by", "judge", "--metrics", "MP")
        assert "Nothing can be compared" in printed

    def test_policies_are_paired_on_scene_and_corrected(self, toy_run: Path) -> None:
        rows = json.loads(stdout_of("compare", toy_run, "--by", "policy", "--json"))
        assert {(r["a"]["policy"], r["b"]["policy"]) for r in rows} == {
            ("hasty", "steady"),
            ("hasty", "timid"),
            ("steady", "timid"),
        }
        assert all(r["paired"] and r["n"] == 12 for r in rows)
        known = [r for r in rows if r["p_value"] is not None]
        assert all(r["q_value"] >= r["p_value"] - 1e-12 for r in known)
        assert "A minus B" in stdout_of("compare", toy_run)

    def test_two_judges_are_paired_on_the_episode(self, toys: Path, toy_run: Path, tmp_path: Path) -> None:
        other = stepscore.score(
            stepscore.open_episodes(toys), stepscore.get_judge("linear-time"), out=tmp_path / "clock"
        )
        rows = json.loads(
            stdout_of("compare", toy_run, other.path, "--by", "judge", "--metrics", "STR,MP", "--json")
        )
        assert {r["metric"] for r in rows} == {"STR", "MP"}
        assert all(r["paired"] and r["n"] == 36 for r in rows)

    def test_one_group_cannot_be_compared(self, toy_run: Path) -> None:
        result = run("compare", toy_run, "--by", "judge")
        assert result.returncode == 2
        assert "a comparison needs two" in result.stderr


class TestHelp:
    def test_the_listing_states_the_first_sentence_of_every_command_s_help(self) -> None:
        for name, listed in COMMANDS.items():
            loaded = listed.load()
            text = loaded.info.help if isinstance(loaded, typer.Typer) else inspect.getdoc(loaded)
            assert str(text).splitlines()[0] == listed.summary, name
            assert len(listed.summary.split()) <= 12, name

    def test_listing_commands_imports_none_and_calling_one_imports_that_one(self) -> None:
        shown = (
            "import sys\nfrom stepscore.cli.main import run\nrun({words})\n"
            "print('loaded:', sorted(m for m in sys.modules if m.count('.') == 3 and m.startswith('stepscore.cli.')"
            " and m.split('.')[2] not in ('options',)))"
        )
        for words, modules in (
            (["--help"], []),
            (["judgee"], []),
            (["doctor", "--help"], ["stepscore.cli.tools.doctor"]),
            (["judge", "--help"], [f"stepscore.cli.judging.{name}" for name in JUDGE_MODULES]),
        ):
            code = shown.format(words=words)
            ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            assert ended.stdout.splitlines()[-1] == f"loaded: {modules}"

    def test_panels_come_in_the_order_a_newcomer_needs(self) -> None:
        text = stdout_of("--help")
        places = [text.index(package.PANEL) for package in (judging, results, trust, data, training, tools)]
        assert places == sorted(places)
        assert "─ Commands ─" not in text


class TestListing:
    @pytest.mark.parametrize(
        ("kind", "some"),
        [("judges", "recorded"), ("models", "hf/..."), ("readers", "lerobot"), ("metrics", "PPL")],
    )
    def test_it_lists(self, kind: str, some: str) -> None:
        assert some in {row["name"] for row in json.loads(stdout_of("ls", kind, "--json"))}
        assert some in stdout_of("ls", kind)

    def test_every_metric_that_can_be_asked_for_is_listed(self, toy_run: Path) -> None:
        rows = {row["name"]: row["from"] for row in json.loads(stdout_of("ls", "metrics", "--json"))}
        measured = measure_episodes(stepscore.open_run(toy_run), revision="v1.5")
        assert set(rows) == {column.name for column in measured.columns}
        assert {"success_label", "success_judge", "stage_MAE", "stage_CCC", "coverage"} <= set(rows)
        needs = {name for name, source in rows.items() if source == "opd, --revision v1.5"}
        assert needs == {"DRR", "FNS", "SQS"}


def test_the_version_is_printed() -> None:
    assert stdout_of("--version").strip() == stepscore.__version__


def test_commands_to_copy_quote_paths_with_spaces(toys: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my runs; x"
    for words, before in (
        (["judge", str(toys), "--judge", "constant", "--limit", "1", "-o", str(folder / "a")], "Next: "),
        (["merge", str(folder / "a"), "-o", str(folder / "b")], "Next: "),
    ):
        ended = invoke(words)
        assert ended.code == 0, ended.err
        command = next(line for line in ended.err.splitlines() if line.startswith(before))
        assert shlex.split(command.removeprefix(before)) == ["stepscore", "metrics", words[-1]]
    missing = str(tmp_path / "no file; x")
    asked = ["judge", str(toys), "--judge", "topreward", "--model", "embedded", "-o", str(folder / "c")]
    for words in (
        ["metrics", missing],
        [*asked, "-J", f"calibration={missing}"],
        [*asked, "--model", f"sarm/{missing}"],
    ):
        ended = invoke(words)
        assert ended.code == 2
        assert shlex.split(ended.err.split("Make one: ")[1])[-1] == missing


def test_the_command_that_opens_a_recording_quotes_its_path(toy_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("rerun")
    file = tmp_path / "my file; x.rrd"
    ended = invoke(["export", str(toy_run), "--to", "rerun", "-o", str(file), "--videos", "none"])
    assert shlex.split(ended.err.split("open it: ")[1].splitlines()[0]) == ["rerun", str(file)]

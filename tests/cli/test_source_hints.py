"""What does not fit between a source, its files and a run that is resumed is said, with a command that shows it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import warnings
from pathlib import Path

import pytest

from stepscore.cli.main import run
from stepscore.episodes import open_episodes


@pytest.fixture
def source(toys: Path, tmp_path: Path) -> Path:
    """Three episodes in a folder whose name has a space."""
    folder = tmp_path / "my rollouts"
    for path in sorted(toys.rglob("*.mp4"))[:3]:
        copy = folder / path.relative_to(toys)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return folder


def judge(source: Path, *more: object) -> int:
    out = source.parent / "run"
    return run(["judge", str(source), "--judge", "linear-time", "-o", str(out), *map(str, more)])


def test_labels_of_an_unknown_episode_are_listed_by_the_command_that_is_named(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / "the labels.csv"
    labels.write_text("episode_id,kind,value\nnobody,success,1\n")
    assert judge(source, "--labels", labels) == 1
    (line,) = [one for one in capfd.readouterr().err.splitlines() if "List them: " in one]
    assert line.startswith("Problems with the source: 1. ")
    words = shlex.split(line.partition("List them: ")[2])
    assert words[0] == "stepscore"
    assert run(words[1:]) == 1
    assert "no episode is called 'nobody'" in " ".join(capfd.readouterr().out.split())


def test_episodes_that_left_the_source_are_named_when_a_run_is_resumed(
    source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert judge(source) == 0
    assert "No longer in the source" not in capfd.readouterr().err
    gone = sorted(source.rglob("*.mp4"))[1:]
    for path in gone:
        path.unlink()
    assert judge(source, "--limit", "1") == 0
    assert "No longer in the source" not in capfd.readouterr().err  # not all of it was listed
    assert judge(source) == 0
    name = gone[0].relative_to(source).with_suffix("").as_posix()
    said = " ".join(capfd.readouterr().err.split())
    assert f"No longer in the source, but still in the run and in its metrics: {name} and 1 more." in said


def test_subgoals_that_fit_no_episode_are_said_once(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "subgoals.yaml"
    file.write_text("tasks: {stir the tea: {subgoals: [x]}}")
    assert judge(source, "--subgoals", file) == 0
    said = " ".join(capfd.readouterr().err.split())
    assert said.count("fit no episode: 'stir the tea'. The first episode, ") == 1
    task = open_episodes(source)[2].task
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fitting in ("*", str(task).upper()):
            file.write_text(f"tasks: {{'{fitting}': {{subgoals: [x]}}, other: {{subgoals: [y]}}}}")
            open_episodes(source, subgoals=file)


def test_labels_by_file_name_are_answered_with_the_closest_id_in_one_line(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ids = open_episodes(source).ids()
    labels = tmp_path / "labels.csv"
    rows = [f"{name}.mp4,success,1" for name in ids] + [f"{ids[0]}x,success,1", f"{ids[1]},success,0"]
    labels.write_text("\n".join(["episode_id,kind,value", *rows]))
    assert run(["inspect", str(source), "--labels", str(labels)]) == 1
    said = " ".join(capfd.readouterr().out.split())
    assert "1 of 3 episodes labelled by labels.csv." in said
    assert said.count("Could not read") == 1
    assert "4 of its 5 episode ids are unknown: " in said
    assert f"'{ids[0]}.mp4' (did you mean '{ids[0]}'?)" in said
    assert f"'{ids[0]}x' (did you mean '{ids[0]}'?)" in said
    assert "and 1 more" in said


@pytest.mark.parametrize("command", ["judge", "inspect", "tune", "audit"])
def test_labels_and_subgoals_beside_the_data_are_named_with_the_options_that_use_them(
    source: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    first = open_episodes(source).ids()[0]
    labels, subgoals = source / "labels.csv", source / "subgoals.yaml"
    labels.write_text(f"episode_id,kind,value\n{first},success,0\n")
    subgoals.write_text("tasks: {'*': {subgoals: [x]}}")

    def said(*more: str) -> str:
        asked = ["--judge", "linear-time", "-o", str(source.parent / command)]
        if command in ("tune", "audit"):  # refused once the source is listed
            asked[1:2] = ["stepeval", "--model", "mock/yes"]
        run([command, str(source), *([] if command == "inspect" else asked), *more])
        ended = capfd.readouterr()
        return " ".join((ended.out + ended.err).split())

    use = shlex.join(["--labels", str(labels), "--subgoals", str(subgoals)])
    assert f"Not used: labels.csv and subgoals.yaml next to the data. To use them: {use}" in said()
    if command in ("judge", "inspect"):
        used = said(*shlex.split(use))
        assert "Not used" not in used
        assert "1 of 3 episodes labelled by labels.csv." in used


@pytest.mark.parametrize(
    ("command", "flags", "named"),
    [
        ("progress-labels", "--method linear -o labels.parquet", ["labels", "subgoals"]),
        ("pairs make", "-o pairs.jsonl", ["labels"]),
        ("annotate", "--model mock/yes -o labels.parquet", []),
        ("plan", "--model mock/yes -o subgoals.yaml", []),
    ],
)
def test_every_command_that_reads_a_source_states_them_and_names_no_option_it_lacks(
    source: Path, capfd: pytest.CaptureFixture[str], command: str, flags: str, named: list[str]
) -> None:
    (source / "labels.parquet").write_text("")
    (source / "subgoals.yaml").write_text("")
    *options, out = flags.split()
    run([*command.split(), str(source), *options, str(source.parent / out)])
    (said,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("Not used")]
    assert said.startswith("Not used: labels.parquet and subgoals.yaml next to the data.")
    assert re.findall(r"--(\w+) ", said) == named


def test_python_shows_what_lies_beside_the_data(source: Path) -> None:
    assert open_episodes(source).notes == ()
    (source / "labels.jsonl").write_text("")
    episodes = open_episodes(source)
    assert "Not used: labels.jsonl next to the data. To use it: --labels" in repr(episodes[:1])
    assert not any(episode.labels.rows for episode in episodes)


def test_a_subgoals_file_of_other_tasks_is_answered_with_its_tasks(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "subgoals.yaml"
    file.write_text("tasks: {stir the tea: {subgoals: [x]}}")
    words = ["judge", str(source), "--judge", "stepeval", "--model", "mock/yes", "-o", str(tmp_path / "out")]
    assert run([*words, "--subgoals", str(file)]) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "none of the 3 episodes has any" in said
    assert "The subgoals file has the tasks 'stir the tea': name them as the episodes do" in said
    assert "Give them: --subgoals" not in said


def manifest(folder: Path, video: Path, **fields: object) -> Path:
    shutil.copyfile(video, folder / "video.mp4")
    entry = {"id": "a", "video": "video.mp4", "success": True, "subgoals": ["grasp it"], **fields}
    (folder / "list.jsonl").write_text(json.dumps(entry))
    return folder / "list.jsonl"


def test_another_instruction_leaves_the_labels_of_the_old_task_out(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    listed = manifest(tmp_path, next(source.rglob("*.mp4")), instruction="open the drawer")
    assert run(["inspect", str(listed), "--instruction", "close the drawer"]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "0 successes, 0 failures, 1 unlabelled, 0 with stages, 0 with subgoals" in said
    assert "Not used: labels and subgoals of the source, since they are for its own instructions" in said
    labels = tmp_path / "new.csv"
    labels.write_text("episode_id,kind,value\na,success,0\n")
    (episode,) = found = open_episodes(listed, labels=labels, instruction="close the drawer")
    assert "The labels joined count for the instruction given, not for those of the source." in found.notes
    assert (episode.labels.success, episode.subgoals, episode.success_mode) == (False, (), None)


@pytest.mark.parametrize(
    ("stated", "given"),
    [
        ({"instruction": "open the drawer"}, "Open  the drawer"),
        ({"instruction": "open the drawer", "task": "drawer-open"}, "pull the drawer open"),
    ],
)
def test_an_instruction_of_the_same_task_keeps_its_labels(
    source: Path, tmp_path: Path, stated: dict[str, str], given: str
) -> None:
    listed = manifest(tmp_path, next(source.rglob("*.mp4")), **stated)
    (episode,) = found = open_episodes(listed, instruction=given)
    assert (episode.instruction, episode.labels.success, len(episode.subgoals)) == (given, True, 1)
    assert found.notes == ()


def test_labels_stay_where_only_a_folder_named_the_task(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "stir_tea"
    folder.mkdir()
    shutil.copyfile(next(source.rglob("*.mp4")), folder / "a.mp4")
    keyframes = [{"start_frame_id": 0, "end_frame_id": 2, "anotation": "reach"}]
    (folder / "annotated_keyframes.json").write_text(json.dumps(keyframes))
    before, after = open_episodes(folder), open_episodes(folder, instruction="stir the tea")
    assert {episode.instruction for episode in after} == {"stir the tea"}
    assert [episode.labels for episode in after] == [episode.labels for episode in before]
    assert any(episode.labels.stages for episode in after)
    assert after.notes == ()


def test_an_episode_that_cannot_be_made_is_no_end_of_another_instruction(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "reader.py"
    file.write_text(
        "from collections.abc import Sequence\n"
        "from stepscore.episodes import Episode, Listing\n"
        "class Broken(Sequence):\n"
        "    def __len__(self): return 2\n"
        "    def ids(self): return ['a', 'b']\n"
        "    def __getitem__(self, n): return {1: Episode('b', instruction='x')}[n]\n"
        "class Mine:\n"
        "    def matches(self, path): return False\n"
        "    def read(self, path, options): return Listing(Broken())\n"
    )
    assert run(["inspect", str(source), "--reader", f"{file}:Mine", "--instruction", "y"]) == 0
    assert "2 episodes" in capfd.readouterr().out

"""A manifest says what the episodes of a folder are."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from stepscore.episodes import Episodes, open_episodes
from stepscore.errors import ManifestError, OptionError, VideoError
from tests.episodes.layout import lay
from tests.media import numbered, numbers_of, write_video
from tests.paths import DOCS

FULL = {
    "id": "one",
    "instruction": "pour the water",
    "task": "pouring",
    "policy": "pi0",
    "robot": "franka",
    "dataset": "kitchen",
    "views": {"top": "a_top.mp4", "wrist": "a_wrist.mp4"},
    "success": True,
    "success_mode": "ever",
    "pair": "seed-3",
    "subgoals": ["grasp the cup", {"name": "tilt", "mode": "holds", "view": "wrist"}],
    "subgoal_labels": {"grasp the cup": True, "tilt": False},
    "stages": [
        {"name": "grasp", "start_second": 0, "end_second": 1.5},
        {"name": "pour", "start_second": 1.5, "end_second": 4},
    ],
    "curve": "a.curve.csv",
    "goal": {"top": "goal.png"},
    "metadata": {"operator": "ann", "trial": 3},
}


def as_jsonl(entries: list[dict[str, object]]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def as_yaml(entries: list[dict[str, object]]) -> str:
    return yaml.safe_dump(entries, sort_keys=False)


def as_csv(entries: list[dict[str, object]]) -> str:
    """Views, labels and metadata as dotted columns; lists as JSON."""
    flat = []
    for entry in entries:
        row: dict[str, object] = {}
        for name, value in entry.items():
            if isinstance(value, dict):
                row.update({f"{name}.{key}": inner for key, inner in value.items()})
            else:
                row[name] = json.dumps(value) if isinstance(value, list) else value
        flat.append(row)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in flat for name in row)))
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


WRITERS = {"jsonl": as_jsonl, "yaml": as_yaml, "yml": as_yaml, "csv": as_csv}


def manifest(root: Path, *entries: Mapping[str, object], suffix: str = "jsonl") -> Episodes:
    lay(root, f"manifest.{suffix}", content=WRITERS[suffix]([dict(entry) for entry in entries]))
    return open_episodes(root, reader="folder")


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_field_arrives_in_every_format(tmp_path: Path, suffix: str) -> None:
    lay(tmp_path, "a_top.mp4", "a_wrist.mp4", "a.curve.csv", "goal.png", "unnamed.mp4")
    bare = {"video": "sub/b.mp4", "instruction": "wipe"}
    lay(tmp_path, "sub/b.mp4")
    episodes = manifest(tmp_path, FULL, bare, suffix=suffix)
    assert episodes.problems == ()
    one, other = episodes
    assert (one.id, one.instruction, one.task, one.policy) == ("one", "pour the water", "pouring", "pi0")
    assert (one.robot, one.dataset, one.pair) == ("franka", "kitchen", "seed-3")
    assert {view: Path(held.location()).name for view, held in one.views.items()} == FULL["views"]
    assert (one.labels.success, one.labels.success_mode) == (True, "ever")
    assert [(s.name, s.mode, s.view) for s in one.subgoals] == [
        ("grasp the cup", "ever", ""),
        ("tilt", "holds", "wrist"),
    ]
    assert (one.labels.subgoal("grasp the cup"), one.labels.subgoal("tilt")) == (True, False)
    assert one.labels.stages == (("grasp", 0.0, 1.5), ("pour", 1.5, 4.0))
    assert one.recorded == (tmp_path / "a.curve.csv",)
    assert one.goals == {"top": tmp_path / "goal.png"}
    assert {key: str(value) for key, value in one.metadata.items()} == {"operator": "ann", "trial": "3"}
    assert {label.author for label in one.labels.rows} == {f"manifest.{suffix}"}
    assert (other.id, other.task, list(other.views)) == ("sub/b", "wipe", ["main"])
    assert (other.policy, other.labels.success, other.labels.success_mode) == (None, None, None)


def test_the_manifest_itself_may_be_the_source(tmp_path: Path) -> None:
    lay(tmp_path, "a.mp4")
    lay(tmp_path, "best.jsonl", content='{"video": "a.mp4", "instruction": "x"}\n\n')
    lay(tmp_path, "all.csv", content="video,instruction,success\na.mp4,y,0\n")
    assert [e.instruction for e in open_episodes(tmp_path / "best.jsonl")] == ["x"]
    (episode,) = open_episodes(tmp_path / "all.csv")
    assert (episode.instruction, episode.labels.success) == ("y", False)


def test_yaml_defaults_fill_what_an_entry_leaves_out(tmp_path: Path) -> None:
    lay(tmp_path, "a.mp4", "b.mp4")
    content = {
        "defaults": {"instruction": "stack", "policy": "act"},
        "episodes": [{"video": "a.mp4"}, {"video": "b.mp4", "policy": "pi0"}],
    }
    lay(tmp_path, "manifest.yaml", content=yaml.safe_dump(content))
    assert [(e.id, e.instruction, e.policy) for e in open_episodes(tmp_path)] == [
        ("a", "stack", "act"),
        ("b", "stack", "pi0"),
    ]


@pytest.mark.parametrize(
    ("cell", "success"),
    [("true", True), ("False", False), ("1", True), ("0", False), ("", None), ("1.0", True)],
)
def test_success_is_true_false_or_empty(tmp_path: Path, cell: str, success: bool | None) -> None:
    lay(tmp_path, "manifest.csv", content=f"video,instruction,success\na.mp4,x,{cell}\n")
    assert open_episodes(tmp_path)[0].labels.success is success


def test_subgoals_of_a_csv_may_be_parted_by_semicolons(tmp_path: Path) -> None:
    lay(tmp_path, "manifest.csv", content="video,instruction,subgoals\na.mp4,x,grasp; lift ;\n")
    assert [s.name for s in open_episodes(tmp_path)[0].subgoals] == ["grasp", "lift"]


def test_numbers_are_names_too(tmp_path: Path) -> None:
    (episode,) = manifest(tmp_path, {"id": 7, "video": "a.mp4", "instruction": "x", "pair": 3, "policy": 1})
    assert (episode.id, episode.pair, episode.policy) == ("7", "3", "1")


def test_a_manifest_of_recorded_curves_needs_no_video(tmp_path: Path) -> None:
    lay(tmp_path, "runs/a.curve.csv")
    (episode,) = manifest(tmp_path, {"curve": "runs/a.curve.csv", "instruction": "x"})
    assert (episode.id, dict(episode.views)) == ("runs/a", {})
    assert episode.recorded == (tmp_path / "runs/a.curve.csv",)


def test_image_sequences_take_the_rate_of_their_entry(tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    for number in (0, 1, 2, 10):
        Image.fromarray(numbered(number)).save(tmp_path / "frames" / f"{number}.png")
    (episode,) = manifest(tmp_path, {"video": "frames/", "instruction": "x", "fps": 5})
    clip = episode.clip(count=4)
    assert (episode.id, numbers_of(clip.frames)) == ("frames", [0, 1, 2, 10])
    assert np.allclose(clip.timestamps, [0, 0.2, 0.4, 0.6])


def test_absolute_paths_are_allowed(tmp_path: Path) -> None:
    video = write_video(tmp_path / "elsewhere" / "a.mp4", 3)
    (tmp_path / "here").mkdir()
    episodes = manifest(tmp_path / "here", {"video": str(video), "instruction": "x"})
    assert (episodes[0].id, episodes.problems) == ("a", ())
    assert len(episodes[0].clip(count=3)) == 3


def test_a_missing_video_is_a_problem_and_one_bad_episode(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", 3)
    entry = {"instruction": "x", "goal": "no.png", "curve": "no.csv"}
    episodes = manifest(tmp_path, {"video": "a.mp4", **entry}, {"video": "gone.mp4", "instruction": "x"})
    assert [problem.where for problem in episodes.problems] == ["a", "a", "gone"]
    assert "line 2: views.main 'gone.mp4' does not exist" in episodes.problems[2].why
    assert (episodes["a"].goals, episodes["a"].recorded) == ({}, ())
    assert len(episodes["a"].clip(count=3)) == 3
    with pytest.raises(VideoError):
        episodes["gone"].clip(count=1)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"video": "a.mp4"}, r"line 2: field 'instruction' is missing"),
        (
            {"instruction": "x", "vidoe": "a.mp4"},
            r"line 2: unknown field 'vidoe'. Did you mean 'video'\? Allowed: id,",
        ),
        (
            {"instruction": "x", "video": "a.mp4", "success": "maybe"},
            r"field 'success' is 'maybe': expected true, false, 1, 0",
        ),
        (
            {"instruction": "x", "video": "a.mp4", "success_mode": "always"},
            r"'success_mode' is 'always': .*'holds'",
        ),
        ({"instruction": "x", "video": "a.mp4", "fps": 0}, r"field 'fps' is 0: .*greater than 0"),
        (
            {"instruction": "x", "video": "a.mp4", "views": {"t": "b.mp4"}},
            r"'video' and 'views' are both given",
        ),
        ({"instruction": "x"}, r"none of 'video', 'views' and 'curve'"),
        ({"instruction": "", "video": "a.mp4"}, r"field 'instruction' is ''"),
        ({"instruction": "x", "views": {}}, r"field 'views' is {}"),
        ({"instruction": "x", "views": {"top": 3.5, "w": []}}, r"field 'views.w' is \[\]"),
        (
            {"instruction": "x", "video": "a.mp4", "stages": [{"name": "s", "start": 1, "end_second": 2}]},
            r"stages.0.start",
        ),
        (
            {
                "instruction": "x",
                "video": "a.mp4",
                "stages": [
                    {"name": "s", "start_second": 0, "end_second": 2},
                    {"name": "t", "start_second": 1, "end_second": 3},
                ],
            },
            r"line 2: stage 't' \(1..3 s\) overlaps 's'",
        ),
        (
            {"instruction": "x", "video": "a.mp4", "subgoals": ["a", "a"]},
            r"line 2: subgoal 'a' appears twice",
        ),
        (
            {"instruction": "x", "video": "a.mp4", "subgoals": ["grasp"], "subgoal_labels": {"grsp": True}},
            r"'grsp', which is not a subgoal. Did you mean 'grasp'\?",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_file_and_line(
    tmp_path: Path, entry: dict[str, object], message: str
) -> None:
    good = {"id": "good", "instruction": "x", "video": "a.mp4"}
    with pytest.raises(ManifestError, match=message) as error:
        manifest(tmp_path, good, entry)
    assert "manifest.jsonl" in str(error.value)


def test_a_duplicate_id_names_both_lines(tmp_path: Path) -> None:
    entry = {"instruction": "x", "video": "a.mp4"}
    with pytest.raises(ManifestError, match=r"line 3: id 'a' is also the id at line 1"):
        manifest(tmp_path, entry, {"id": "b", **entry}, {"id": "a", **entry})


def test_yaml_and_csv_errors_name_the_line_in_the_file(tmp_path: Path) -> None:
    lay(
        tmp_path / "y",
        "manifest.yaml",
        content="# a comment\n- video: a.mp4\n  instruction: x\n- video: b.mp4\n",
    )
    with pytest.raises(ManifestError, match=r"manifest\.yaml, line 4: field 'instruction' is missing"):
        open_episodes(tmp_path / "y")
    lay(tmp_path / "c", "manifest.csv", content='video,instruction\na.mp4,"two\nlines"\nb.mp4,\n')
    with pytest.raises(ManifestError, match=r"manifest\.csv, line 4: field 'instruction' is missing"):
        open_episodes(tmp_path / "c")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("manifest.jsonl", "{\n", "line 1 is not JSON"),
        ("manifest.jsonl", "[1]\n", "line 1: expected a mapping"),
        ("manifest.yaml", "a: [", "not YAML"),
        ("manifest.yaml", "episodes: 3", "expected a list of episodes"),
        ("manifest.yaml", "episode: []", "unknown field 'episode'. Allowed: defaults, episodes"),
        ("manifest.yaml", "- just text", "line 1: expected a mapping"),
        ("manifest.yaml", "- {1: 2}", "line 1: expected a mapping"),
        ("manifest.yaml", "", "expected a list of episodes"),
        ("manifest.csv", "video,instruction\na,b,c\n", "line 2: more cells than the 2 columns"),
        ("manifest.csv", "video,instruction,stages\na,b,[1\n", "field 'stages' is not JSON"),
        (
            "manifest.csv",
            "video,instruction,goal,goal.top\na,b,c,d\n",
            "'goal' and 'goal.top' are both filled",
        ),
    ],
)
def test_a_malformed_manifest_is_a_clear_error(tmp_path: Path, name: str, content: str, message: str) -> None:
    lay(tmp_path, name, content=content)
    with pytest.raises(ManifestError, match=message):
        open_episodes(tmp_path)


def test_other_encodings_and_two_manifests_are_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.csv").write_bytes("video,instruction\na.mp4,öffnen\n".encode("latin-1"))
    with pytest.raises(ManifestError, match="not UTF-8"):
        open_episodes(tmp_path)
    lay(tmp_path, "manifest.jsonl")
    with pytest.raises(ManifestError, match=r"manifest\.jsonl and manifest\.csv"):
        open_episodes(tmp_path)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "manifest.csv").write_text("video,instruction\na.mp4,öffnen\n", encoding="utf-8-sig")
    assert open_episodes(tmp_path)[0].instruction == "öffnen"


def test_a_manifest_and_policy_from_do_not_mix(tmp_path: Path) -> None:
    lay(tmp_path, "manifest.csv", content="video,instruction\na.mp4,x\n")
    with pytest.raises(OptionError, match="field 'policy'"):
        open_episodes(tmp_path, policy_from=1)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "yaml"])
def test_the_examples_of_the_documentation_are_manifests(tmp_path: Path, suffix: str) -> None:
    page = (DOCS / "data/readers.md").read_text(encoding="utf-8")
    example = page.split(f"```{suffix}\n")[1].split("```")[0]
    lay(
        tmp_path,
        "pour/ep1.mp4",
        "pour/ep2_top.mp4",
        "pour/ep2_wrist.mp4",
        "pour/goal.png",
        "pour/ep2.curve.csv",
    )
    lay(tmp_path, f"manifest.{suffix}", content=example)
    episodes = open_episodes(tmp_path)
    assert episodes.problems == ()
    assert [list(e.views) for e in episodes] == [["main"], ["top", "wrist"]]
    assert {e.instruction for e in episodes} == {"pour the water"}
    assert episodes[0].labels.success is True

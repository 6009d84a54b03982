"""Pairs of images from another tool's file: the layout of RoboPulse, read by a mapping of columns."""

from __future__ import annotations

import json
import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from stepscore.audit.pairs import (
    Compare,
    measure_resolution,
    pair_changes,
    read_columns,
    read_pair_file,
    resolution_table,
    score_changes,
)
from stepscore.errors import ManifestError, OptionError, StepScoreError
from stepscore.judges import Hop
from stepscore.models.media import DecodedMedia
from stepscore.models.mock import MockModel
from stepscore.models.requests import Generate, Request
from stepscore.runs import CallOptions, score
from tests.cli.command_walk import invoke

MAPPED = "images=image,label=answer,span=meta.bin,task=meta.task,id=name,episode=meta.episode"
UNCACHED = CallOptions(cache=False)


def records(count: int = 12) -> list[dict[str, Any]]:
    """Samples of eight images in the layout of GRM; the value of an image is its potential in percent."""
    rows = []
    for i in range(count):
        low, high = 20 + i, 40 + 3 * i
        before, after = (low, high) if i % 2 == 0 else (high, low)
        names = [0, 100, before, before, before, after, after, after]
        rows.append(
            {
                "name": f"s{i}",
                "image": [f"images/{value:03d}.png" for value in names],
                "answer": "Progress" if after > before else "Regression",
                "meta": {
                    "bin": ("Small", "Medium", "Large")[i % 3],
                    "task": "open the drawer",
                    "episode": f"e{i}",
                },
            }
        )
    return rows


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "pulse"
    (folder / "images").mkdir(parents=True)
    for value in range(101):
        image = Image.fromarray(np.full((12, 16, 3), value, np.uint8))
        image.save(folder / "images" / f"{value:03d}.png")
    path = folder / "RoboPulse.json"
    path.write_text(json.dumps(records()), encoding="utf-8")
    return path


def stated(request: Request) -> str:
    """State the difference of AFTER and BEFORE, the third and the sixth of eight images."""
    assert isinstance(request, Generate)
    parts = [part for turn in request.prompt.turns for part in turn.parts]
    images = [int(part.clip.frames[0, 0, 0, 0]) for part in parts if isinstance(part, DecodedMedia)]
    assert len(images) == 8
    return f"<score>{images[-1] - images[-4]:+d}%</score>"


def judged(file: Path, columns: str, out: Path, images: Path | None = None) -> list[float]:
    found = read_pair_file(file, read_columns(columns), images)
    judge = Compare(Hop(MockModel(script=stated)))
    return pair_changes(score(found.clips, judge, out, call_options=UNCACHED), found.pairs)


def test_eight_images_a_sample_are_shown_in_the_layout_of_grm(file: Path, tmp_path: Path) -> None:
    found = read_pair_file(file, read_columns(MAPPED))
    changes = judged(file, MAPPED, tmp_path / "run")
    for row, pair, clip, change in zip(records(), found.pairs, found.clips, changes, strict=True):
        values = [int(name[-7:-4]) for name in row["image"]]
        assert [int(clip.view("front").read([i])[0, 0, 0, 0]) for i in range(3)] == [0, values[2], values[5]]
        assert list(clip.views) == ["front", "left", "right"]
        assert change == pytest.approx((values[5] - values[2]) / 100)
        assert (pair.span, pair.id, pair.episode) == (
            row["meta"]["bin"].lower(),
            row["name"],
            row["meta"]["episode"],
        )
        assert (clip.instruction, pair.change > 0) == ("open the drawer", row["answer"] == "Progress")
    result = score_changes("hop", found.pairs, changes, by="compare")
    assert [(one.accuracy.value, one.accuracy.n) for one in result.spans] == [(1, 4), (1, 4), (1, 4), (1, 12)]
    assert resolution_table(measure_resolution("hop", found.pairs, changes, "compare")) is None


def test_single_images_lists_lines_and_archives_are_the_same_pairs(file: Path, tmp_path: Path) -> None:
    expected = judged(file, MAPPED, tmp_path / "a")
    single = "start=image.0,end=image.1,before=b,after=a,label=answer"
    rows = [{**row, "b": row["image"][2:5], "a": row["image"][5:]} for row in records()]
    lines = file.with_suffix(".jsonl")
    lines.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert judged(lines, single, tmp_path / "b") == expected
    wrapped = file.with_name("wrapped.json")
    wrapped.write_text(json.dumps({"version": 1, "data": rows}), encoding="utf-8")
    assert judged(wrapped, single, tmp_path / "c") == expected
    archive = tmp_path / "images.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for image in sorted((file.parent / "images").iterdir()):
            packed.write(image, f"images/{image.name}")
    assert judged(file, MAPPED, tmp_path / "d", archive) == expected
    mapping = tmp_path / "columns.yaml"
    mapping.write_text("\n".join(MAPPED.replace("=", ": ").split(",")), encoding="utf-8")
    assert judged(file, str(mapping), tmp_path / "e") == expected


@pytest.mark.parametrize(
    ("label", "change", "span"),
    [
        ("Progress", 1, None),
        (" regression ", -1, None),
        (1, 1, None),
        (-1.0, -1, None),
        (0.25, 0.25, "medium"),
        (-40, -0.4, "large"),
        ("<score>+5.0%</score>", 0.05, "small"),
        ("-0.5", -0.5, "large"),
    ],
)
def test_labels_are_words_or_numbers(file: Path, label: object, change: float, span: str | None) -> None:
    file.write_text(json.dumps([{**records()[0], "answer": label}]), encoding="utf-8")
    (pair,) = read_pair_file(file, read_columns("images=image,label=answer")).pairs
    assert (pair.change, pair.span) == (change, span)
    assert pair.hop == pytest.approx(math.nan if abs(change) == 1 else change, nan_ok=True)


def test_a_label_of_0_has_no_direction_and_is_left_out(file: Path) -> None:
    file.write_text(json.dumps([*records(3), {**records()[3], "answer": "0.0%"}]), encoding="utf-8")
    found = read_pair_file(file, read_columns("images=image,label=answer"))
    assert (len(found.pairs), found.undirected) == (3, 1)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"answer": "perhaps"},
            "'answer' (label) is 'perhaps'; expected a number or one of progress, regression",
        ),
        ({"answer": None}, "(label)"),
        ({"answer": 1e9}, "must be in -1..1"),
        ({"image": ["a.png"] * 7}, "expected eight paths"),
        ({"image": [1] * 8}, "a path or a list of paths"),
        ({"image": ["../../etc/passwd"] * 8}, "Invalid image path '../../etc/passwd'"),
        ({"image": ["/etc/passwd"] * 8}, "Invalid image path"),
        ({"image": ["a\0b"] * 8}, "Invalid image path"),
        ({"meta": {"bin": "huge"}}, "expected one of small, medium, large"),
        (
            {"meta": {"size": "small"}},
            "has no field 'meta.bin', which --columns gives for span. Its fields: size",
        ),
        ({"meta": 3}, "It is not an object"),
    ],
)
def test_what_is_wrong_is_said_with_record_and_field(file: Path, change: dict[str, object], why: str) -> None:
    file.write_text(json.dumps([records()[0], {**records()[1], **change}]), encoding="utf-8")
    with pytest.raises(ManifestError) as found:
        read_pair_file(file, read_columns("images=image,label=answer,span=meta.bin"))
    assert why in str(found.value)
    assert "record 1" in str(found.value)


@pytest.mark.parametrize("text", ["", "[", "[]", "3", '{"a": [], "b": []}', "[1, 2]", "[[[" * 200, '["x"]'])
def test_files_that_hold_no_records_are_refused_in_one_line(file: Path, tmp_path: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    line = ["pairs", "score", str(file), "--judge", "hop", "--model", "mock/x", "-o", str(tmp_path / "r")]
    ended = invoke([*line, "--columns", MAPPED])
    assert ended.code == 2
    assert len(ended.err.strip().splitlines()) == 1
    assert "Traceback" not in ended.err


def test_columns_are_checked() -> None:
    for text, why in (
        ("label", "expected COLUMN=FIELD"),
        ("colour=x", "Unknown column"),
        ("label=x", "no field for start, before, after"),
        ("images=x", "no field for label"),
        ("", "no field for"),
    ):
        with pytest.raises(StepScoreError, match=why):
            read_columns(text)
    with pytest.raises(ManifestError):
        read_columns("nowhere.yaml")


def test_a_missing_image_and_a_link_that_leads_out_are_rows_with_their_error(
    file: Path, tmp_path: Path
) -> None:
    os.remove(file.parent / "images" / "020.png")
    outside = tmp_path / "secret.png"
    Image.fromarray(np.zeros((12, 16, 3), np.uint8)).save(outside)
    os.remove(file.parent / "images" / "021.png")
    (file.parent / "images" / "021.png").symlink_to(outside)
    (file.parent / "images" / "022.png").write_bytes(b"not an image")
    line = [
        "pairs",
        "score",
        str(file),
        "--judge",
        "hop",
        "--model",
        "mock/<score>+9%</score>",
        "-E",
        "cache=false",
    ]
    ended = invoke([*line, "-o", str(tmp_path / "r"), "--columns", MAPPED, "--json"])
    assert ended.code == 1
    assert "leads out of" in ended.err
    assert "No such file" in ended.err
    overall = next(
        row
        for row in json.loads(ended.out)
        if row["group"].get("span") == "all" and row["metric"] == "pairs:accuracy"
    )
    assert (overall["n"], overall["coverage"]) == (9, 0.75)


def test_archives_that_are_damaged_or_lie_are_errors_of_their_rows(file: Path, tmp_path: Path) -> None:
    archive = tmp_path / "images.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("images/000.png", b"x")
    found = read_pair_file(file, read_columns(MAPPED), archive)
    run = score(found.clips, Compare(Hop(MockModel("x"))), tmp_path / "r", call_options=UNCACHED)
    assert all(row["error"] for row in run.judgements().to_pylist())
    with pytest.raises(ManifestError, match="neither a folder"):
        read_pair_file(file, read_columns(MAPPED), file)


def test_judges_of_whole_videos_and_ends_that_are_not_there_are_refused(file: Path, tmp_path: Path) -> None:
    line = ["pairs", "score", str(file), "--columns", MAPPED, "-o", str(tmp_path / "r")]
    for more, why in (
        (["--judge", "linear-time"], "A file of images has no videos"),
        (["--judge", "hop", "--model", "mock/x", "--by", "curve"], "A file of images has no videos"),
        (
            [
                "--judge",
                "grm",
                "--model",
                "mock/x",
                "-J",
                "profile=grm",
                "-J",
                "end=last",
                "-J",
                "prompt=own",
            ],
            "end=last",
        ),
        (["--judge", "hop", "--model", "mock/x", "--source", "x"], "Give the source"),
    ):
        ended = invoke([*line, *more])
        assert ended.code == 2, more
        assert why in ended.err
    without = invoke(["pairs", "score", str(file), "--judge", "constant", "-o", str(tmp_path / "r")])
    assert without.code == 2
    assert "--columns" in without.err


def test_consistency_of_a_file_swaps_and_repeats_its_pairs(file: Path, tmp_path: Path) -> None:
    line = ["pairs", "score", str(file), "--columns", MAPPED, "-o", str(tmp_path / "r"), "--consistency"]
    ended = invoke(
        [*line, "--judge", "hop", "--model", "mock/<score>+9%</score>", "--json", "-E", "cache=false"]
    )
    assert ended.code == 0, ended.err
    found = {row["metric"]: row["value"] for row in json.loads(ended.out)}
    assert found["consistency:antisymmetry"] == 0
    assert found["consistency:identity"] == pytest.approx(0.09)
    assert "consistency:order" not in found


def test_a_file_without_direction_or_a_wrong_option_is_an_option_error() -> None:
    with pytest.raises(OptionError):
        read_columns("before=a,after=b,start=c")

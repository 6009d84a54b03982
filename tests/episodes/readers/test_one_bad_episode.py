"""One hostile episode among good ones, of every reader: it is one row, and the rest is as without it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stepscore
from stepscore.episodes import Episodes, open_episodes
from stepscore.judges import Judge
from stepscore.runs import Run
from tests.episodes import bombs
from tests.hostile.good_inputs import SOURCES
from tests.runs.test_bad_episodes import ReadFrames, without

VIDEOS = tuple(name for name, source in SOURCES.items() if source.files)
CURVES = tuple(name for name in SOURCES if name.startswith("curves-"))


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a pipe": partial(replaced, make=os.mkfifo),
    "a device": partial(replaced, make=lambda path: path.symlink_to("/dev/zero")),
    "a link to itself": partial(replaced, make=lambda path: path.symlink_to(path.name)),
    "an image bomb": partial(replaced, make=lambda path: path.write_bytes(bombs.gif(16_000, 16_000))),
    "text": partial(replaced, make=lambda path: path.write_text("not a video")),
    "cut": cut,
}


@pytest.fixture(scope="module", params=VIDEOS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A good source of each reader, made once."""
    root = tmp_path_factory.mktemp("good") / "source"
    root.mkdir()
    SOURCES[request.param].make(root)
    return request.param, root


def judged(episodes: Episodes, folder: Path, judge: Judge) -> Run:
    return stepscore.score(episodes, judge, out=folder)


def test_the_rest_is_as_without_it(made: tuple[str, Path], tmp_path: Path) -> None:
    name, good = made
    source = SOURCES[name]
    here = tmp_path / "source"
    shutil.copytree(good, here, symlinks=True)
    alone = judged(open_episodes(here / source.path).select(source.good), tmp_path / "alone", ReadFrames())
    for number, damage in enumerate(DAMAGE.values()):
        shutil.rmtree(here)
        shutil.copytree(good, here, symlinks=True)
        damage(here / source.files[0])
        episodes = open_episodes(here / source.path)
        run = judged(episodes, tmp_path / f"run_{number}", ReadFrames())
        others = set(episodes.ids()) - set(source.good)
        assert without(run, *others) == without(alone)
        table = run.judgements()
        errors = dict(zip(table["episode_id"].to_pylist(), table["error"].to_pylist(), strict=True))
        # The victim is a row with its error, or, where there is nothing to make an episode of, a problem.
        assert any(errors[one] for one in others) or episodes.problems
        assert all(errors[one] is None for one in source.good)


@pytest.mark.parametrize("name", CURVES)
def test_rows_that_contradict_each_other_are_one_episodes(name: str, tmp_path: Path) -> None:
    source, here = SOURCES[name], tmp_path / "source"
    here.mkdir()
    source.make(here)
    path, recorded = here / source.path, stepscore.get_judge("recorded")
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
        rows[-1]["task"] = "another"
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        head, _, last = path.read_text().rstrip("\n").rpartition("\n")
        path.write_text(f"{head}\n{last.replace('push it', 'another')}\n")
    alone = judged(open_episodes(path).select(source.good), tmp_path / "alone", recorded)
    run = judged(open_episodes(path), tmp_path / "run", recorded)
    assert without(run, "z") == without(alone)
    assert "task is both" in str(run.judgements()["error"].to_pylist()[-1])


@pytest.mark.parametrize("name", ["jsonl", "csv", "yaml"])
@pytest.mark.parametrize(
    "video", ["/dev/zero", "/etc/passwd", "v", "nowhere.mp4", "x" * 300, "x/" * 3000 + "y.mp4"]
)
def test_a_manifest_may_name_anything(name: str, video: str, tmp_path: Path) -> None:
    SOURCES[name].make(tmp_path)
    path = tmp_path / SOURCES[name].path
    path.write_text(path.read_text().replace("v/z.mp4", video))
    run = judged(open_episodes(path), tmp_path / "run", ReadFrames())
    errors = run.judgements()["error"].to_pylist()
    assert errors[:2] == [None, None]
    assert errors[2]

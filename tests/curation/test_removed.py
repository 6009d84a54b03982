"""What a filter removed: reasons, labels, links, and a dataset of the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepscore.curation import EpisodeSelection, removed_episodes, report_of
from stepscore.episodes import open_episodes
from stepscore.errors import OptionError
from stepscore.runs import open_run
from tests.curation.test_weights_command import call, truth  # noqa: F401
from tests.paths import TINY_SIM


@contextmanager
def page_of(run: Path) -> Iterator[Path]:
    """A report next to a run, for as long as the test of it takes: the run is shared."""
    page = run.parent / "report" / "index.html"
    page.parent.mkdir()
    page.touch()
    yield page
    page.unlink()
    page.parent.rmdir()


def test_each_removed_episode_has_its_reason_label_and_link(truth: Path) -> None:  # noqa: F811
    run = open_run(truth)
    rows = run.episodes().select(["episode_id", "success"]).to_pylist()
    labels = {row["episode_id"]: row["success"] for row in rows}
    ids = list(labels)
    selection = EpisodeSelection(tuple(ids[4:]), dict.fromkeys(ids[:4], "too low"))
    found = removed_episodes(run, selection)
    assert {episode.id: episode.success for episode in found.episodes} == {
        name: labels[name] for name in ids[:4]
    }
    assert found.episodes[0].link == f"#/explorer/run/{found.episodes[0].id}"
    assert found.failures_kept == sum(labels[name] is False for name in ids[4:])
    assert found.successes_removed == sum(labels[name] is True for name in ids[:4])
    assert f"kept: {found.failures_kept} of {found.failures}" in found.text
    assert report_of(run) is None
    with page_of(truth) as page:
        assert report_of(run) == page


def test_a_filter_writes_its_dataset_and_lists_what_it_removed(truth: Path, tmp_path: Path) -> None:  # noqa: F811
    out, folder = tmp_path / "kept.parquet", tmp_path / "less"
    options = ("--method", "filter", "--failures", "drop", "-o", out)
    result = call(truth, *options, "--write-dataset", folder, "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert (
        len(open_episodes(folder)) == record["kept"] == len(open_episodes(TINY_SIM)) - len(record["dropped"])
    )
    assert {e["id"] for e in record["removal"]["episodes"]} == set(record["dropped"])
    assert record["removal"]["failures_kept"] == 0
    assert "--dataset.episodes" not in record["command"]
    assert str(folder) in record["command"]
    with page_of(truth):
        again = call(truth, *options, "--force")
    assert "Labelled failures kept: 0 of " in again.stdout
    assert "#/explorer/run/episode_" in again.stdout


def test_the_removed_are_the_most_down_weighted(truth: Path, tmp_path: Path) -> None:  # noqa: F811
    options = ("--method", "awr", "-W", "chunk-size=8", "--failures", "drop")
    result = call(truth, *options, "-o", tmp_path / "w.parquet")
    assert result.exit_code == 0, result.output
    _, _, below = result.stdout.partition("Most down-weighted")
    assert "removed" in below.partition("Removed")[0]


@pytest.mark.parametrize("options", [("rabc", "-W", "chunk-size=8"), ("filter", "-W", "drop-stalls=1")])
def test_a_dataset_needs_whole_episodes(truth: Path, tmp_path: Path, options: tuple[str, ...]) -> None:  # noqa: F811
    out, folder = tmp_path / "w.parquet", tmp_path / "less"
    result = call(truth, "--method", *options, "-o", out, "--write-dataset", folder)
    assert isinstance(result.exception, OptionError)
    assert not folder.exists()

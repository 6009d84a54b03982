"""Rewards of a run, from its curves to the table that ``stepscore rewards`` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscore.curation import METADATA
from stepscore.episodes import open_episodes
from stepscore.errors import OptionError
from stepscore.judges import get_judge
from stepscore.metrics import dense_reward
from stepscore.rewards import RewardOptions, potential_reward, run_rewards
from stepscore.runs import open_run, score
from tests.cli.command_walk import invoke
from tests.paths import ROOT

DEMO = ROOT / "src/stepscore/cli/demo_data"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded curves of three demo episodes; the second has an unknown point, the third no label."""
    folder = tmp_path_factory.mktemp("rewards")
    episodes = open_episodes(DEMO, labels=DEMO / "labels.parquet", limit=3)
    rows: list[dict[str, Any]] = []
    for number, episode in enumerate(episodes):
        times = episode.views[episode.main_view].timestamps()[::9]
        values = np.linspace(0, 1, len(times)) ** 2
        values[2] = np.nan if number == 1 else values[2]
        rows += [
            {"episode_id": episode.id, "time_s": float(t), "progress": None if np.isnan(v) else float(v)}
            for t, v in zip(times, values, strict=True)
        ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "curves.parquet")
    return score(episodes, get_judge("recorded", path=str(folder / "curves.parquet")), folder / "run").path


def test_potential_rewards_of_every_frame(run: Path) -> None:
    made = run_rewards(open_run(run), RewardOptions(gamma=0.9))
    assert len(made.rewards) == len(made.frames) == sum(e.n_frames for e in made.frames.episodes)
    first, stop = made.frames.episodes[0], made.frames.starts[1]
    expected = potential_reward(made.frames.progress[:stop], gamma=0.9, terminated=first.success)
    np.testing.assert_array_equal(made.rewards[:stop], expected)
    assert np.isnan(made.rewards[made.frames.starts[1] : made.frames.starts[2]]).sum() > 9
    assert len(made.sums) == 3
    assert 0 < made.unknown < 1


def test_dense_rewards_are_equation_3_at_the_points(run: Path) -> None:
    made = run_rewards(open_run(run), RewardOptions(form="dense", tau=1.0, delta_max=1.2))
    episode = made.frames.episodes[0]
    weights = dense_reward(episode.values, tau=1.0, delta_max=1.2)
    at = np.round(episode.times * episode.fps).astype(int)
    np.testing.assert_allclose(made.rewards[at[:-1]], weights[1:])


def test_terminal_rewards_are_the_labels_or_the_judge(run: Path) -> None:
    by_label = run_rewards(open_run(run), RewardOptions(form="terminal"))
    ends = by_label.rewards[by_label.frames.starts[1:] - 1]
    labels = [e.success for e in by_label.frames.episodes]
    np.testing.assert_array_equal(ends, [np.nan if one is None else float(one) for one in labels])
    by_judge = run_rewards(open_run(run), RewardOptions(form="terminal", success_by="judge"))
    assert len(by_judge.rewards) == len(by_label.rewards)


@pytest.mark.parametrize("form", ["potential", "relative", "dense", "terminal"])
def test_the_command_writes_a_table(run: Path, tmp_path: Path, form: str) -> None:
    ended = invoke(["rewards", str(run), "-o", str(tmp_path / "r.parquet"), "-W", f"form={form}"])
    assert ended.code == 0, ended.err
    table = pq.read_table(tmp_path / "r.parquet")
    assert table.column_names == ["index", "episode_index", "frame_index", "next.reward", "progress"]
    assert table.column("next.reward").type == pa.float32()
    made = run_rewards(open_run(run), RewardOptions(form=form))  # type: ignore[arg-type]
    assert table.column("next.reward").null_count == np.isnan(made.rewards).sum()
    facts = json.loads(table.schema.metadata[METADATA.encode()])
    assert facts["rewards"]["form"] == form
    assert made.summary() in " ".join(ended.err.split())
    assert facts["protocol"] == open_run(run).protocol.hash
    assert ("weight for imitation" in ended.err) == (form == "dense")


def test_wrong_options_say_what_is_valid(run: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "r.parquet")
    ended = invoke(["rewards", str(run), "-o", out, "-W", "form=dense", "-W", "gamma=0.9"])
    assert ended.code == 2
    assert "gamma does nothing with form=dense, which takes tau, delta_max" in " ".join(ended.err.split())
    with pytest.raises(OptionError, match="form must be potential"):
        RewardOptions(form="sparse")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="lifts every failure"):
        run_rewards(open_run(run), RewardOptions(channel="minmax"))

"""State and action on the page are the recorded ones, in the points that their shape needs and within its size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.episodes import Signal, open_episodes
from stepscore.episodes.lerobot.writing.writer import Recording, write_lerobot
from stepscore.judges import get_judge
from stepscore.report.page import LinkedVideos, ServedTraces, page_data
from stepscore.report.page.packing import unpack
from stepscore.report.page.signals import traces
from stepscore.report.page.signals.traces import TOLERANCE, packed_traces, trace_of
from stepscore.report.run_sources import RunSources
from stepscore.runs import Run, score
from stepscore.types import FloatArray
from tests.media import numbered, write_video

FRAMES = 24


def recorded(episode: int) -> tuple[FloatArray, FloatArray]:
    """State and action of an episode; some of the state is unknown."""
    t = np.arange(FRAMES) / 10
    state = np.stack([np.sin(3 * t + episode), np.full(FRAMES, 5.0 + episode)], axis=1)
    state[8:12, 0] = np.nan
    return state, np.stack([np.where(t < 1, 0.0, 1.0), t, np.full(FRAMES, np.nan)], axis=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("arm")
    recordings = []
    for k in range(4):
        state, action = recorded(k)
        frames = [
            {"observation.images.top": numbered(i), "observation.state": state[i], "action": action[i]}
            for i in range(FRAMES)
        ]
        recordings.append(Recording("lift", frames))
    write_lerobot(folder / "data", recordings, fps=10.0)
    return score(open_episodes(folder / "data"), get_judge("linear-time"), folder / "run")


def drawn(table: Any) -> dict[int, dict[str, Any]]:
    """Decode a TraceTable as web/src/traces.ts does."""
    times, codes = unpack(table["times"]), unpack(table["values"])
    low, high = unpack(table["low"]), unpack(table["high"])
    found: dict[int, dict[str, Any]] = {}
    point = dimension = value = 0
    for row, episode in enumerate(table["episode"]):
        n = table["length"][row]
        signals: dict[str, list[FloatArray]] = {}
        for signal in table["layouts"][table["layout"][row]]:
            for _ in signal["dimensions"]:
                share = codes[value : value + n] / 65_534
                line = low[dimension] + share * (high[dimension] - low[dimension])
                signals.setdefault(signal["signal"], []).append(line)
                dimension, value = dimension + 1, value + n
        found[episode] = {"times": times[point : point + n], "steps": table["steps"][row], **signals}
        point += n
    return found


def test_the_lines_on_the_page_are_the_recorded_ones(run: Run, tmp_path: Path) -> None:
    table = page_data([run], LinkedVideos(tmp_path))["traces"]
    json.dumps(table, allow_nan=False)
    shown = drawn(table)
    assert list(shown) == [0, 1, 2, 3]
    assert (table["served"], table["left_out"], table["unavailable"]) == (None, [], {})
    for k, trace in shown.items():
        assert trace["steps"] == FRAMES
        for name, values in zip(("observation.state", "action"), recorded(k), strict=True):
            for line, truth in zip(trace[name], values.T, strict=True):
                known = np.isfinite(truth)
                at = np.arange(FRAMES) / 10
                spread = np.ptp(truth[known]) if known.any() else 0.0
                between = np.array([_line_at(trace["times"], line, t) for t in at])
                np.testing.assert_array_equal(np.isfinite(between), known)
                assert np.all(np.abs(between - truth)[known] <= (TOLERANCE + 1e-3) * spread + 1e-9)


def _line_at(times: FloatArray, line: FloatArray, t: float) -> float:
    """A straight line between neighbours; unknown if one of them is, at a point its own value."""
    at = int(np.argmin(np.abs(times - t)))
    if abs(times[at] - t) < 1e-3:
        return float(line[at])
    after = int(np.searchsorted(times, t))
    share = (t - times[after - 1]) / (times[after] - times[after - 1])
    return float(line[after - 1] + share * (line[after] - line[after - 1]))


@pytest.mark.parametrize("seed", range(3))
def test_a_long_episode_is_thinned_out_where_it_is_straight(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.normal(0, 1, (3000, 5)), axis=0)
    values[1000, 0] = 400.0  # one step alone
    signal = Signal("observation.state", tuple("abcde"), np.arange(3000) / 30, values)
    trace = trace_of(0, [signal])
    assert trace is not None
    assert (len(trace.times), trace.steps) == (traces.MAX_POINTS, 3000)
    assert 400.0 in trace.values[:, 0]
    # The budget of a page is kept by these bytes.
    assert len(json.dumps(packed_traces([trace] * 20))) <= 20 * trace.bytes * 1.05 + 1000
    ramp = Signal("action", ("a",), np.arange(3000) / 30, np.linspace(0, 1, 3000)[:, None])
    short = trace_of(0, [ramp])
    assert short is not None
    assert len(short.times) == 2


def test_many_dimensions_are_cut_and_odd_numbers_are_unknown() -> None:
    times = np.arange(4.0)
    wide = Signal("wide", tuple(map(str, range(100))), times, np.ones((4, 100)))
    odd = Signal("odd", ("x",), times, np.array([[np.inf], [1e308], [-1e308], [0.0]]))
    trace = trace_of(0, [odd, wide])
    assert trace is not None
    assert [(name, len(names), more) for name, names, more in trace.layout] == [
        ("odd", 1, 0),
        ("wide", 63, 37),
    ]
    assert np.isnan(trace.values[0, 0])
    json.dumps(packed_traces([trace]), allow_nan=False)
    assert trace_of(0, []) is None


def test_beyond_the_size_those_looked_at_first_are_kept(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "MAX_BYTES", 1)
    index_first = traces.trace_table(RunSources([run]), _index(run), [2], None)
    assert (index_first["episode"], index_first["left_out"]) == ([2], [0, 1, 3])


def test_a_served_page_asks_for_them_by_numbers_that_stay(run: Run, tmp_path: Path) -> None:
    served = ServedTraces()
    sources, index = RunSources([run]), _index(run)
    table = traces.trace_table(sources, index, [], served)
    assert (table["served"], table["episode"]) == ([0, 1, 2, 3], [])
    later = traces.trace_table(sources, _index(run, skip=1), [], served)
    assert later["served"] == [1, 2, 3]
    one = served.table(2, sources)
    assert one is not None
    np.testing.assert_allclose(drawn(one)[0]["action"][1], np.arange(FRAMES) / 10, atol=1e-4)
    assert served.table(4, sources) is None


def test_a_page_without_videos_or_signals_has_none(run: Run, tmp_path: Path) -> None:
    assert page_data([run])["traces"]["episode"] == []
    write_video(tmp_path / "in" / "a.mp4", 4)
    plain = score(open_episodes(tmp_path / "in"), get_judge("linear-time"), tmp_path / "run")
    table = page_data([plain], LinkedVideos(tmp_path))["traces"]
    assert (table["episode"], table["left_out"], table["unavailable"]) == ([], [], {})


def test_a_data_file_that_is_gone_is_a_reason_and_a_link_out_is_not_followed(
    run: Run, tmp_path: Path
) -> None:
    (data,) = (Path(run.info["source"]) / "data").rglob("*.parquet")
    kept = tmp_path / "elsewhere.parquet"
    data.rename(kept)
    try:
        table = page_data([run], LinkedVideos(tmp_path))["traces"]
        assert table["episode"] == []
        assert set(table["unavailable"]) == {"0", "1", "2", "3"}
        data.symlink_to(kept)
        table = page_data([run], LinkedVideos(tmp_path))["traces"]
        assert "outside of its source" in table["unavailable"]["0"]
    finally:
        data.unlink(missing_ok=True)
        kept.rename(data)


def _index(run: Run, skip: int = 0) -> Any:
    from stepscore.report.page.episodes import EpisodeIndex, index_episodes

    whole = index_episodes(run.episodes().to_pylist())
    rows = whole.rows[skip:]
    return EpisodeIndex(rows, {(row["source"], row["episode_id"]): n for n, row in enumerate(rows)})

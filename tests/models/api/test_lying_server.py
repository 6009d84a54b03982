"""Nothing a server says can harm a run: each lie of ``lies.py`` against a run of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscore
from tests.models.api.lies import CALLS, LIES
from tests.models.api.lying_server import MAX_COST, Outcome, holding_key, make_videos, run_against

MAX_MEMORY = 512 << 20
"""Most resident memory of a run, in bytes; one with an honest server has about 200 MB."""

IN_THE_TABLE_ALONE = {
    *(f"usage {what}" for what in ("of 10**12 tokens", "fractional", "NaN", "a text", "0", "a list")),
    *(f"log-probability {what}" for what in ("NaN", "1e999", "true", "a text")),
    *(
        "deflate bomb",
        "no choices",
        "an empty body",
        "a list",
        "a page of HTML",
        "content-length of 400 digits",
    ),
}
"""Lies that are like others; their values are those of the unit tests, and the table has them all."""


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_videos(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="module", params=[name for name in LIES if name not in IN_THE_TABLE_ALONE])
def told(
    request: pytest.FixtureRequest, videos: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Outcome]:
    return request.param, run_against(LIES[request.param], videos, tmp_path_factory.mktemp("lie"))


@pytest.mark.slow
def test_a_lie_harms_nothing(told: tuple[str, Outcome]) -> None:
    name, found = told
    lie = LIES[name]
    assert lie.says in found.printed + "".join(found.errors), "what is wrong is said"
    assert "Traceback" not in found.printed
    assert found.codes == [lie.code, 0, 0], "the run can be read, and made a page of"
    # The budget: what the server got is what the run knows of, and neither limit is passed.
    assert found.requests == len(found.states) <= CALLS
    expected = 2 if lie.judge == "topreward" and lie.code else lie.requests
    # A long wait that ends the patience ends it for the calls that wait; those under way by then are still sent.
    assert expected - lie.unsent <= found.requests <= expected
    assert {state for state, _ in found.states} <= {lie.state, "refused"}
    assert 0 <= found.cost <= MAX_COST
    assert all(cost >= 0 for _, cost in found.states)
    assert found.memory < MAX_MEMORY
    assert holding_key(found.folder) == []
    run = stepscore.open_run(found.run)
    assert run.info["spent"]["total"]["attempts"] == found.requests
    assert all(count is None or 0 < count < 1 << 31 for count in run.calls().column("tokens_in").to_pylist())
    if lie.judge == "topreward":
        assert run.curves().column("progress").null_count == len(run.curves())


def test_the_search_for_the_key_finds_it_wherever_it_is(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from stepscore.models.calls.answer_cache import CallCache
    from tests.models.api.lies import KEY

    (tmp_path / "page.html").write_text(f"<p>{KEY}</p>")
    pq.write_table(
        pa.table({"answer": [f"so {KEY[:14]}"] * 100}), tmp_path / "calls.parquet", compression="zstd"
    )
    cache = CallCache(tmp_path / "calls.sqlite")
    cache.put("k", "m", {"text": KEY * 50})
    cache.close()
    (tmp_path / "clean.txt").write_text("nothing")
    assert holding_key(tmp_path) == ["calls.parquet", "calls.sqlite", "page.html"]

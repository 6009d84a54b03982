"""A server that is killed in mid-run, real token counts, and a prefix cache that shows what it saved."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import stepscore
from stepscore.cli.app import app
from stepscore.cli.judging.demo import ROLLOUTS
from stepscore.episodes import Episode
from stepscore.models import get_model
from stepscore.runs import CallOptions, dry_run
from tests.vllm.server import START_S, VllmServer

PREFIXES = 8


def test_a_server_killed_in_mid_run_is_waited_for_and_asked_nothing_again(
    tiny: VllmServer, rollouts: list[Episode], tmp_path: Path
) -> None:
    said: list[str] = []
    judge = stepscore.get_judge(
        "topreward", model=get_model(tiny.model, base_url=tiny.url), prefixes=PREFIXES, size=128
    )
    options = CallOptions(cache_path=tmp_path / "cache.sqlite", patience_s=1.5 * START_S, on_wait=said.append)
    before, away = tiny.answered(), 0.0

    def kill_and_start_again() -> None:
        nonlocal away
        while tiny.answered() < before + 9:
            time.sleep(0.02)
        tiny.kill()
        killed = time.monotonic()
        tiny.start()
        away = time.monotonic() - killed

    operator = threading.Thread(target=kill_and_start_again, daemon=True)
    operator.start()
    run = stepscore.score(rollouts, judge, out=tmp_path / "run", call_options=options)
    operator.join()

    print(f"\naway for {away:.0f} s;", *said, sep="\n")
    assert run.judgements().column("error").to_pylist() == [None] * 3
    assert run.curves().column("progress").null_count == 0
    calls = sum(run.usage().column("calls").to_pylist())
    spent = run.info["spent"]["total"]
    assert calls == 3 * PREFIXES
    assert spent["answered"] == calls, "no answered call was asked again"
    # One answer a rollout may have been on its way when it was killed.
    assert calls <= tiny.answered() - before <= calls + 3
    assert any("the server does not answer" in line and "-E patience" in line for line in said)
    assert any("the server answers again after" in line for line in said)


def test_real_counts_correct_the_dry_run(tiny: VllmServer, rollouts: list[Episode], tmp_path: Path) -> None:
    model = get_model(tiny.model, base_url=tiny.url)
    judge = stepscore.get_judge("hop", model=model, points=4, max_tokens=4)
    options = CallOptions(cache_path=tmp_path / "cache.sqlite")
    guessed = dry_run(rollouts, judge, options).tokens_in
    stepscore.score(rollouts[:1], judge, out=tmp_path / "first", call_options=options)
    corrected = dry_run(rollouts, judge, options)
    run = stepscore.score(rollouts, judge, out=tmp_path / "all", call_options=options)
    real = sum(run.usage().column("tokens_in").to_pylist())
    print(f"\ntokens in: {guessed} guessed, {corrected.tokens_in} after one rollout, {real} really")
    assert corrected.counted > 0
    assert corrected.tokens_in == pytest.approx(real, rel=0.02)
    assert abs(corrected.tokens_in - real) < abs(guessed - real)


def test_the_command_shows_what_the_prefix_cache_saved(tiny: VllmServer, tmp_path: Path) -> None:
    command = ["judge", str(ROLLOUTS), "--limit", "2", "--judge", "topreward", "-J", "size=128"]
    command += [
        "--model",
        tiny.model,
        "-M",
        f"base-url={tiny.url}",
        "-E",
        "cache=false",
        "-o",
        str(tmp_path / "run"),
    ]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    line = next(line for line in shown.output.splitlines() if "Prefix cache of the server" in line)
    print(f"\n{line}")
    assert "another question" not in shown.output

"""A Robometer checkpoint as judge, from recordings to a run: what comes out is what its heads give by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import stepscore
from stepscore.cli.app import app
from stepscore.episodes import Clip, Episode, open_episodes
from stepscore.judges import get_judge, prefer
from stepscore.judges.published.robometer import Robometer, spread_indices
from stepscore.models import get_model
from tests.judges.asked import run_judge
from tests.media import write_video
from tests.models.robometer import tiny_robometer as tiny_rbm
from tests.paths import ROOT


@pytest.fixture(scope="module", params=tiny_rbm.LAYOUTS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp(request.param)
    base = tiny_rbm.save_tokenizer(made / "base", tiny_rbm.base_tokenizer())
    return tiny_rbm.save(made / "Robometer-tiny", request.param, base_model=str(base))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("source")
    for name, frames in (("one", 20), ("two", 5)):
        write_video(made / f"{name}.mp4", n=frames)
    return made


def test_a_run_gives_what_a_plain_forward_and_the_heads_by_hand_give(
    folder: Path, source: Path, tmp_path: Path
) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(tiny_rbm.PROMPT)
    judge = get_judge("robometer", model=f"hf/{folder}", prompt=str(prompt))
    episodes = open_episodes(source, instruction="open the drawer")
    run = run_judge(judge, list(episodes), tmp_path / "run")
    curves = run.curves().to_pylist()
    text = tiny_rbm.progress_text(tiny_rbm.PROMPT.format(task="open the drawer"), 8)
    for one in episodes:
        n = one.views[one.main_view].info().n_frames
        indices = [*spread_indices(n, 8), *[n - 1] * (8 - min(n, 8))]
        clip = one.clip(one.main_view, indices=indices)
        points = [point for point in curves if point["episode_id"] == one.id]
        kept = [*range(min(n, 8) - 1), 7]
        for head in ("progress", "success"):
            expected = tiny_rbm.reference(text, (clip,), "<|prog_token|>", head)[kept]
            np.testing.assert_allclose([point[head] for point in points], expected, atol=1e-5)


def test_a_preference_of_two_recordings_is_that_of_the_head_by_hand(folder: Path, source: Path) -> None:
    judge = Robometer(get_model(f"hf/{folder}"), both_orders=True, prompt="own", pair_prompt="own")
    one, two = open_episodes(source, instruction="open the drawer")
    found = prefer(judge, one, two)
    assert found.swapped is not None
    a, b = (_shown(each) for each in (one, two))
    assert found.forward == pytest.approx(_preferred(judge, a, b), abs=1e-5)
    assert found.swapped == pytest.approx(1 - _preferred(judge, b, a), abs=1e-5)
    assert abs(found.order_effect) > 1e-6  # the published head is not antisymmetric by construction


def _shown(one: Episode) -> Clip:
    n = one.views[one.main_view].info().n_frames
    return one.clip(one.main_view, indices=[*spread_indices(n, 8), *[n - 1] * (8 - min(n, 8))])


def _preferred(judge: Robometer, first: Clip, second: Clip) -> float:
    from stepscore.judges.common.prompts import load_prompt

    texts = {name: part.text for name, part in load_prompt("own_robometer_preference").sections().items()}
    before = (texts["user"] + texts["progress"] + texts["first"]).replace("{task}", "open the drawer")
    text = tiny_rbm.preference_text((before, texts["second"], texts["last"]), len(first), len(second))
    return float(tiny_rbm.reference(text, (first, second), "<|pref_token|>", "preference")[0])


def test_the_command_line_judges_end_to_end(folder: Path, source: Path, tmp_path: Path) -> None:
    def run(*arguments: object) -> str:
        done = CliRunner().invoke(app, [*map(str, arguments)])
        assert done.exit_code == 0, done.output
        return done.output

    judged = ("judge", source, "--judge", "robometer", "--model", f"hf/{folder}", "-J", "prompt=own")
    asked_for = ("--instruction", "open the drawer")
    assert "16 images" in " ".join(run(*judged, *asked_for, "-o", tmp_path / "run", "--dry-run").split())
    assert "unknown" in run(*judged, *asked_for, "-o", tmp_path / "run", "-E", "cache=false")  # its licence
    opened = stepscore.open_run(tmp_path / "run")
    assert opened.judgements().column("error").to_pylist() == [None, None]
    protocol = json.loads((tmp_path / "run" / "run.json").read_text())["protocol"]
    assert (protocol["judge"]["name"], protocol["model"]["heads"]["bins"]) == ("robometer", 10)
    calls = opened.calls().to_pylist()
    assert {call["kind"] for call in calls} == {"predict-progress"}
    assert all("open the drawer" in call["prompt"] and call["tokens_in"] > 50 for call in calls)


def test_the_lines_of_its_page_work(
    folder: Path,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (ROOT / "docs" / "judges" / "robometer.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "Robometer-4B").symlink_to(folder)
    (tmp_path / "rollouts").symlink_to(source)
    monkeypatch.chdir(tmp_path)
    exec(block, {})
    probability, effect = map(float, capsys.readouterr().out.split())
    assert 0 < probability < 1
    assert abs(effect) < 1

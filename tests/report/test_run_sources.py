"""A run folder from a stranger: no network call, and no file but what was judged, unless asked for."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
import stamina

import stepscore
from stepscore.cli.main import run
from stepscore.episodes.remote import RemoteFile, RemoteVideo
from stepscore.errors import EpisodeError, SourceError, StepScoreError
from stepscore.report.page.videos import view_on_disk
from stepscore.report.run_sources import RunSources
from stepscore.runs import Run
from stepscore.server import LivePage
from tests.episodes.lerobot.datasets import dataset
from tests.episodes.remote.fake_hub import fake_hub, use_hub
from tests.episodes.remote.stores import upload
from tests.media import write_video


@pytest.fixture
def rollouts(tmp_path: Path) -> Path:
    for number, name in enumerate(("a", "b"), 1):
        write_video(tmp_path / "rollouts" / f"{name}.mp4", 6 * number)
    return tmp_path / "rollouts"


@pytest.fixture
def judged(rollouts: Path, tmp_path: Path) -> Run:
    return stepscore.score(
        stepscore.open_episodes(rollouts), stepscore.get_judge("linear-time", points=4), out=tmp_path / "run"
    )


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every way to another machine is an error, and is written down."""
    tried: list[str] = []

    def refuse(*arguments: Any, **options: Any) -> Any:
        tried.append(str(arguments))
        raise OSError(101, "Network is unreachable")

    for name in ("getaddrinfo", "create_connection", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)
    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    return tried


def forge(run: Run, **fields: object) -> Run:
    """Change what a run says about all of its episodes."""
    info = json.loads((run.path / "run.json").read_text())
    if "source" in fields:
        info["source"] = fields["source"]
    (run.path / "run.json").write_text(json.dumps(info))
    journal = run.path / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        line["episode"] |= fields
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return stepscore.open_run(run.path)


def why(run: Run, source: str | None = None) -> list[str]:
    """Return for every camera of a run why it cannot be used."""
    sources = RunSources([run], source)
    return [str(view) for row in run.episodes().to_pylist() for view in sources.views(row).values()]


def usable(run: Run, source: str | None = None) -> int:
    sources = RunSources([run], source)
    views = [view for row in run.episodes().to_pylist() for view in sources.views(row).values()]
    return sum(not isinstance(view, str) for view in views)


def copied(run_folder: Path, out: Path, *options: str) -> list[str]:
    assert run(["report", str(run_folder), "-o", str(out), "--copy-videos", *options]) == 0
    return sorted(path.name for path in out.rglob("*") if path.is_file() and path.name != "index.html")


def test_the_recordings_of_ones_own_run_are_found(judged: Run, tmp_path: Path) -> None:
    assert usable(judged) == 2
    assert copied(judged.path, tmp_path / "page") == ["00001-a.mp4", "00002-b.mp4"]


@pytest.mark.parametrize(
    "source",
    ["lerobot/pusht", "https://example.org/x", "hf://datasets/a/b", "//host/share", "a" * 5000, "\x00"],
)
def test_no_command_makes_a_network_call(
    source: str, judged: Run, tmp_path: Path, no_network: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = forge(judged, source=source).path
    run_folder = str(folder)
    assert copied(folder, tmp_path / "page") == []
    assert b"not on this machine" in LivePage([folder]).page()
    assert run(["metrics", run_folder, "--json"]) == 0
    assert run(["weights", run_folder, "-o", str(tmp_path / "w.parquet"), "--method", "filter"]) == 0
    capsys.readouterr()
    if (
        code := run(["plot", run_folder, "-o", str(tmp_path / "p"), "--kind", "overlay", "--episode", "a"])
    ) != 2:
        pytest.fail(f"plot ended with {code}")
    assert "Traceback" not in capsys.readouterr().err
    assert no_network == []


def test_a_source_that_the_user_names_may_be_on_the_hub(
    judged: Run, tmp_path: Path, no_network: list[str]
) -> None:
    pytest.importorskip("huggingface_hub")
    sources = RunSources([judged], "lerobot/some-set-that-is-not-here")
    with stamina.set_testing(True), pytest.raises(StepScoreError, match="the Hub is not reached"):
        sources.episode(judged.episodes().to_pylist()[0])
    assert no_network


def test_a_video_that_was_not_judged_is_not_copied(judged: Run, rollouts: Path, tmp_path: Path) -> None:
    # As if the stranger had guessed where videos are, but does not know them.
    write_video(rollouts / "a.mp4", 9)
    assert copied(judged.path, tmp_path / "page") == ["00001-b.mp4"]
    assert "has changed since it was judged" in why(judged)[0]
    # The user's word on where they are is no word on what was judged.
    assert usable(judged, str(rollouts)) == 1


@pytest.mark.parametrize("fingerprint", [None, "", "0" * 64])
def test_an_unknown_fingerprint_opens_nothing(fingerprint: str | None, judged: Run, tmp_path: Path) -> None:
    assert copied(forge(judged, fingerprint=fingerprint).path, tmp_path / "page") == []


def test_links_that_lead_out_of_the_source_are_followed_only_if_it_is_named(
    judged: Run, rollouts: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    shutil.move(rollouts / "a.mp4", tmp_path / "elsewhere" / "a.mp4")
    (rollouts / "a.mp4").symlink_to(tmp_path / "elsewhere" / "a.mp4")
    assert copied(judged.path, tmp_path / "page") == ["00001-b.mp4"]
    assert "is outside of its source" in why(judged)[0]
    named = copied(judged.path, tmp_path / "named", "--source", str(rollouts))
    assert named == ["00001-a.mp4", "00002-b.mp4"]


def test_a_manifest_that_names_files_outside_is_followed_only_if_it_is_named(
    rollouts: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "listed"
    folder.mkdir()
    row = {"id": "a", "instruction": "open it", "views": {"top": str(rollouts / "a.mp4")}}
    (folder / "manifest.jsonl").write_text(json.dumps(row) + "\n")
    judge = stepscore.get_judge("linear-time", points=4)
    judged = stepscore.score(stepscore.open_episodes(folder), judge, out=tmp_path / "run")
    assert judged.judgements().column("error").to_pylist() == [None]
    assert usable(judged) == 0
    assert usable(judged, str(folder)) == 1


@pytest.mark.parametrize("wide", ["/", "home", "above home"])
def test_a_source_as_wide_as_the_machine_is_not_searched(
    wide: str, judged: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "users" / "me"))
    (tmp_path / "users" / "me").mkdir(parents=True)
    source = {"/": os.path.abspath(os.sep), "home": str(tmp_path / "users" / "me")}.get(
        wide, str(tmp_path / "users")
    )
    forged = forge(judged, source=source)
    with pytest.raises(SourceError, match="is not searched unless you name it"):
        RunSources([forged]).episode(forged.episodes().to_pylist()[0])


@pytest.mark.parametrize("source", ["", "run.json", "/dev/zero", "/etc/passwd", "."])
def test_a_source_that_is_none_is_a_reason_on_the_page(source: str, judged: Run, tmp_path: Path) -> None:
    forged = forge(judged, source=source)
    assert usable(forged) == 0
    assert copied(forged.path, tmp_path / "page") == []


def test_an_episode_without_video_says_so(tmp_path: Path) -> None:
    (tmp_path / "curves").mkdir()
    (tmp_path / "curves" / "c.csv").write_text("episode_id,time_s,progress\na,0,0\na,1,0.5\n")
    episodes = stepscore.open_episodes(tmp_path / "curves" / "c.csv")
    judged = stepscore.score(episodes, stepscore.get_judge("recorded"), out=tmp_path / "run")
    with pytest.raises(EpisodeError, match="only a recorded curve"):
        RunSources([judged]).episode(judged.episodes().to_pylist()[0])


def test_frames_of_a_dataset_at_a_url_come_from_what_was_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "cache"))
    url = upload(dataset(tmp_path / "local", lengths=(60, 60)), "memory://bucket/pages")
    judge = stepscore.get_judge("image-difference", points=3)
    run = stepscore.score(stepscore.open_episodes(url), judge, out=tmp_path / "run", views=["top"])
    row = run.episodes().to_pylist()[0]
    fsspec.filesystem("memory").rm("/bucket", recursive=True)
    episode = RunSources([run]).episode(row)
    assert episode.view("top").read([0, 59]).shape[0] == 2
    assert [signal.name for signal in RunSources([run]).signals(row)][:1] == ["observation.state"]
    other = RunSources([run]).views(row)["wrist"]  # which was not judged
    assert not isinstance(other, str)
    with pytest.raises(StepScoreError, match="has not been fetched"):
        other.read([0])
    shutil.rmtree(tmp_path / "cache")
    assert "not on this machine" in why(run)[0]


def test_frames_of_a_dataset_on_the_hub_come_from_what_was_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("huggingface_hub")
    with fake_hub() as hub:
        use_hub(monkeypatch, hub, tmp_path)
        hub.upload(dataset(tmp_path / "local", lengths=(60, 60)), "ann/pages")
        judge = stepscore.get_judge("image-difference", points=3)
        episodes = stepscore.open_episodes("ann/pages")
        judged = stepscore.score(episodes, judge, out=tmp_path / "run", views=["top"])
        hub.asked.clear()
        row = judged.episodes().to_pylist()[0]
        assert (row["source"], row["dataset"]) == ("ann/pages", "ann/pages")
        sources = RunSources([judged])
        assert sources.episode(row).view("top").read([0, 59]).shape[0] == 2
        assert [signal.name for signal in sources.signals(row)][:1] == ["observation.state"]
        other = sources.views(row)["wrist"]  # which was not judged
        assert not isinstance(other, str)
        with pytest.raises(StepScoreError, match="has not been fetched"):
            other.read([0])
        # Of the two cameras' videos, the one that was judged is small enough to be here whole.
        assert copied(judged.path, tmp_path / "page") == ["00001-file-000.mp4"]
        assert hub.asked == []
        hub.asked.clear()
        assert RunSources([judged], "ann/pages").episode(row).view("top").read([0]).shape[0] == 1
        assert hub.count(part="/api/") > 0  # who names the source may ask for it


def test_a_video_that_was_read_by_range_is_not_played() -> None:
    far = RemoteVideo(RemoteFile("s3://bucket/set", "videos/a.mp4", 1000, "v1"))
    assert view_on_disk(far) == (
        "The video is read by range and not copied to this machine: s3://bucket/set/videos/a.mp4."
    )

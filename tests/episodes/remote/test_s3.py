"""A dataset in a bucket of an S3-compatible server on loopback, as a user reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.episodes.lerobot.datasets import dataset
from tests.episodes.remote.stores import s3_environment, s3_server, upload


def test_a_bucket_is_judged_as_the_same_dataset_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = dataset(tmp_path / "local", lengths=(40, 40, 40))
    with s3_server() as (address, traffic):
        for name, value in s3_environment(address).items():
            monkeypatch.setenv(name, value)
        import s3fs

        s3fs.S3FileSystem().mkdir("robots")
        upload(local, "s3://robots/blocks")
        traffic.sent.clear()
        environment = {**os.environ, "STEPSCORE_CACHE": str(tmp_path / "cache")}

        def judge(source: str, out: Path) -> None:
            command = [
                *(sys.executable, "-m", "stepscore", "judge", source),
                *("--judge", "image-difference"),
            ]
            command += ["-J", "points=3", "--views", "top", "-o", str(out)]
            subprocess.run(command, check=True, capture_output=True, env=environment, timeout=120)

        judge("s3://robots/blocks", tmp_path / "there")
        files = {path: count for path, count in traffic.sent.items() if path.startswith("/robots/blocks/")}
        judge("s3://robots/blocks", tmp_path / "again")
        assert {
            path: traffic.sent[path] for path in files
        } == files  # the second time, the list of files alone
    judge(str(local), tmp_path / "here")
    for table in ("judgements", "curves"):
        here, there, cached = (tmp_path / name / f"{table}.parquet" for name in ("here", "there", "again"))
        assert here.read_bytes() == there.read_bytes() == cached.read_bytes()
    assert json.loads((tmp_path / "there" / "run.json").read_text())["source"] == "s3://robots/blocks"
    assert sum(count for path, count in files.items() if "images.top" in path) > 0
    assert sum(count for path, count in files.items() if "images.wrist" in path) == 0

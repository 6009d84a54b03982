"""What ``stepscore serve`` refuses before it starts; the server itself is tested in tests/server/reward_api."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscore.errors import OptionError
from stepscore.server import read_token
from tests.cli.command_walk import invoke

JUDGE = ["serve", "--judge", "linear-time", "--port", "0"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_a_token_is_required_off_loopback(host: str) -> None:
    ended = invoke([*JUDGE, "-S", f"host={host}"])
    assert ended.code == 2
    assert "a token is required: --token-file FILE" in " ".join(ended.err.split())


def test_a_token_file_is_private_and_holds_one_long_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for text, wrong in (("short", "at least 16"), ("two words of sixteen", "one token"), ("é" * 20, "ASCII")):
        file.write_text(text)
        file.chmod(0o600)
        with pytest.raises(OptionError, match=wrong):
            read_token(file)
    file.write_text("0123456789abcdef\n")
    assert read_token(file) == "0123456789abcdef"
    if os.name == "posix":
        file.chmod(0o644)
        with pytest.raises(OptionError, match="chmod 600"):
            read_token(file)
    with pytest.raises(OptionError, match="Cannot read the token file"):
        read_token(tmp_path / "absent")


def test_wrong_options_end_before_the_server_starts(tmp_path: Path) -> None:
    assert "--judge" in invoke(["serve"]).err
    assert invoke([*JUDGE, "-S", "body-mb=0"]).code == 2
    assert invoke([*JUDGE, "-S", "no-such=1"]).code == 2
    assert invoke([*JUDGE, "--validation", str(tmp_path / "absent.json")]).code == 2
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    refused = invoke([*JUDGE, "-o", str(tmp_path / "other")])
    assert refused.code == 2
    assert "is not a run folder" in " ".join(refused.err.split())

"""The Python blocks of the page on the reward server run as they are shown, against a server."""

from __future__ import annotations

from stepscore.rewards import RemoteJudge
from tests.docs.python_blocks import PYTHON, shown_blocks
from tests.server.reward_api.serving import serving, video


def test_the_blocks_of_the_page_run() -> None:
    blocks = [b for b in shown_blocks() if b.page == "docs/guides/reward-server.md" and b.language == PYTHON]
    assert blocks
    with serving() as url:
        names = {"SERVER": url, "IMAGES": list(video(4))}
        for block in blocks:
            block.run(names)
    assert isinstance(names["judge"], RemoteJudge)

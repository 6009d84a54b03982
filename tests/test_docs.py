"""What the docs show is run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.paths import ROOT


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_extensions_shown_work_and_are_short(tmp_path: Path) -> None:
    blocks = python_blocks("docs/extending.md")
    assert len(blocks) == 4
    assert all(len(block.splitlines()) < 40 for block in blocks)
    use = """
import sys
from pathlib import Path
import stepscore
from stepscore.testing import write_toy_rollouts
from stepscore.analysis import measure_episodes

made = write_toy_rollouts(Path(sys.argv[1]) / "toys", scenes=1)
folder = Path(sys.argv[1]) / "mine"
folder.mkdir()
(folder / "task.txt").write_text("push")
(folder / "a.mp4").write_bytes(next(made.glob("*/*.mp4")).read_bytes())
episodes = stepscore.open_episodes(folder)
assert episodes.reader == "one-task", episodes
run = stepscore.score(episodes, stepscore.get_judge("brightness", frames=4), out=Path(sys.argv[1]) / "run")
assert run.curves().num_rows == 4 and run.judgements().column("error").null_count == 1
assert 0.0 <= measure_episodes(run).values["half_at"][0] <= 1.0
from stepscore.models import Generate, Prompt, Turn, get_model
assert get_model("echo/x").generate(Generate(Prompt((Turn("user", ("hi",)),)))).text == "0 images"
print("works")
"""
    script = tmp_path / "script.py"
    script.write_text("\n".join([*blocks, use]), encoding="utf-8")
    shown = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True)
    assert shown.stdout.strip() == "works", shown.stderr


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 150
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name} links {link}"

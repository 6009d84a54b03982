"""What the docs show is run, and uses public names alone."""

from __future__ import annotations

import ast
import doctest
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepscore
from stepscore.testing import write_toy_rollouts
from tests.paths import ROOT
from tests.test_house import MODULES, PACKAGES, face_of

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PUBLIC_MODULES = {"stepscore.errors", "stepscore.registry", "stepscore.types", "stepscore.testing"}
ENTRY_POINTS = {"stepscore.judges", "stepscore.models", "stepscore.readers", "stepscore.metrics"}


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def shown_code(text: str) -> Iterator[str]:
    """Every python block and doctest of a page."""
    for kind, block in re.findall(r"```(python|pycon)\n(.*?)```", text, re.DOTALL):
        if kind == "python":
            yield block
        else:
            yield "".join(example.source for example in doctest.DocTestParser().get_examples(block))


def used_names(code: str) -> Iterator[str]:
    """The full name of everything of stepscore that some code imports or reaches by attributes."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "stepscore":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("stepscore."))
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("stepscore."):
            yield ast.unparse(node)


def is_public(name: str) -> bool:
    """Whether a dotted name is a package, or something in the ``__all__`` of one; its own attributes count too."""
    parts = name.split(".")
    for n in range(1, len(parts)):
        home, member = ".".join(parts[:n]), parts[n]
        if home in PUBLIC_MODULES:
            return not member.startswith("_")
        if home in PACKAGES and member in face_of(home):
            return True
    return name in PACKAGES | PUBLIC_MODULES | ENTRY_POINTS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_uses_public_names_alone(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = {name for code in shown_code(text) for name in used_names(code)}
    names |= set(re.findall(r"`(stepscore(?:\.[A-Za-z_]\w*)+)[`(]", text))
    assert not sorted(name for name in names if not is_public(name))


def test_private_names_are_found() -> None:
    code = "from stepscore.runs.journal import Journal\nimport stepscore\nstepscore.score(1)\nstepscore.nothing\n"
    private = {name for name in used_names(code) if not is_public(name)}
    assert private == {"stepscore.runs.journal.Journal", "stepscore.nothing"}
    assert is_public("stepscore.runs.Run.curves")
    assert is_public("stepscore.errors.RunError")


def test_every_package_that_offers_names_lists_them() -> None:
    for package in PACKAGES:
        statements = ast.parse(MODULES[package].read_text(encoding="utf-8")).body
        assert len(statements) == 1 or face_of(package), f"{package} has no __all__"
    assert (ROOT / "src" / "stepscore" / "py.typed").exists()


def test_the_lines_that_read_a_run_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    episodes = stepscore.open_episodes(write_toy_rollouts(tmp_path / "rollouts", scenes=3))
    stepscore.score(episodes, stepscore.get_judge("recorded"), out=tmp_path / "runs" / "a")
    monkeypatch.chdir(tmp_path)
    (block,) = python_blocks("docs/results/runs.md")
    exec(block, {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Run('runs/a', episodes=27, judge='recorded', model=None")
    assert lines[1].startswith("{'policy': 'hasty'} success_label ")
    assert len(lines) == 1 + 5 + 2 * 3


def test_the_lines_of_the_readme_work_and_use_the_whole_public_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toy_rollouts(tmp_path / "rollouts", scenes=3)
    monkeypatch.chdir(tmp_path)
    (block,) = python_blocks("README.md")
    exec(block, {})
    assert stepscore.open_run("runs/x").episodes().num_rows == 27
    assert all(name in block for name in stepscore.__all__ if name != "__version__")


def test_the_extensions_shown_work_and_are_short(tmp_path: Path) -> None:
    blocks = python_blocks("docs/reference/extending.md")
    assert len(blocks) == 7
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

arrays = Path(sys.argv[1]) / "open_drawer"
arrays.mkdir()
for number, name in enumerate("abc"):
    np.save(arrays / f"{name}.npy", np.full((5, 48, 64, 3), number, np.uint8))
(arrays / "outcomes.txt").write_text("a 1\\nb 0\\n")
episodes = stepscore.open_episodes(arrays)
assert [episode.labels.success for episode in episodes] == [True, False, None]
assert episodes[0].clip(count=2, size=32).frames.shape == (2, 24, 32, 3)

def judged(name, script):
    judge = stepscore.get_judge("two-questions", model=get_model(f"mock/{name}", script=script))
    run = stepscore.score(episodes, judge, out=Path(sys.argv[1]) / name)
    return run.verdicts().to_pylist(), run.calls().num_rows

def which(request):
    turns = request.prompt.turns
    return "No." if len(turns) == 1 else f"It said {turns[1].parts[0]} The handle is untouched."

rows, asked = judged("no", which)
assert {row["answer"] for row in rows} == {"no"} and asked == 6, rows
assert rows[0]["why"] == "It said No. The handle is untouched."
rows, asked = judged("yes", lambda request: "Yes")
assert {row["answer"] for row in rows} == {"yes"} and asked == 3, rows
rows, asked = judged("unclear", lambda request: "Hard to say")
assert {row["answer"] for row in rows} == {"unknown"} and asked == 3, rows
print("works")
"""
    script = tmp_path / "script.py"
    script.write_text("\n".join([*blocks, use]), encoding="utf-8")
    shown = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True)
    assert shown.stdout.strip() == "works", shown.stderr


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 150
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page} links {link}"

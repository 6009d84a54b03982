"""What a contributor reads first is true: paths and make targets exist, workflows call make, one version."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import stepscore
from benchmarks.run import BY_HAND, SLOW, benchmarks
from tests.conftest import NEED_EXTRAS
from tests.paths import ROOT
from tests.test_house import MOST_MODULES, ROOMS

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NAMED_MODULES = re.compile(r"python -m ((?:benchmarks|examples)[.\w]*\w)")
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_path_that_contributing_names_exists() -> None:
    named = set(re.findall(r"`((?:\.?[\w-]+/)+[\w.-]*|[\w.-]+\.(?:md|py|toml|txt))`", CONTRIBUTING))
    places = (ROOT, ROOT / "src" / "stepscore")
    assert len(named) > 20
    assert not [name for name in named if not any((place / name).exists() for place in places)]


def test_every_make_target_that_is_named_exists() -> None:
    texts = [CONTRIBUTING, (ROOT / "README.md").read_text(encoding="utf-8")]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / ".github").rglob("*.*") if path.is_file()]
    named = {
        target for text in texts for target in re.findall(r"(?:`|run: |^)make ([a-z-]+)", text, re.MULTILINE)
    }
    assert {"test", "lint", "test-core"} <= named
    assert named <= make_targets()


def test_the_map_of_rooms_is_that_of_the_house() -> None:
    mapped = re.findall(r"^\| `(\w+)` \|", CONTRIBUTING, re.MULTILINE)
    assert mapped == [room for room in ROOMS if (ROOT / "src" / "stepscore" / room).is_dir()]


def test_every_registry_that_is_named_stands_where_it_says() -> None:
    named = re.findall(r"`(\w+)` in `(src/\S+?)`", CONTRIBUTING)
    assert len(named) == 7
    for name, path in named:
        assert re.search(rf"^{name}\b.* = ", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), name


def test_there_is_one_source_of_the_version() -> None:
    project = pyproject()
    assert "version" in project["project"]["dynamic"]
    source = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{stepscore.__version__}"' in source.read_text(encoding="utf-8")
    assert importlib.metadata.version("stepscore") == stepscore.__version__
    assert "version" not in read_yaml(ROOT / "CITATION.cff")
    assert f"## {stepscore.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_badges_are_true() -> None:
    project, badges = pyproject()["project"], ROOT / "docs" / "images" / "badges"
    oldest = project["requires-python"].removeprefix(">=")
    for name, text in (("python", f"python: {oldest}+"), ("licence", f"licence: {project['license']}")):
        assert f"<title>{text}</title>" in (badges / f"{name}.svg").read_text(encoding="utf-8")


def test_the_citation_is_valid() -> None:
    citation = read_yaml(ROOT / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["authors"] == [{"name": "The StepScore authors"}]
    assert citation["license"] == pyproject()["project"]["license"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_make_and_holds_no_secret(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Linted")
    assert "secrets." not in text
    workflow = read_yaml(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] > 0
        commands = [step["run"] for step in job["steps"] if "run" in step]
        publishes = job.get("permissions") == {"id-token": "write"}
        assert publishes or any(command.startswith("make ") for command in commands), name


def test_linux_runs_everything_and_other_systems_the_core() -> None:
    jobs = read_yaml(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    for name in ("lint", "test"):
        assert jobs[name]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert jobs["core"]["strategy"]["matrix"]["os"] == ["macos-latest", "windows-latest"]
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", [path for path in FORMS if path.name != "config.yml"], ids=lambda path: path.name
)
def test_an_issue_form_is_one(path: Path) -> None:
    form = read_yaml(path)
    assert {"name", "description", "body"} <= set(form)
    for field in form["body"]:
        assert field["type"] in {"textarea", "input", "dropdown", "checkboxes", "markdown"}
        assert field["attributes"]["label"]
    assert len({field["id"] for field in form["body"]}) == len(form["body"])


def test_hooks_are_local_and_those_of_make_lint() -> None:
    repos = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    tools = [hook["entry"].split()[0].rpartition("/")[2] for hook in repos[0]["hooks"]]
    lint = re.search(
        r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert lint is not None
    assert tools == re.findall(r"\$\(BIN\)/(\w+)", lint[1])


def test_what_the_core_tests_leave_out_is_there() -> None:
    assert not [name for name in NEED_EXTRAS if not (ROOT / "tests" / name).exists()]


def test_every_benchmark_that_is_named_is_a_module() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "benchmarks").rglob("*.py")]
    named = {name for page in pages for name in NAMED_MODULES.findall(page.read_text(encoding="utf-8"))}
    assert len(named) > 10
    for name in named:
        path = ROOT / name.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), name


def test_every_benchmark_has_its_place_in_the_runner() -> None:
    runs = set(benchmarks())
    assert runs >= SLOW
    assert not runs & BY_HAND
    for name in (*runs, *BY_HAND):
        assert '__name__ == "__main__"' in (ROOT / name.replace(".", "/")).with_suffix(".py").read_text(
            encoding="utf-8"
        )


def test_no_folder_of_benchmarks_or_examples_holds_more_modules_than_a_reader_can_survey() -> None:
    for top in ("benchmarks", "examples"):
        for folder in {path.parent for path in (ROOT / top).rglob("*.py")}:
            modules = [path for path in folder.glob("*.py") if not path.stem.startswith("__")]
            assert len(modules) <= MOST_MODULES, folder


def test_every_prompt_that_the_notice_names_exists() -> None:
    named = re.findall(r"^(\w+\.txt) ", (ROOT / "NOTICE").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) == 5
    folders = [ROOT / "src/stepscore/judges" / name for name in ("prompts", "published")]
    assert not [name for name in named if not any((folder / name).is_file() for folder in folders)]

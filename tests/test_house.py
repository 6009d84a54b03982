"""The house stands as designed: rooms import only rooms above them, by their faces; starting up costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.paths import ROOT

SRC = ROOT / "src" / "stepscore"
ROOMS = [
    "metrics",
    "episodes",
    "models",
    "judges",
    "runs",
    "analysis",
    "procedures",
    "sim",
    "training",
    "curation",
    "audit",
    "report",
    "rewards",
    "server",
    "cli",
    "testing",
]
COMMON = {
    "types",
    "errors",
    "registry",
    "_files",
    "_journals",
    "_local_modules",
    "_locks",
    "_options",
    "_untrusted",
    "_imports",
    "_tables",
    "_threads",
    "_tracebacks",
    "_progress",
    "__init__",
}
HEAVY = ["numpy", "pydantic", "scipy", "pyarrow", "av", "torch", "transformers", "ray", "mujoco"]
MOST_MODULES = 20
"""Usually four to twelve; a folder of more modules than this is two."""


def module_of(path: Path, root: Path = SRC.parent) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in sorted(SRC.rglob("*.py"))}
PACKAGES = {name for name, path in MODULES.items() if path.name == "__init__.py"}


def room_of(module: str) -> str:
    return [*module.split("."), "__init__"][1]


class Import(NamedTuple):
    """An import of a part of stepscore: where it stands, the module, and the name taken from it."""

    place: str
    module: str
    name: str | None

    @property
    def target(self) -> str:
        """The imported module; ``from package import module`` names the module."""
        whole = f"{self.module}.{self.name}"
        return whole if whole in MODULES else self.module


def imports(path: Path) -> Iterator[Import]:
    """Every import of a part of stepscore, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports by a relative name"
            module = node.module or ""
            if module.split(".")[0] == "stepscore":
                yield from (Import(f"{path}:{node.lineno}", module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                Import(f"{path}:{node.lineno}", alias.name, None)
                for alias in node.names
                if alias.name.startswith("stepscore.")
            )


def targets(path: Path) -> set[str]:
    """The modules a file imports."""
    return {one.target for one in imports(path)}


def upward(path: Path, room: str) -> dict[str, str]:
    """Rooms a file imports although they stand below its own, and where."""
    below = ROOMS if room in COMMON else ROOMS[ROOMS.index(room) + 1 :]
    if room == "__init__":
        return {}  # the package's own __init__ hands out names of rooms, lazily; it is the front door
    found = [one for one in imports(path) if room_of(one.target) in below]
    return {room_of(one.target): one.place for one in reversed(found)}  # where it is imported first


def deep(path: Path, room: str) -> dict[str, str]:
    """Imports from another room that go past the faces of its packages, or take what no face names, and where."""
    wrong = {}
    for place, module, name in imports(path):
        if room_of(module) in {room, *COMMON} or module == "stepscore":
            continue
        if module not in PACKAGES:
            if module != "stepscore.testing":
                wrong[module] = place
        elif name is not None and name not in face_of(module):
            wrong[f"{module}.{name}"] = place
    return wrong


def named(wrong: Mapping[str, str], rule: str) -> str:
    return "".join(f"\n{place}: imports {what}; {rule}" for what, place in wrong.items())


def face_of(package: str) -> set[str]:
    """The names in the ``__all__`` of a package."""
    for node in ast.parse(MODULES[package].read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """One cycle for every arrow that closes one, found by depth-first search."""
    found: list[list[str]] = []
    state: dict[str, int] = {}
    trail: list[str] = []

    def visit(module: str) -> None:
        state[module] = 1
        trail.append(module)
        for other in sorted(graph.get(module, ())):
            if state.get(other) == 1:
                found.append([*trail[trail.index(other) :], other])
            elif other not in state:
                visit(other)
        trail.pop()
        state[module] = 2

    for module in sorted(graph):
        if module not in state:
            visit(module)
    return found


def import_graph() -> dict[str, set[str]]:
    """Which module imports which, local imports included.

    A package's own ``__init__`` only names what is inside it, so an arrow to it from inside is not drawn there: a
    module that imports its own package's face is found by the arrow back to itself.
    """
    return {name: targets(path) - {name} for name, path in MODULES.items() if name != "stepscore"}


# `python -m stepscore` is the console script's entry point by another name, and in no room.
FILES = [(path, room_of(name)) for name, path in MODULES.items() if name != "stepscore.__main__"]


def short(value: object) -> str:
    return str(value.relative_to(SRC)) if isinstance(value, Path) else str(value)


def test_every_file_stands_in_a_known_room() -> None:
    unknown = [path for path, room in FILES if room not in {*ROOMS, *COMMON}]
    assert not unknown, f"in no room of ROOMS or COMMON: {', '.join(map(str, unknown))}"


@pytest.mark.parametrize(("path", "room"), FILES, ids=short)
def test_a_room_imports_no_room_below_it(path: Path, room: str) -> None:
    wrong = upward(path, room)
    assert not wrong, named(wrong, f"a room that stands below {room} in CONTRIBUTING.md")


@pytest.mark.parametrize(("path", "room"), FILES, ids=short)
def test_other_rooms_are_imported_through_their_faces(path: Path, room: str) -> None:
    wrong = deep(path, room)
    assert not wrong, named(wrong, "import a name in the __all__ of a package of that room")


def test_no_module_imports_itself_by_a_detour() -> None:
    found = cycles(import_graph())
    assert not found, "".join(f"\n{MODULES[one[0]]}: imports itself: {' -> '.join(one)}" for one in found)


def test_wrong_imports_are_found(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(
        "def f():\n    from stepscore.runs import score\n    from stepscore.runs.journal import Journal\n"
    )
    assert upward(bad, "metrics") == {"runs": f"{bad}:2"}
    assert not upward(bad, "cli")
    assert deep(bad, "cli") == {"stepscore.runs.journal": f"{bad}:3"}
    assert not deep(bad, "runs")
    bad.write_text("from stepscore.runs import no_such_name\n")
    assert list(deep(bad, "cli")) == ["stepscore.runs.no_such_name"]
    assert named(deep(bad, "cli"), "rule") == f"\n{bad}:1: imports stepscore.runs.no_such_name; rule"
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c", "a"]]


def test_every_package_says_what_it_is_for() -> None:
    for package in PACKAGES:
        path = MODULES[package]
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), f"{path}:1: no docstring"


def test_no_folder_holds_more_modules_than_a_reader_can_survey() -> None:
    for package in PACKAGES:
        modules = [path for path in MODULES[package].parent.glob("*.py") if path.name != "__init__.py"]
        listed = ", ".join(sorted(path.name for path in modules))
        assert len(modules) <= MOST_MODULES, (
            f"{MODULES[package].parent} has {len(modules)} modules (at most {MOST_MODULES}): {listed}. "
            "Move some into a folder."
        )


@pytest.mark.parametrize("start", ["import stepscore", "import stepscore.cli.app, stepscore.cli.main, typer"])
def test_importing_loads_no_heavy_module(start: str) -> None:
    check = f"{start}; import sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_help_loads_no_heavy_module() -> None:
    check = (
        "import sys\nfrom stepscore.cli.app import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print('loaded:', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert "judge" in shown.stdout
    assert shown.stdout.strip().endswith("loaded: []")


def test_no_file_names_a_machine() -> None:
    kinds = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".sh", ".json", ".cff", ""}
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if tracked.returncode:
        pytest.skip("not a git checkout")
    for path in (ROOT / name for name in tracked.stdout.splitlines()):
        if path.is_file() and path.suffix in kinds:
            lines = path.read_text(encoding="utf-8", errors="ignore").splitlines()
            for word in ("/" + "work/", "/" + "root/", "/" + "home/"):
                where = [f"{path}:{number}" for number, line in enumerate(lines, 1) if word in line]
                assert not where, f"{word} names a machine: {', '.join(where)}"

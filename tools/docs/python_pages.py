"""The reference of the Python API: one page a package, of the names in its ``__all__``.

The pages hold only directives; mkdocstrings reads the docstrings from the sources when the site is built, and
imports nothing.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tools.docs.paths import ROOT

SOURCES = ROOT / "src"
MODULES = ("stepscore.types", "stepscore.errors", "stepscore.testing")
"""Modules beside the packages whose names are public."""
HIDDEN = ("stepscore.cli",)
"""Packages of the command line, which have a reference of their own."""


class Package(NamedTuple):
    """A package or module with public names."""

    name: str
    names: tuple[str, ...]
    summary: str

    @property
    def page(self) -> str:
        """Its page below ``docs``."""
        return f"reference/python/{self.name}.md"


def packages() -> list[Package]:
    """Return every package that offers names, and the public modules, parents before children."""
    found = [_read(path) for path in sorted((SOURCES / "stepscore").rglob("__init__.py"))]
    found += [_read(SOURCES / f"{name.replace('.', '/')}.py") for name in MODULES]
    return sorted(package for package in found if package.names and not package.name.startswith(HIDDEN))


def _read(path: Path) -> Package:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = path.relative_to(SOURCES).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    summary = (ast.get_docstring(tree) or "").strip().splitlines()[0]
    names = _all(tree) or (_public(tree) if name in MODULES else ())
    return Package(name, names, summary)


def _all(tree: ast.Module) -> tuple[str, ...]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in statement.targets
        ):
            return tuple(ast.literal_eval(statement.value))
    return ()


def _public(tree: ast.Module) -> tuple[str, ...]:
    named = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return tuple(node.name for node in named if not node.name.startswith("_"))


def package_page(package: Package) -> str:
    """Return the page of a package: directives that are filled with its docstring and those of its names."""
    same, elsewhere = _same_named(package), _documented_elsewhere(package)
    apart = {*same, *elsewhere, *_unpacked(package)}
    members = ", ".join(f'"{name}"' for name in package.names if name not in apart)
    page = f"# {package.name}\n\n::: {package.name}\n    options:\n      members: [{members}]\n"
    for name in same:
        page += f"\n::: {package.name}.{name}.{name}\n    options:\n      show_root_heading: true\n"
    for name, home in elsewhere.items():
        page += (
            f"\n## {name} {{ #{package.name}.{name} }}\n\nSee [`{home}`]({home}.md#{home}.{name}.{name}).\n"
        )
    for name in _unpacked(package):
        page += f"\n## {name} {{ #{package.name}.{name} }}\n\nA constant.\n"
    return page


def anchors(package: Package) -> list[str]:
    """Return the anchors that the page of a package must have, one for each of its names."""
    same = _same_named(package)
    named = [name for name in package.names if not name.startswith("__")]
    return [f"{package.name}.{name}.{name}" if name in same else f"{package.name}.{name}" for name in named]


def _same_named(package: Package) -> list[str]:
    """Return the functions that have the name of their module, which mkdocstrings would take for the module."""
    folder = SOURCES / package.name.replace(".", "/")
    return [name for name in package.names if (folder / f"{name}.py").is_file()]


def _documented_elsewhere(package: Package) -> dict[str, str]:
    """Return such functions of packages inside this one that it offers as well, with the package that has them."""
    found = {}
    for name in package.names:
        home = _imports(package.name).get(name, "")
        while home and not (SOURCES / home.replace(".", "/") / f"{name}.py").is_file():
            home = _imports(home).get(name, "")
        if home and home != package.name:
            found[name] = home
    return found


@lru_cache
def _imports(package: str) -> dict[str, str]:
    """Return from which module a package imports each name."""
    path = SOURCES / package.replace(".", "/") / "__init__.py"
    if not path.is_file():
        return {}
    statements = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    found = [node for node in statements if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in found for alias in node.names}


def _unpacked(package: Package) -> list[str]:
    """Return the constants that are assigned several in a line, which mkdocstrings does not find."""
    found = set()
    for path in (SOURCES / package.name.replace(".", "/")).glob("*.py"):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple):
                found |= {target.id for target in statement.targets[0].elts if isinstance(target, ast.Name)}
    return [name for name in package.names if name in found]


def package_index(found: list[Package]) -> str:
    """Return a table of all packages with what they hold, each with a link to its page."""
    rows = [f"| [`{name}`](python/{name}.md) | {summary} | {len(names)} |" for name, names, summary in found]
    return "| package | what is in it | names |\n|---|---|---|\n" + "\n".join(rows) + "\n"

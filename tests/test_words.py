"""The words that docs/glossary.md retired stand nowhere: not in code, the page's sources, docs or ``--help``.

``python tests/test_words.py`` prints how many are left, by file; with a path after it, every line of that path.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import typer.main
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]

RETIRED = {
    "film": "video, clip",
    "movie": "video",
    "picture": "image, frame",
    "moment": "timestamp, time, frame, point",
    "eyes": "encoder",
    "lesson": "training example",
    "teacher": "trainer, loss",
    "teach": "train",
    "taught": "trained",
    "course": "trainer, training run",
    "pupil": "model",
    "dear": "expensive",
    "foreign": "out of distribution, other",
    "nonsense": "random",
    "lies": "perturbations",
    "shelf": "host",
    "shelves": "hosts",
    "recipe": "config",
    "tower": "vision encoder",
    "told": "returned, predicted, stated",
}
"""A retired word, and what to say instead; its plural is retired with it."""

READ = (
    "src/**/*.py",
    "src/**/*.md",
    "tools/**/*.py",
    "web/src/**/*.ts",
    "web/src/**/*.css",
    "web/*.html",
    "docs/**/*.md",
    "README.md",
    "CONTRIBUTING.md",
)


@dataclass(frozen=True)
class Exempt:
    """Text that may hold a retired word, and why."""

    files: str
    """A pattern of paths from the repository's root, or of ``--help`` pages."""
    text: str
    """A regular expression; what it matches in a line is not read."""
    reason: str


EXEMPT = (
    Exempt("*.py", r".*# stored name\b.*", "a key, column, tag or seed that files and caches already hold"),
    Exempt("*.ts", r".*// stored name\b.*", "a key of the page's data"),
    Exempt("*", r"(?i)\bforeign[ _]keys?\b", "SQL's term"),
    Exempt("*.py", r"\bPictureType\b", "PyAV's type"),
    Exempt("web/*", r"</?picture\b|[\"'`]picture[\"'`]|PictureInPicture", "HTML's element"),
    Exempt("*", r"\btold apart\b", "what a sample does not show: two policies that cannot be told apart"),
    Exempt("docs/*", r"^> .*", "a prompt, quoted as it is sent"),
    Exempt("*", r"(?<!\bthe )(?<!\bof )(?<!\band )\blies(?=[ .,;])(?! =)", "the verb"),
    Exempt("*", r"\bshelf-place\b|\b(a|the)[ -]shelf\b", "furniture, in a task of Meta-World; off-the-shelf"),
)
"""Prompt files (``*.txt``) and built assets are not among the files read."""


class Use(NamedTuple):
    """A retired word where it stands."""

    file: str
    line: int
    word: str
    text: str


def words(text: str) -> Iterator[str]:
    """The words of a text in lower case; ``read_films``, ``FilmReader`` and ``filmReader`` are two words each."""
    for run in re.findall(r"[A-Za-z]+", text):
        yield from (word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", run))


def retired(word: str) -> bool:
    return word in RETIRED or word.removesuffix("s") in RETIRED


def uses(name: str, text: str) -> Iterator[Use]:
    """Every retired word of a file or help page, but for what is exempt in it."""
    exempt = [re.compile(one.text) for one in EXEMPT if fnmatch(name, one.files)]
    for number, line in enumerate(text.splitlines(), start=1):
        left = line
        for pattern in exempt:
            left = pattern.sub(" ", left)
        yield from (Use(name, number, word, line.strip()) for word in words(left) if retired(word))


def files() -> Iterator[Path]:
    for pattern in READ:
        yield from (path for path in sorted(ROOT.glob(pattern)) if "assets" not in path.parts)


def in_files() -> Iterator[Use]:
    for path in files():
        yield from uses(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def commands(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words after ``stepscore`` of every command and group of commands."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


def in_help() -> Iterator[Use]:
    from stepscore.cli.app import app

    for path in commands(typer.main.get_command(app)):
        shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
        assert shown.exit_code == 0, (path, shown.output)
        yield from uses(" ".join(("stepscore", *path, "--help")), shown.output)


def instead(word: str) -> str:
    return RETIRED.get(word) or RETIRED[word.removesuffix("s")]


def listed(found: Iterable[Use]) -> str:
    """Every use with its file and line, and what to say instead."""
    return "\n".join(
        f"{use.file}:{use.line}: {use.word} (say {instead(use.word)}): {use.text[:120]}" for use in found
    )


def test_identifiers_are_read_word_by_word() -> None:
    assert list(words("read_films(FilmReader, filmReader, HTMLPicture, n_pictures2)")) == [
        *("read", "films", "film", "reader", "film", "reader"),
        *("html", "picture", "n", "pictures"),
    ]
    assert [
        use.word for use in uses("a.py", "the Films of PICTURES\nfilmed = foreign_key = 'a foreign key'")
    ] == [
        "films",
        "pictures",
    ]
    assert not list(uses("a.py", 'TAG = "film"  # stored name'))
    assert not list(uses("web/src/a.ts", 'element("picture")'))
    assert [use.line for use in uses("docs/a.md", "> a film\na film")] == [2]


def test_a_retired_word_is_named_with_its_file_line_and_replacement() -> None:
    assert listed(uses("docs/a.md", "one\nteachers of films\n")) == (
        "docs/a.md:2: teachers (say trainer, loss): teachers of films\n"
        "docs/a.md:2: films (say video, clip): teachers of films"
    )


def test_no_file_uses_a_retired_word() -> None:
    found = list(in_files())
    assert not found, "\n" + listed(found)


def test_no_help_page_uses_a_retired_word() -> None:
    found = list(in_help())
    assert not found, "\n" + listed(found)


def main(part: str = "") -> None:
    found = [use for use in (*in_files(), *in_help()) if part in use.file]
    if part:
        print(listed(found))
    for file in dict.fromkeys(use.file for use in found):
        these = [use.word for use in found if use.file == file]
        print(f"{len(these):5d}  {file}  ({', '.join(sorted(set(these)))})")
    print(f"{len(found):5d}  in all")


if __name__ == "__main__":
    main(*sys.argv[1:])

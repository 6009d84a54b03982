"""Retired words (docs/glossary.md) and private idioms are in no code, page source, docs or ``--help``.

``python tests/test_words.py`` prints how many are left, by file; with a path after it, every line of that path.
Words are looked up in identifiers too; idioms only in text: docs, ``--help``, comments, docstrings and other strings.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
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

IDIOMS = {
    r"stands? beside|beside every figure": "comes with, is next to",
    r"(is|are|was|were) said": "is reported, printed, stated",
    r"holds? (?-i:for)|hold\w* .{0,40} against them": "applies to, compare",
    r"(?<!there\s)(is|are) (?-i:none)": "there is no ..., invalid",
    r"(anyone|anybody|stranger|one)'s|strangers'": "untrusted, third-party, custom",
    r"of today": "current",
    r"by (itself|themselves)": "automatically, separately",
    r"so many": "a number, this many",
    r"rightly": "correctly",
    r"at all": "leave it out, any",
    r"(is|are|was|goes|gone|go|went) on with|(one|it|run|audit) goes on": "is resumed, continues",
    r"mend(s|ed|ing)?": "fix",
    r"of your own kind": "custom",
    r"of (yours|theirs)": "your own, custom",
    r"(?<!left\s)alone": "only",
    r"stands?(?! for|-)|stood": "is",
    r"nothing of (these|those|this|it)": "none of these",
    r"taken along": "sent, included",
    r"to be (seen|had|read|told)": "visible, available",
    r"from \d+ on": "at least",
    r"whole numbers?": "integer",
    r"it is (true or false|a number|an integer)": "must be ..., got ...",
    r"riddles?": "say what is unclear",
    r"anew": "again",
    r"as many a|many a second": "frames per second",
    r"asked of": "given to, requested from",
    r"once a row|once per row": "once for each row",
    r"nothing in words": "no prompt",
    r"patterned way": "systematically",
    r"the first so": "first error",
}
"""A private idiom as a regular expression (a space is any white space), and what to say instead."""

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
    Exempt("src/stepscore/sim/tasks/*", r"\bstands?\b", "subgoals: what stands on a table"),
    Exempt("src/stepscore/judges/*", r"\beach (asked|scored) alone\b", "a value in protocols"),
    Exempt("docs/measurements/*", r".*", "generated from committed JSON"),
    Exempt("docs/methods/better-policy.md", r"\bgood alone\b", "a configuration in committed JSON"),
    Exempt("src/stepscore/models/embedded/checkpoint/card.md", r".*", "generated with its figures"),
    Exempt(
        "docs/models/embedded.md", r"\bcamera check alone\b", "a column of a table that a benchmark prints"
    ),
    Exempt(
        "src/stepscore/audit/board/topreward.py", r"\bTrue and False alone\b", "quoted in docs/measurements"
    ),
    Exempt("src/stepscore/models/*", r"\bthe text alone is\b", "a message in committed JSON"),
    Exempt("src/*.py", r"^ +alone: |``alone``", "the name of a field and of a parameter"),
    Exempt("web/src/views/subgoals.ts", r"\balone: boolean\b|\bopen: alone\b", "the name of a parameter"),
    Exempt("web/src/*", r"\bmake-anew\b", "the name of a module"),
    Exempt("*", r"\bshelf-place\b|\b(a|the)[ -]shelf\b", "furniture, in a task of Meta-World; off-the-shelf"),
)
"""Prompt files (``*.txt``) and built assets are not among the files read."""


def _pattern(idiom: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{idiom})(?!\w)".replace(" ", r"\s+"), re.IGNORECASE)


IDIOM = _pattern("|".join(IDIOMS))


class Use(NamedTuple):
    """A retired word or idiom, and the line it is in."""

    file: str
    line: int
    word: str
    text: str


Find = Callable[[str, str], Iterable[Use]]


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
        left = _without(line, exempt)
        yield from (Use(name, number, word, line.strip()) for word in words(left) if retired(word))


def written(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Return the pieces of a file that are text, each with the line it starts on; of code, strings and comments."""
    if not name.endswith(".py"):
        yield 1, re.sub(r"(?ms)^```.*?^```", lambda code: "\n" * code[0].count("\n"), text)
        return
    lines = io.StringIO(text).readline
    texts = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(lines):
        if token.type in texts:
            yield token.start[0], token.string


def idioms(name: str, text: str) -> Iterator[Use]:
    """Every private idiom in the text of a file or help page, but for what is exempt."""
    exempt = [re.compile(one.text) for one in EXEMPT if fnmatch(name, one.files)]
    stored = {n for n, line in enumerate(text.splitlines(), start=1) if "# stored name" in line}
    for start, piece in written(name, text):
        left = "\n".join(_without(line, exempt) for line in piece.split("\n"))
        for found in IDIOM.finditer(left):
            line = start + left[: found.start()].count("\n")
            if line not in stored:
                yield Use(name, line, found[0], piece.split("\n")[line - start].strip())


def _without(line: str, exempt: list[re.Pattern[str]]) -> str:
    for pattern in exempt:
        line = pattern.sub(" ", line)
    return line


def files() -> Iterator[Path]:
    for pattern in READ:
        yield from (path for path in sorted(ROOT.glob(pattern)) if "assets" not in path.parts)


def in_files(find: Find = uses) -> Iterator[Use]:
    for path in files():
        yield from find(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def commands(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words after ``stepscore`` of every command and group of commands."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


@cache
def help_pages() -> dict[str, str]:
    from stepscore.cli.app import app

    pages = {}
    for path in commands(typer.main.get_command(app)):
        shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
        assert shown.exit_code == 0, (path, shown.output)
        pages[" ".join(("stepscore", *path, "--help"))] = shown.output
    return pages


def in_help(find: Find = uses) -> Iterator[Use]:
    for name, page in help_pages().items():
        yield from find(name, page)


def instead(word: str) -> str:
    known = RETIRED.get(word) or RETIRED.get(word.removesuffix("s"))
    return known or next(say for idiom, say in IDIOMS.items() if _pattern(idiom).fullmatch(word))


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


def test_idioms_are_found_in_text_but_not_in_code() -> None:
    code = 'def f(alone):\n    """Nothing\n    of these."""\n    stand = "so many"\n    return "alone"  # stored name'
    assert [(use.line, use.word) for use in idioms("a.py", code)] == [
        (2, "Nothing\n    of these"),
        (4, "so many"),
    ]
    page = "a\n```\nstands\n```\nThe value is none. It is None.\n"
    assert listed(idioms("a.md", page)) == (
        "a.md:5: is none (say there is no ..., invalid): The value is none. It is None."
    )


def test_no_text_uses_a_private_idiom() -> None:
    found = [*in_files(idioms), *in_help(idioms)]
    assert not found, "\n" + listed(found)


def main(part: str = "") -> None:
    found = [use for find in (uses, idioms) for use in (*in_files(find), *in_help(find)) if part in use.file]
    if part:
        print(listed(found))
    for file in dict.fromkeys(use.file for use in found):
        these = [use.word for use in found if use.file == file]
        print(f"{len(these):5d}  {file}  ({', '.join(sorted(set(these)))})")
    print(f"{len(found):5d}  in all")


if __name__ == "__main__":
    main(*sys.argv[1:])

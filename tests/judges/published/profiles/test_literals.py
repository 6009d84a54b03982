"""Texts are read from a Python file without running any of it."""

from __future__ import annotations

import pytest

from stepscore.errors import ModelError
from stepscore.judges.published.profiles.literals import string_literal

SOURCE = b'''
import sys
sys.exit("this file must never run")
PLAIN = """
One {task}
"""
SUM = "first " + "second " + \\
    "third"
TWICE = "a"
TWICE = "b"
COMPUTED = "a".upper()
FSTRING = f"{PLAIN} x"
ROUNDED = f"{3.14:.1f}"
QUOTED = f"{PLAIN!r}"

class Client:
    def __init__(self):
        """A docstring is not assigned."""
        self.data.prompts['pair'] = "pair {}"
        self.prompts = {"done": "done {}", "other": "other", 3: "three", **{}}

    def build(self, task):
        prompt = """Task: {task}""".format(task=task)
        return prompt

    def parts(self, task):
        prompt = f"Do '{task.text}', "
        found = [{"type": "text", "text": prompt}, {"type": "text", "text": "first"}]
        found.append({"text": 3})
        found.extend([{"text": "second"}, {"other": "no"}])
        return found

    def choose(self, text=None):
        if text is not None:
            self.system = text
        elif text == "default":
            self.system = None
        else:
            self.system = "chosen"
'''


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("PLAIN", "\nOne {task}\n"),
        ("SUM", "first second third"),
        ("Client.__init__ > self.data.prompts['pair']", "pair {}"),
        ("Client.__init__ > self.prompts > done", "done {}"),
        ("Client.build > prompt", "Task: {task}"),
        ("Client.choose > self.system", "chosen"),
        ("FSTRING", "{PLAIN} x"),
        ("Client.parts > prompt", "Do '{task.text}', "),
        ("Client.parts > {text} > 1", "first"),
        ("Client.parts > {text} > 2", "second"),
    ],
)
def test_a_string_is_found_where_it_is_assigned(path: str, text: str) -> None:
    assert string_literal(SOURCE, path) == text


@pytest.mark.parametrize(
    "path",
    [
        "MISSING",
        "TWICE",
        "COMPUTED",
        "ROUNDED",
        "QUOTED",
        "Client.parts > {text} > 0",
        "Client.parts > {text} > 3",
        "Client.parts > {nothing} > 1",
        "Client.__init__ > self.prompts > missing",
        "Nobody.f > x",
        "prompt",
    ],
)
def test_what_is_not_one_literal_is_refused(path: str) -> None:
    with pytest.raises(ModelError):
        string_literal(SOURCE, path)


@pytest.mark.parametrize("source", [b"a = (", b"\xff\xfe", b"x = " + b"(" * 5000])
def test_what_is_no_python_is_refused(source: bytes) -> None:
    with pytest.raises(ModelError, match="Python"):
        string_literal(source, "a")

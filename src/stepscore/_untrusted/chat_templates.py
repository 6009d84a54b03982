"""Bounds of chat templates: a template is a program that comes with a checkpoint.

transformers runs it in jinja's sandbox, which keeps it from files and from Python's internals, not from endless
loops or from texts of any length. Here its steps are counted; operators, filters and calls refuse to make a value
that is too long; and the text it writes is measured while it is written.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any

from stepscore.errors import ModelError

MAX_STEPS = 1_000_000
"""Lines of a template's code that one prompt may run; those of published models run some thousands."""
MAX_LENGTH = 10_000_000
"""Most characters or items of a value, and the largest number, that an operator or a call may make or take."""
MAX_NUMBER = {"tojson": 100, "indent": 100}
"""Largest number that a filter may take which writes as many spaces in every line."""
TEMPLATE_FILE = "<template>"
"""The name under which jinja compiles a template from a text."""

_lock = threading.Lock()


class TemplateLimitError(Exception):
    """A template exceeds its bounds. Not an error of the package's own tree: it passes through the library."""


def render_chat(templated: Any, messages: list[dict[str, Any]], **options: Any) -> str:
    """Return the text of messages by a tokenizer's or processor's chat template, within bounds.

    Raises:
        ModelError: The template fails or exceeds its bounds.
    """
    try:
        with _bounded_environment(), _counted_steps():
            text = str(templated.apply_chat_template(messages, tokenize=False, **options))
    except Exception as error:  # templates are programs of the checkpoint; they raise anything
        line = " ".join(str(error).split())[:300]
        raise ModelError(f"The checkpoint's chat template failed: {type(error).__name__}: {line}") from error
    if len(text) > MAX_LENGTH:
        raise ModelError(
            f"The checkpoint's chat template wrote {len(text)} characters; the most is {MAX_LENGTH}."
        )
    return text


@contextmanager
def _counted_steps() -> Iterator[None]:
    """Within it, code of templates in this thread may run so many lines and no more."""
    steps = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        if frame.f_code.co_filename != TEMPLATE_FILE:
            return None
        steps += 1
        if steps > MAX_STEPS:
            raise TemplateLimitError(f"it did not end within {MAX_STEPS} steps")
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def _bounded_environment() -> Iterator[None]:
    """Within it, transformers compiles templates in a sandbox whose operators are bounded."""
    from transformers.utils import chat_template_utils

    # transformers offers no other way to choose the sandbox, and keeps what it compiled.
    library: Any = chat_template_utils
    name = "ImmutableSandboxedEnvironment"
    if not hasattr(library, name):
        yield
        return
    with _lock:
        before = getattr(library, name)
        setattr(library, name, _bounded(before))
        try:
            yield
        finally:
            setattr(library, name, before)


def _bounded(sandbox: Any) -> Any:
    """Return a sandbox class with bounded operators, filters, calls and output."""

    class Code(sandbox.code_generator_class):  # type: ignore[misc]
        def visit_Concat(self, node: Any, frame: Any) -> None:  # noqa: N802  # as in jinja
            self.write("environment.concat(map(str, (")
            for part in node.nodes:
                self.visit(part, frame)
                self.write(", ")
            self.write(")))")

    class Bounded(sandbox):  # type: ignore[misc]
        intercepted_binops = frozenset({"+", "*", "**", "%"})
        code_generator_class = Code
        filters: Any
        concat = staticmethod(_joined)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.filters = _Filters(self.filters)
            del self.globals["lipsum"]  # any number of paragraphs in a single step

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _check_operation(operator, left, right)
            return super().call_binop(context, operator, left, right)

        def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805  # as in jinja
            owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "a function")
            _check_call(name, owner, (*args, *kwargs.values()))
            return super().call(__context, __obj, *args, **kwargs)

    return Bounded


class _Filters(dict[str, Any]):
    """Filters by name, each with its arguments checked; transformers adds one after the others are there."""

    def __init__(self, filters: Mapping[str, Any]) -> None:
        super().__init__()
        for name, function in filters.items():
            self[name] = function

    def __setitem__(self, name: str, function: Any) -> None:
        # Some filters get a context of jinja's before the value they are applied to.
        at = 1 if hasattr(function, "jinja_pass_arg") else 0

        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            _check_call(name, args[at] if len(args) > at else None, (*args[at + 1 :], *kwargs.values()))
            return function(*args, **kwargs)

        super().__setitem__(name, checked)


def _joined(parts: Iterable[str]) -> str:
    """Return texts as one, which is measured as it grows."""
    kept, length = [], 0
    for part in parts:
        kept.append(part)
        length += len(part)
        _check_length(length)
    return "".join(kept)


def _check_length(length: float) -> None:
    if length > MAX_LENGTH:
        raise TemplateLimitError(f"it makes a value of {length} items")


def _size(value: Any) -> int | None:
    return len(value) if hasattr(value, "__len__") else None


def _check_operation(operator: str, left: Any, right: Any) -> None:
    sizes = [_size(left), _size(right)]
    if operator == "**" and (abs(left) > 1000 or abs(right) > 20):
        raise TemplateLimitError(f"it computes {left!r:.20} ** {right!r:.20}")
    if operator == "*" and sizes != [None, None]:
        _check_length((left if sizes[0] is None else sizes[0]) * (right if sizes[1] is None else sizes[1]))
    if operator == "+" and None not in sizes:
        _check_length(sum(size or 0 for size in sizes))
    if operator == "%" and isinstance(left, str) and re.search(r"%[^a-zA-Z%]*(\*|\d{7})", left):
        raise TemplateLimitError("it pads a text")


def _check_call(name: str, value: Any, arguments: tuple[Any, ...]) -> None:
    """Check a filter on a value, or a call of one of its methods."""
    numbers = [abs(item) for item in arguments if isinstance(item, int)]
    if any(number > MAX_NUMBER[name] if name in MAX_NUMBER else number > MAX_LENGTH for number in numbers):
        raise TemplateLimitError(f"it calls {name} with a huge number")
    if isinstance(value, str) and name.startswith("format") and re.search(r"\d{7}|\{[^}]*\{|\*", value):
        raise TemplateLimitError("it pads a text")
    texts = [item for item in arguments if isinstance(item, str)]
    if name == "replace" and len(texts) > 1:
        _check_length(len(texts[1]) * (len(str(value)) // max(1, len(texts[0])) + 1))
    if name == "join":
        items = arguments[0] if isinstance(value, str) and arguments else value
        between = value if isinstance(value, str) and arguments else (texts or [""])[0]
        length = 0
        for item in items if isinstance(items, list | tuple) else ():
            length += len(between) + (len(item) if isinstance(item, str) else 1)
            _check_length(length)

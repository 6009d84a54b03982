"""Bounds of chat templates: a template is a program that comes with a checkpoint.

transformers runs it in jinja's sandbox, which keeps it from files and from Python's internals, not from endless
loops or from texts of any length. Here its steps are counted, and operators refuse to make a value that is too
long. A template that keeps to the operators is bounded so; one that multiplies texts by a chain of filters can still
take more memory than it should, up to what the machine has.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from stepscore.errors import ModelError

MAX_STEPS = 1_000_000
"""Lines of a template's code that one prompt may run; those of published models run some thousands."""
MAX_LENGTH = 10_000_000
"""Most characters or items of a value, and the largest number, that an operator or a call may make or take."""
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
    """Return a sandbox class with bounded operators and calls."""

    class Bounded(sandbox):  # type: ignore[misc]
        intercepted_binops = frozenset({"+", "*", "**", "%"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _check_operation(operator, left, right)
            return super().call_binop(context, operator, left, right)

        def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805  # as in jinja
            _check_arguments(__obj, (*args, *kwargs.values()))
            return super().call(__context, __obj, *args, **kwargs)

    return Bounded


def _check_operation(operator: str, left: Any, right: Any) -> None:
    sizes = [len(value) if hasattr(value, "__len__") else None for value in (left, right)]
    if operator == "**" and (abs(left) > 1000 or abs(right) > 20):
        raise TemplateLimitError(f"it computes {left!r:.20} ** {right!r:.20}")
    if operator == "*":
        product = (left if sizes[0] is None else sizes[0]) * (right if sizes[1] is None else sizes[1])
        if sizes != [None, None] and product > MAX_LENGTH:
            raise TemplateLimitError(f"it makes a value of {product} items")
    if operator == "+" and None not in sizes and sum(size or 0 for size in sizes) > MAX_LENGTH:
        raise TemplateLimitError(f"it makes a value of {sum(size or 0 for size in sizes)} items")
    if operator == "%" and isinstance(left, str) and re.search(r"%[^a-zA-Z%]*(\*|\d{7})", left):
        raise TemplateLimitError("it pads a text")


def _check_arguments(called: Any, arguments: tuple[Any, ...]) -> None:
    if any(isinstance(value, int) and value > MAX_LENGTH for value in arguments):
        raise TemplateLimitError(f"it calls {getattr(called, '__name__', 'a function')} with a huge number")
    owner = getattr(called, "__self__", None)
    if (
        isinstance(owner, str)
        and called.__name__.startswith("format")
        and re.search(r"\d{7}|\{[^}]*\{", owner)
    ):
        raise TemplateLimitError("it pads a text")

"""String literals of a Python file, read from its syntax tree. Nothing of the file is executed.

Where a text stands is written as a path, its parts separated by ``" > "``::

    SYSTEM_PROMPT                                     an assignment in the module
    Model.__init__ > self.templates['pair']           the one string assigned to that target in a method
    Model.__init__ > self.templates > done            the value of a key in a dictionary that is assigned there
    Model.build > {text} > 2                          the second literal under that key of a method's dictionaries

A string is a literal, a sum of literals, a literal whose ``.format`` is called (then the literal itself) or an
f-string (then its text with each expression in braces, as it is written).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stepscore.errors import ModelError


def string_literal(source: bytes, path: str) -> str:
    """Return the string at a path of a Python file.

    Raises:
        ModelError: The file is not Python, or there is not exactly one such string.
    """
    try:
        tree: ast.AST = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ModelError(f"Not a Python file ({type(error).__name__}).") from error
    *scope, last = path.split(" > ")
    key: str | None = None
    if scope and len(scope) == 2:
        scope, last, key = scope[:1], scope[1], last
    for name in scope[0].split(".") if scope else ():
        tree = _definition(tree, name)
    if key is not None and last[:1] + last[-1:] == "{}" and key.isdecimal():
        under = _under_key(tree, last[1:-1])
        if not 0 < int(key) <= len(under):
            raise ModelError(f"{path}: there are {len(under)} strings under that key.")
        return under[int(key) - 1]
    found = {text for value in _assigned(tree, last, inside=bool(scope)) for text in _texts(value, key)}
    if len(found) != 1:
        raise ModelError(f"{path}: {len(found)} strings there; one was expected.")
    return found.pop()


def _under_key(tree: ast.AST, key: str) -> list[str]:
    """Return the plain literals under a key of all dictionaries in a function, in the order of the file."""
    found = [
        (value.lineno, value.col_offset, value.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for name, value in zip(node.keys, node.values, strict=True)
        if isinstance(name, ast.Constant) and name.value == key
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    ]
    return [text for _, _, text in sorted(found)]


def _definition(tree: ast.AST, name: str) -> ast.AST:
    for node in getattr(tree, "body", ()):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return node
    raise ModelError(f"There is no class or function {name} there.")


def _assigned(tree: ast.AST, target: str, *, inside: bool) -> Iterator[ast.expr]:
    """Yield the values assigned to a target: in the module itself, or anywhere inside a function."""
    for node in ast.walk(tree) if inside else getattr(tree, "body", ()):
        if isinstance(node, ast.Assign) and target in map(ast.unparse, node.targets):
            yield node.value


def _texts(value: ast.expr, key: str | None) -> Iterator[str]:
    if key is not None:
        pairs = zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else ()
        for name, item in pairs:
            if isinstance(name, ast.Constant) and name.value == key:
                yield from _texts(item, None)
    elif (text := _folded(value)) is not None:
        yield text


def _folded(value: ast.expr) -> str | None:
    """Return the text of a literal, a sum of literals or a formatted literal; ``None`` for anything else."""
    parts: list[str] = []
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            waiting += [node.right, node.left]  # the left one is taken next
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts.append(node.value)
        elif isinstance(node, ast.JoinedStr):
            waiting += reversed(node.values)
        elif isinstance(node, ast.FormattedValue) and node.conversion == -1 and node.format_spec is None:
            parts.append(f"{{{ast.unparse(node.value)}}}")
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"
        ):
            waiting.append(node.func.value)
        else:
            return None
    return "".join(parts)

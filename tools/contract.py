"""Write ``web/src/contract.ts`` from the types in ``stepscore.report.page.schema``: ``python -m tools.contract``.

The schema is read as text, so that docstrings become comments. A TypedDict becomes an interface, a NamedTuple a
tuple, and an alias a type.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "src" / "stepscore" / "report" / "page" / "schema"
CONTRACT = ROOT / "web" / "src" / "contract.ts"
MODULES = ("values", "episodes", "videos", "judgements", "leaderboards", "audits", "page")
HEAD = """\
/**
 * All data of a report page as one JSON value. Generated from src/stepscore/report/page/schema by
 * `python -m tools.contract`: change it there.
 *
 * The data are inlined as
 *
 *     <script type="application/json" id="stepscore-data">__STEPSCORE_DATA__</script>
 *
 * The built template (src/stepscore/report/page/assets/page.html) holds the placeholder `__STEPSCORE_DATA__` exactly
 * once, there. Python replaces it with JSON in which every `<`, `>`, `&`, U+2028 and U+2029 is written as \\uXXXX,
 * so that no text can end the script element. The page reads it with JSON.parse(element.textContent) and treats
 * every string in it as text, never as markup.
 *
 * Unknown is null (in packed numbers: NaN), never 0. Shares are 0..1 (the page shows percent), time is in seconds,
 * an index of -1 is "none". Nothing here is rounded: each number is the one `stepscore metrics --json` prints.
 */
"""
WIDTH = 118
_NAMES = {"str": "string", "int": "number", "float": "number", "bool": "boolean", "None": "null"}


def contract() -> str:
    """Return the text of ``contract.ts``."""
    parts = [HEAD]
    for module in MODULES:
        body = ast.parse((SCHEMA / f"{module}.py").read_text(encoding="utf-8")).body
        for node, comment in _with_comments(body):
            parts += _declaration(node, comment)
    return "\n".join(parts)


def _with_comments(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield every statement with the docstring that follows it."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        yield node, _text(after)


def _text(node: ast.stmt | None) -> str:
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return inspect.cleandoc(node.value.value)
    return ""


def _declaration(node: ast.stmt, comment: str) -> list[str]:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return [f"{_comment(comment)}export const {node.targets[0].id} = {ast.unparse(node.value)};\n"]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return [f"{_comment(comment)}export type {node.target.id} = {typescript(node.value)};\n"]
    if not isinstance(node, ast.ClassDef):
        return []
    fields = [
        (field.target.id, field.annotation, text)
        for field, text in _with_comments(node.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    ]
    bases = [ast.unparse(base) for base in node.bases]
    head = _comment(ast.get_docstring(node) or "")
    if bases == ["NamedTuple"]:
        lines = [_line(f"{name}: {typescript(kind)},", text) for name, kind, text in fields]
        return [f"{head}export type {node.name} = [\n{''.join(lines)}];\n"]
    parents = [base for base in bases if base != "TypedDict"]
    extends = f" extends {', '.join(parents)}" if parents else ""
    lines = [_line(f"{_field(name, kind)};", text) for name, kind, text in fields]
    return [f"{head}export interface {node.name}{extends} {{\n{''.join(lines)}}}\n"]


def _field(name: str, kind: ast.expr) -> str:
    if isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "NotRequired":
        return f"{name}?: {typescript(kind.slice)}"
    return f"{name}: {typescript(kind)}"


def _line(code: str, comment: str) -> str:
    """Return a field with its comment: behind it where both fit on a line, else above it."""
    line = f"  {code} // {comment}" if comment else f"  {code}"
    if "\n" not in comment and len(line) <= WIDTH:
        return f"{line}\n"
    return f"{_comment(comment, '  ')}  {code}\n"


def _comment(text: str, indent: str = "") -> str:
    if not text:
        return ""
    lines = text.replace("*/", "* /").splitlines()
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return "".join(
        [f"{indent}/**\n", *(f"{indent} * {line}".rstrip() + "\n" for line in lines), f"{indent} */\n"]
    )


def typescript(kind: ast.expr) -> str:
    """Return a Python type as a TypeScript type.

    >>> typescript(ast.parse("dict[str, list[int | None]]", mode="eval").body)
    'Record<string, (number | null)[]>'
    """
    if isinstance(kind, ast.BinOp):
        return f"{typescript(kind.left)} | {typescript(kind.right)}"
    if isinstance(kind, ast.Name | ast.Constant):
        return _NAMES.get(name := ast.unparse(kind), name)
    if not isinstance(kind, ast.Subscript):
        raise ValueError(f"No TypeScript for {ast.unparse(kind)}.")
    of = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
    match ast.unparse(kind.value):
        case "Literal":
            return " | ".join(f'"{ast.literal_eval(value)}"' for value in of)
        case "list":
            return _array(of[0])
        case "tuple" if isinstance(of[-1], ast.Constant) and of[-1].value is ...:
            return _array(of[0])
        case "dict":
            return f"Record<{typescript(of[0])}, {typescript(of[1])}>"
    raise ValueError(f"No TypeScript for {ast.unparse(kind)}.")


def _array(kind: ast.expr) -> str:
    inner = typescript(kind)
    return f"({inner})[]" if " | " in inner else f"{inner}[]"


def main() -> None:
    """Write the file."""
    CONTRACT.write_text(contract(), encoding="utf-8")
    print(f"Wrote {CONTRACT}", file=sys.stderr)


if __name__ == "__main__":
    main()

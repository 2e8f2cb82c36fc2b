"""The host's tools: what of a module has no docstring, and how the module would read with one."""

from __future__ import annotations

import ast
from pathlib import Path

from toolcrib import ToolContext, tool


@tool
def undocumented(file: str, context: ToolContext) -> dict[str, object]:
    """Find the public functions of a Python file that have no docstring.

    Args:
        file: Its path in the project.
    """
    path = Path(context.cwd, file)
    tree = ast.parse(path.read_text("utf-8"))
    functions = [
        {"name": node.name, "line": node.lineno}
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and ast.get_docstring(node) is None
    ]
    return {"path": str(path), "functions": functions}


@tool
def with_docstring(file: str, function: str, text: str, context: ToolContext) -> dict[str, str]:
    """How a Python file reads with a docstring in a function that has none. Changes nothing.

    Args:
        file: Its path in the project.
        function: The function.
        text: The docstring.
    """
    source = Path(context.cwd, file).read_text("utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            lines = source.splitlines(keepends=True)
            first = node.body[0]
            lines.insert(first.lineno - 1, " " * first.col_offset + f'"""{text}"""\n')
            return {"content": "".join(lines)}
    raise ValueError(f"{file} has no function {function}")

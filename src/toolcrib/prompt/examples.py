"""A tool's examples, as the text of the section that offers it shows them.

No provider takes examples next to a tool, so this is how they reach the model.
"""

from __future__ import annotations

from typing import Any

from toolcrib.tools.example import ToolExample
from toolcrib.tools.result import ToolRenderableResult
from toolcrib.tools.tool import Tool


def shown_examples(tool: Tool[Any, Any]) -> str:
    """The examples of a tool as a Markdown list."""
    shown = "\n".join(_shown(example) for example in tool.examples)
    return f"Examples of `{tool.name}`:\n\n{shown}"


def _shown(example: ToolExample[Any, Any]) -> str:
    lines = [f"- {' '.join(example.description.split())}"]
    if example.input is not None:
        lines.append(f"  - input: {_json(example.input)}")
    if example.output is not None:
        lines.append(f"  - output: {_indented(_readable(example.output))}")
    return "\n".join(lines)


def _readable(output: object) -> str:
    """What the model would read if the tool had just returned this."""
    if isinstance(output, str):
        return output
    return output.render() if isinstance(output, ToolRenderableResult) else _json(output)


def _json(value: object) -> str:
    from pydantic_core import to_json

    return to_json(value, bytes_mode="base64", fallback=str).decode()


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")

"""toolcrib.tools: every name is there, and none costs anything until it is used."""

import subprocess
import sys

import pytest

from toolcrib import tools

LIGHT = """
import sys
import toolcrib.tools
from toolcrib import tool
from toolcrib.tools import Tool, NativeTool, HostedTool, ProviderTool, ToolResult, ToolContext
from toolcrib.tools import Secret, HostMount, OpenAICodeInterpreterTool, as_tool, prepare
from toolcrib.tools.web_search import web_search_tool

@tool
def echo(text: str) -> str:
    '''Echo.

    Args:
        text: Any text.
    '''
    return text

web_search_tool()
OpenAICodeInterpreterTool()
heavy = {"pydantic", "pydantic_core", "jsonschema_rs", "docstring_parser", "tzdata", "openai"}
print(sorted(heavy & set(sys.modules)))
"""


@pytest.mark.parametrize("name", tools.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """The list of names is the truth."""
    assert getattr(tools, name) is not None
    assert name in dir(tools)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Toool'"):
        getattr(tools, "Toool")  # noqa: B009


def test_declaring_tools_imports_nothing_heavy() -> None:
    """A module full of tools stays light until the tools are registered."""
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"

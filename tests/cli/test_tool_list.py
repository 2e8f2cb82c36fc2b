"""The quick list of a module's tools tells what a runtime tells, or leaves it to a runtime."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.cli.runtime_options import RuntimeOptions
from toolcrib.cli.service import open_hosted_service
from toolcrib.cli.tool_list import plain_list
from toolcrib.cli.tools import session_of
from toolcrib.runtime.service import as_json

HEAD = """
from typing import Annotated, Any, Literal
from toolcrib import Tool, ToolContext, tool

"""
PLAIN = '''
@tool(category="stock", is_read_only=True, version="1.2.0", timeout=3.0)
async def level(part: str, place: Literal["shop", "yard"] = "shop", *, ctx: ToolContext) -> int:
    """How many pieces there are.

    Args:
        part: Which one.
        place: Where.
    """
    return 3


@tool(requires_approval=True, uses=("level",))
def order(parts: dict[str, int | None], notes: list[str] | None = None, total: float = 1.5) -> Any:
    """Order parts."""
'''
NOT_PLAIN = {
    "an argument that may have no schema": "@tool\ndef a(x: object) -> str:\n    'A.'\n",
    "metadata": "@tool\ndef a(x: Annotated[int, 'wide']) -> str:\n    'A.'\n",
    "a default of another kind": "@tool\ndef a(x: list[int] = [object()]) -> str:\n    'A.'\n",
    "a private name": "@tool\ndef a(_x: int) -> str:\n    'A.'\n",
    "a type that is not there": "@tool\ndef a(x: 'Nothing') -> str:\n    'A.'\n",
    "a condition": "@tool(available_when=lambda: False)\ndef a() -> str:\n    'A.'\n",
    "a capability": "@tool(requires=('form',))\ndef a() -> str:\n    'A.'\n",
    "a note": "@tool(deprecated='use b')\ndef a() -> str:\n    'A.'\n",
    "another style": "TOOLS = [Tool(name='a', description='A.', handler=lambda: None)]\n",
    "a setup function": "def setup_host_tools(registry): ...\n",
    "no tools": "",
    "namesakes": "@tool(name='b')\ndef a() -> str:\n    'A.'\n\n@tool\ndef b() -> str:\n    'B.'\n",
    "an error": "raise RuntimeError('no')\n",
}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file whose module is `listed_tools`."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path / "listed_tools.py"
    sys.modules.pop("listed_tools", None)


OPTIONS = RuntimeOptions(host_tools_module=["listed_tools"])


def listed_by_a_runtime() -> list[dict[str, Any]]:
    with open_hosted_service(OPTIONS, None, None) as service, session_of(service) as session_id:
        tools = as_json(service.list_tools(session_id).tools)
    schemas = {"parameters", "digest", "output_schema", "argument_names"}
    return [{key: tool[key] for key in tool.keys() - schemas} for tool in tools]


def test_both_tell_the_same(module: Path) -> None:
    """Every fact but the schemas is told alike."""
    module.write_text(HEAD + PLAIN)

    quick = plain_list(OPTIONS, None)

    assert quick is not None
    assert [tool["name"] for tool in quick["tools"]] == ["level", "order"]
    assert quick["tools"] == listed_by_a_runtime()
    assert quick["unavailable"] == {}


def test_one_category_can_be_listed(module: Path) -> None:
    """The tools of other categories are left out."""
    module.write_text(HEAD + PLAIN)

    quick = plain_list(OPTIONS, "stock")

    assert quick is not None
    assert [tool["name"] for tool in quick["tools"]] == ["level"]


@pytest.mark.parametrize("reason", NOT_PLAIN)
def test_what_may_be_refused_is_left_to_a_runtime(module: Path, reason: str) -> None:
    """A list never shows a tool that would not be served."""
    module.write_text(HEAD + NOT_PLAIN[reason])

    assert plain_list(OPTIONS, None) is None


@pytest.mark.parametrize(
    "options",
    [
        RuntimeOptions(),
        RuntimeOptions(host_tools_module=["listed_tools"], plugins=True),
        RuntimeOptions(host_tools_module=["listed_tools"], host_tools=[Path("host-tools.yaml")]),
    ],
)
def test_other_sources_are_left_to_a_runtime(module: Path, options: RuntimeOptions) -> None:
    """Files and plugins are read by what serves them."""
    module.write_text(HEAD + PLAIN)

    assert plain_list(options, None) is None

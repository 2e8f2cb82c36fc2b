"""A toolset goes into an agent without importing pydantic-ai, in whatever order of imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.patience import PATIENCE

pytestmark = pytest.mark.wire  # every test starts processes

DEFINE = """
import asyncio, sys
from toolcrib.context import AgentContext
from toolcrib.toolsets import BaseTool, BaseToolset, Toolset

class Greet(BaseTool):
    name = "greet"
    description = "Greet"
    async def call(self, ctx, who: str) -> str:
        return f"Hello, {who}."

class Extended(Toolset): pass
"""
MAKE = """
toolset = Toolset(AgentContext(), [Greet])
extended = Extended(AgentContext(), [Greet], id="extended")
"""
LIBRARY = """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import AbstractToolset
"""
CHECK = """
for each in (toolset, extended):
    agent = Agent(TestModel(), toolsets=[each])
    assert asyncio.run(agent.run("go")).output == '{"greet":"Hello, a."}'
    assert isinstance(each.for_agent(), AbstractToolset)
    assert isinstance(each(None), AbstractToolset)
assert Toolset.__mro__[:2] == (Toolset, BaseToolset)
assert toolset.for_agent() is toolset.for_agent() is toolset(None)
assert (toolset.for_agent().id, extended.for_agent().id) == (None, "extended")
"""


def fresh(code: str) -> str:
    """The output of a new interpreter that runs `code`."""
    command = [sys.executable, "-W", "error", "-c", code]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(LIBRARY + DEFINE + MAKE + CHECK, id="library first", marks=pytest.mark.slow),
        pytest.param(DEFINE + LIBRARY + MAKE + CHECK, id="library between", marks=pytest.mark.slow),
        pytest.param(DEFINE + MAKE + LIBRARY + CHECK, id="library last"),
    ],
)
def test_an_agent_takes_it_in_every_order_of_imports(code: str) -> None:
    """T13, T14: an agent takes toolsets that existed before pydantic-ai was imported, and those
    that extend ours; as an `AbstractToolset` each is one object with the toolset's id.
    """
    fresh(code)


def test_a_toolset_alone_imports_no_agent_library() -> None:
    """T13: toolsets can be made and called without pydantic-ai ever being loaded."""
    code = "asyncio.run(toolset.call_tool('greet', {'who': 'Ada'}))\n"
    show = "print('pydantic_ai' in sys.modules, hasattr(toolset, 'no_such_thing'))"

    assert fresh(DEFINE + MAKE + code + show).split() == ["False", "False"]


def test_for_agent_imports_the_library() -> None:
    """T13: the caller of `for_agent` need not import pydantic-ai first."""
    code = "wrapped = toolset.for_agent().prefixed('my')\nprint(type(wrapped).__module__)"

    assert fresh(DEFINE + MAKE + code).strip() == "pydantic_ai.toolsets.prefixed"


@pytest.mark.parametrize("use", ["toolset.for_agent()", "toolset(None)"])
def test_for_agent_without_the_library_says_what_to_install(use: str) -> None:
    """T13: the error names the extra that is missing."""
    hide = "sys.modules['pydantic_ai'] = None\n"
    code = f"from toolcrib.errors import UsageError\ntry:\n    {use}\n"
    message = fresh(DEFINE + hide + MAKE + code + "except UsageError as error:\n    print(error)")

    assert "install toolcrib[pydantic-ai]" in message


@pytest.mark.slow
def test_imports_are_left_alone() -> None:
    """T13: no hook on imports, no change to the classes once pydantic-ai is loaded."""
    code = (
        "before = list(sys.meta_path), Toolset.__mro__\n"
        "import pydantic_ai\n"
        "assert type(pydantic_ai.__loader__).__name__ == 'SourceFileLoader'\n"
        "toolset.for_agent()\n"
        "assert (list(sys.meta_path), Toolset.__mro__) == before\n"
        "assert not [f for f in sys.meta_path if type(f).__module__.startswith('toolcrib')]\n"
    )

    fresh(DEFINE + MAKE + code)


@pytest.mark.slow
def test_an_import_that_fails_may_be_tried_again() -> None:
    """T13: a library that could not be loaded the first time is used the second time."""
    code = (
        "from toolcrib.errors import UsageError\n"
        "sys.modules['pydantic_ai.agent'] = None\n"
        "try:\n    toolset.for_agent()\nexcept UsageError:\n    print('failed')\n"
        "for name in [n for n in sys.modules if n.startswith('pydantic_ai')]:\n"
        "    del sys.modules[name]\n"
    )

    assert fresh(DEFINE + MAKE + code + LIBRARY + CHECK).strip() == "failed"

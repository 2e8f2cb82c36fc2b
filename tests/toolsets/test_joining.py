"""A toolset is one of pydantic-ai's once that library is imported, in whatever order."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.patience import PATIENCE

pytestmark = pytest.mark.wire  # every test starts processes

DEFINE = """
import sys
from tests.helpers.patience import PATIENCE
from toolcrib.context import AgentContext
from toolcrib.toolsets import BaseTool, BaseToolset, Toolset

class Greet(BaseTool):
    name = "greet"
    description = "Greet"
    async def call(self, ctx, who: str) -> str:
        return f"Hello, {who}."
"""
MAKE = "toolset = Toolset(AgentContext(), [Greet])\n"
LIBRARY = "from pydantic_ai.toolsets import AbstractToolset\n"
CHECK = """
class Mine(Toolset): pass
assert isinstance(toolset, AbstractToolset), Toolset.__mro__
assert isinstance(Mine(AgentContext(), [Greet]), AbstractToolset)
assert issubclass(Toolset, AbstractToolset)
assert Toolset.__mro__[:3] == (Toolset, BaseToolset, AbstractToolset)
"""


def fresh(code: str) -> str:
    """What a new interpreter prints that runs `code`."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(LIBRARY + DEFINE + MAKE + CHECK, id="library first", marks=pytest.mark.slow),
        pytest.param(DEFINE + LIBRARY + MAKE + CHECK, id="library between", marks=pytest.mark.slow),
        pytest.param(DEFINE + MAKE + LIBRARY + CHECK, id="library last"),
    ],
)
def test_the_class_chain_in_every_order_of_imports(code: str) -> None:
    """T13, T14: AbstractToolset, BaseToolset, Toolset, also for toolsets that exist already and
    for those that extend ours.
    """
    fresh(code)


def test_a_toolset_alone_imports_no_agent_library() -> None:
    """T13: toolsets can be made and called without pydantic-ai ever being loaded."""
    code = "import asyncio\nasyncio.run(toolset.call_tool('greet', {'who': 'Ada'}))\n"
    show = "print('pydantic_ai' in sys.modules, hasattr(toolset, 'no_such_thing'))"

    assert fresh(DEFINE + MAKE + code + show).split() == ["False", "False"]


def test_wrapping_imports_the_library() -> None:
    """T13: who asks for what only pydantic-ai offers need not import it first."""
    code = "wrapped = toolset.prefixed('my')\nprint(type(wrapped).__module__)"

    assert fresh(DEFINE + MAKE + code).strip() == "pydantic_ai.toolsets.prefixed"


def test_wrapping_without_the_library_says_what_to_install() -> None:
    """T13: the extra is named where it is missing."""
    hide = "sys.modules['pydantic_ai'] = None\n"
    code = "try:\n    toolset.prefixed('my')\nexcept AttributeError as error:\n    print(error)"
    said = fresh(DEFINE.replace("import sys\n", f"import sys\n{hide}") + MAKE + code)

    assert "install toolcrib[pydantic-ai]" in said


@pytest.mark.slow
def test_the_library_is_loaded_as_ever() -> None:
    """T13: watching its import leaves no trace in it, and ends with it."""
    code = (
        "import pydantic_ai\n"
        "assert type(pydantic_ai.__loader__).__name__ == 'SourceFileLoader'\n"
        "assert pydantic_ai.__spec__.loader is pydantic_ai.__loader__\n"
        "assert not [f for f in sys.meta_path if type(f).__module__.startswith('toolcrib')]\n"
    )

    fresh(DEFINE + code)


@pytest.mark.slow
def test_an_import_that_fails_may_be_tried_again() -> None:
    """T13: a library that could not be loaded the first time is joined the second time."""
    code = (
        "sys.modules['pydantic_ai.agent'] = None\n"
        "try:\n    import pydantic_ai\nexcept ImportError:\n    print('failed')\n"
        "for name in [n for n in sys.modules if n.startswith('pydantic_ai')]:\n"
        "    del sys.modules[name]\n"
    )

    assert fresh(DEFINE + MAKE + code + LIBRARY + CHECK).strip() == "failed"


def test_a_library_that_cannot_be_joined_is_imported_all_the_same() -> None:
    """T13: should its toolsets be made otherwise one day, its import warns and does not fail."""
    code = (
        "import types, warnings\n"
        "other = types.ModuleType('pydantic_ai.toolsets')\n"
        "class AbstractToolset(int): pass\n"
        "other.AbstractToolset = AbstractToolset\n"
        "sys.modules['pydantic_ai'] = types.ModuleType('pydantic_ai')\n"
        "sys.modules['pydantic_ai.toolsets'] = other\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    from toolcrib.toolsets import Toolset\n"
        "print(caught[0].message)\n"
    )

    assert fresh("import sys\n" + code).startswith("toolsets cannot be used in agents: ")

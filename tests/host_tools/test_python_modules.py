"""Host tools from modules: setup functions, lists and decorated functions."""

from __future__ import annotations

import pytest

from tests.host_tools.project import Project
from tests.host_tools.samples import context_for, define, names
from toolcrib.errors import DuplicateTool, InvalidTool
from toolcrib.host_tools import HostToolRegistry, host_tool_registry, load_host_tools_module
from toolcrib.host_tools.python_modules import reloaded

DEFINED = """\
from toolcrib.host_tools import HostToolDefinition

def handler(input, context):
    return context.session_id

def define(name):
    return HostToolDefinition(name, "A tool.", {"type": "object"}, handler)
"""


@pytest.fixture
def registry() -> HostToolRegistry:
    return HostToolRegistry()


async def test_a_setup_function_registers_tools(
    project: Project, registry: HostToolRegistry
) -> None:
    """R31: plain or async; modules of the folder that the program runs in can be named."""
    project.write("app/__init__.py", "")
    project.write("app/defined.py", DEFINED)
    project.write(
        "app/later.py",
        """
        from app.defined import define

        async def setup_host_tools(registry):
            await registry.register(define("a"))
            await registry.register(define("b"))
        """,
    )
    project.write(
        "app/now.py",
        """
        from app.defined import define

        def setup_host_tools(registry):
            registry.add(define("c"))
        """,
    )

    assert await load_host_tools_module("app.later", registry) == ("a", "b")
    assert await load_host_tools_module("app.now", registry) == ("c",)

    tools = registry.create_session_tools("s", context_for("s"))
    assert [(await tool.execute({})).value for tool in tools] == ["s", "s", "s"]


async def test_decorated_functions_are_found(project: Project, registry: HostToolRegistry) -> None:
    """R31: those of the module itself, each once, in its order; not what it imports."""
    project.write(
        "app_base.py",
        """
        from toolcrib import tool

        @tool
        def imported(text: str) -> str:
            '''Not of this module.'''
            return text
        """,
    )
    project.write(
        "app_tools.py",
        """
        from toolcrib import tool
        from app_base import imported

        @tool(category="sums")
        async def second(a: int) -> int:
            '''Give a number back.'''
            return a

        @tool
        def first(a: int) -> int:
            '''Add one.'''
            return a + 1

        also_first = first
        """,
    )

    assert await load_host_tools_module("app_tools", registry) == ("second", "first")
    assert [each.category for each in registry.list_tools()] == ["sums", None]
    tools = registry.create_session_tools("s", context_for("s"))
    assert [(await tool.execute({"a": 1})).value for tool in tools] == [1, 2]


async def test_a_list_says_exactly_which(project: Project, registry: HostToolRegistry) -> None:
    """R31: tools of every style, and no decorated function beyond them; setup adds to it."""
    project.write("app_defined.py", DEFINED)
    project.write(
        "app_listed.py",
        """
        from toolcrib import tool
        from toolcrib.toolsets import BaseTool
        from app_defined import define

        @tool
        def listed(a: int) -> int:
            '''Add one.'''
            return a + 1

        @tool
        def unlisted(a: int) -> int:
            '''Add two.'''
            return a + 2

        class Greet(BaseTool):
            name = "greet"
            description = "Greet somebody."

            async def call(self, ctx, who: str) -> str:
                return f"Hello {who}"

        TOOLS = [define("defined"), listed, Greet()]

        def setup_host_tools(registry):
            registry.add(define("set_up"))
        """,
    )

    loaded = await load_host_tools_module("app_listed", registry)

    assert loaded == ("defined", "listed", "greet", "set_up")
    assert names(registry.list_tools()) == list(loaded)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("1 / 0", "cannot import 'app_bad': ZeroDivisionError: division by zero"),
        ("x = 5", "it has no tools; decorate functions with @tool, or define TOOLS or setup"),
        ("TOOLS = []", "it has no tools"),
        ("TOOLS = 5", "TOOLS must be a list of tools, not int"),
        ("TOOLS = 'abc'", "TOOLS must be a list of tools, not str"),
        ("TOOLS = [print]", "TOOLS[0] is <built-in function print>, which is not a tool"),
        ("TOOLS = [type('T', (), {'to_tool': None})]", "which is not a tool"),
        ("setup_host_tools = 5", "5 has no tools; name a module, a function that takes"),
        ("def setup_host_tools(registry): pass", "setup_host_tools registered no tool; a plain"),
        ("def setup_host_tools(): pass", "setup_host_tools failed: TypeError"),
        ("def setup_host_tools(registry): raise SystemExit(2)", "failed: SystemExit: 2"),
        (
            "async def setup_host_tools(registry):\n    await registry.unregister('none')",
            "setup_host_tools registered no tool",
        ),
    ],
)
async def test_a_module_without_sound_tools_is_refused(
    project: Project, registry: HostToolRegistry, source: str, complaint: str
) -> None:
    """R30, R31: with the module's name and what to write."""
    project.write("app_bad.py", source)

    with pytest.raises(InvalidTool) as caught:
        await load_host_tools_module("app_bad", registry)

    assert str(caught.value).startswith("module app_bad: ")
    assert complaint in str(caught.value)


async def test_a_module_that_is_not_there_is_named(registry: HostToolRegistry) -> None:
    """R30: a misspelt name is not passed over."""
    with pytest.raises(InvalidTool, match="module no_such_app: cannot import 'no_such_app'"):
        await load_host_tools_module("no_such_app", registry)


async def test_a_setup_that_fails_leaves_nothing_behind(
    project: Project, registry: HostToolRegistry
) -> None:
    """R30: neither what it had registered, nor what its module lists; a name that is taken says
    whose it is.
    """
    await registry.register(define("taken"))
    project.write(
        "app_half.py",
        DEFINED
        + """
TOOLS = [define("listed")]

async def setup_host_tools(registry):
    await registry.register(define("added"))
    await registry.register(define("taken"))
""",
    )

    with pytest.raises(DuplicateTool, match="module app_half: there is a tool named 'taken'"):
        await load_host_tools_module("app_half", registry)

    assert names(registry.list_tools()) == ["taken"]


async def test_a_module_can_be_loaded_into_several_registries(project: Project) -> None:
    """R32, R34: workers and runtimes each load for themselves, and share nothing."""
    project.write(
        "app_many.py",
        DEFINED + "\ndef setup_host_tools(registry):\n    registry.add(define('a'))\n",
    )
    first, second = HostToolRegistry(), HostToolRegistry()

    await load_host_tools_module("app_many", first)
    await load_host_tools_module("app_many", second)
    await first.unregister("a")

    assert (names(first.list_tools()), names(second.list_tools())) == ([], ["a"])


ADDING = """
from toolcrib import tool
from toolcrib.host_tools import host_tool_registry

def add(name, reply):
    @tool(name=name)
    def say() -> str:
        \"\"\"Say it.\"\"\"
        return reply
    host_tool_registry.add(say)

"""


async def test_a_module_may_add_its_tools_to_the_default_registry(project: Project) -> None:
    """F13: what it adds while it is imported is served, and is no "module without tools"."""
    project.write("adding.py", ADDING + "add('greet', 'hi')")

    with host_tool_registry.borrowed():
        await load_host_tools_module("adding", host_tool_registry)

        assert [each.name for each in host_tool_registry.list_tools()] == ["greet"]


async def test_a_module_that_is_reloaded_adds_its_tools_again(project: Project) -> None:
    """The new tool takes the place of the old one in one step; a broken module changes nothing."""
    project.write("adding_again.py", ADDING + "add('greet', 'hi')")
    with host_tool_registry.borrowed():
        await load_host_tools_module("adding_again", host_tool_registry)
        old = host_tool_registry.get("greet")
        project.write("adding_again.py", ADDING + "add('greet', 'hello')\nadd('part', 'bye')")
        with reloaded(["adding_again"]):
            pass
        new = host_tool_registry.get("greet")
        project.write("adding_again.py", ADDING + "add('greet', 'broken')\n1/0")
        with pytest.raises(InvalidTool, match="division"), reloaded(["adding_again"]):
            pass

        assert new is not None
        assert new != old
        assert host_tool_registry.get("greet") is new
        assert host_tool_registry.get("part") is not None

"""Files, modules and plugins together: all of a program's host tools, or none."""

from __future__ import annotations

import pytest

from tests.host_tools.project import QUERY, Project
from tests.host_tools.samples import define, names
from toolcrib.errors import DuplicateTool, InvalidTool
from toolcrib.host_tools import HostToolRegistry, load_host_tools
from toolcrib.host_tools.python_modules import make_cwd_importable

MODULE = """\
from toolcrib import tool

@tool
def add(a: int) -> int:
    '''Add one.'''
    return a + 1
"""


@pytest.fixture
def registry() -> HostToolRegistry:
    return HostToolRegistry()


async def test_files_modules_and_plugins_are_combined(
    project: Project, registry: HostToolRegistry
) -> None:
    """R31: each may be given several times; naming one twice is naming it once."""
    project.shop()
    project.write("more.yaml", QUERY.replace("shop.query", "shop.more"))
    project.write("shop_module.py", MODULE)
    project.write("shop_plugin.py", MODULE.replace("add", "plug"))
    project.install("shop", plugin="shop_plugin", broken="shop_gone")
    make_cwd_importable()

    loaded = await load_host_tools(
        registry,
        files=["shop.yaml", "more.yaml", "./shop.yaml"],
        modules=["shop_module", "shop_module"],
        plugins=True,
    )

    assert names(registry.list_tools()) == ["shop.query", "shop.more", "add", "plug"]
    assert [each.file for each in loaded.files] == ["shop.yaml", "more.yaml"]
    assert loaded.modules == ("shop_module",)
    assert [(each.name, each.fault is None) for each in loaded.plugins] == [
        ("broken", False),
        ("plugin", True),
    ]


async def test_plugins_are_loaded_only_when_asked_for(
    project: Project, registry: HostToolRegistry
) -> None:
    """R33: installing a package does not put its tools into every program."""
    project.write("shop_plugin.py", MODULE)
    project.install("shop", plugin="shop_plugin")
    make_cwd_importable()

    assert (await load_host_tools(registry)).plugins == ()
    assert registry.list_tools() == []


async def test_nothing_is_loaded_when_one_part_is_bad(
    project: Project, registry: HostToolRegistry
) -> None:
    """R30: not the file before it, and not the module before it."""
    await registry.register(define("mine"))
    project.shop()
    project.write("shop_module.py", MODULE)
    project.write("shop_bad.py", "1 / 0")
    project.write("bad.yaml", "tools: 5")

    with pytest.raises(InvalidTool, match=r"bad\.yaml:1: tools must be a list"):
        await load_host_tools(registry, files=["shop.yaml", "bad.yaml"], modules=["shop_module"])
    with pytest.raises(InvalidTool, match="module shop_bad: cannot import"):
        await load_host_tools(
            registry, files=["shop.yaml"], modules=["shop_module", "shop_bad"], plugins=True
        )

    assert names(registry.list_tools()) == ["mine"]


async def test_a_name_in_two_files_names_both(project: Project, registry: HostToolRegistry) -> None:
    """R25, R30: with the lines and the places in both."""
    project.shop()
    project.write("more.yaml", "# More.\n" + QUERY)

    with pytest.raises(DuplicateTool) as caught:
        await load_host_tools(registry, files=["shop.yaml", "more.yaml"])

    assert str(caught.value) == (
        "more.yaml:3: tools[0]: there is a tool named 'shop.query' already "
        "from shop.yaml:2: tools[0]"
    )
    assert registry.list_tools() == []


async def test_servers_of_all_files_are_given(project: Project, registry: HostToolRegistry) -> None:
    """Their names are unique too, because their tools' names begin with them."""
    project.write("one.yaml", "mcp_servers: {files: {command: a}}")
    project.write("two.yaml", "mcp_servers: {docs: {command: b}}")
    project.write("three.yaml", "mcp_servers: {files: {command: c}}")

    loaded = await load_host_tools(registry, files=["one.yaml", "two.yaml"])
    assert [server.name for server in loaded.mcp_servers] == ["files", "docs"]
    with pytest.raises(InvalidTool, match=r"three.yaml: mcp_servers.files: one.yaml has a server"):
        await load_host_tools(registry, files=["one.yaml", "three.yaml"])

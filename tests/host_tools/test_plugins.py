"""Host tools from installed packages: found by their entry points, each on its own."""

from __future__ import annotations

import logging

import pytest

from tests.host_tools.project import Project
from tests.host_tools.samples import define, names
from toolcrib.host_tools import HostToolRegistry, Plugin, load_host_tools_plugins
from toolcrib.host_tools.python_modules import make_cwd_importable

ACME = """\
from toolcrib import tool
from toolcrib.host_tools import HostToolDefinition

def handler(input, context):
    return 1

def define(name):
    return HostToolDefinition(name, "A tool.", {"type": "object"}, handler)

@tool
def decorated(a: int) -> int:
    '''Add one.'''
    return a + 1

one = define("one")
several = [define("two"), define("three")]

async def set_up(registry):
    await registry.register(define("four"))

def half(registry):
    registry.add(define("five"))
    raise LookupError("no licence")

def taken(registry):
    registry.add(define("one"))
"""


@pytest.fixture
def registry() -> HostToolRegistry:
    return HostToolRegistry()


async def test_installed_packages_bring_tools(project: Project, registry: HostToolRegistry) -> None:
    """R33: a module, a setup function, a tool or a list of tools, in the order of their names."""
    project.write("acme_tools.py", ACME)
    project.install(
        "acme",
        d_module="acme_tools",
        a_tool="acme_tools:one",
        b_list="acme_tools:several",
        c_setup="acme_tools:set_up",
    )
    make_cwd_importable()

    plugins = await load_host_tools_plugins(registry)

    assert plugins == (
        Plugin("a_tool", "acme", "acme_tools:one", ("one",)),
        Plugin("b_list", "acme", "acme_tools:several", ("two", "three")),
        Plugin("c_setup", "acme", "acme_tools:set_up", ("four",)),
        Plugin("d_module", "acme", "acme_tools", ("decorated",)),
    )
    assert names(registry.list_tools()) == ["one", "two", "three", "four", "decorated"]


async def test_a_broken_plugin_is_isolated_and_reported(
    project: Project, registry: HostToolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """R33: whatever it does, nothing of it stays, the others are loaded, and the fault is told."""
    await registry.register(define("mine"))
    project.write("acme_tools.py", ACME)
    project.write("acme_broken.py", "1 / 0")
    project.write("acme_leaving.py", "raise SystemExit(3)")
    project.install(
        "acme",
        a_gone="acme_gone",
        b_broken="acme_broken",
        c_leaving="acme_leaving",
        d_missing="acme_tools:nothing",
        e_half="acme_tools:half",
        f_number="acme_tools:__doc__",
        g_sound="acme_tools:one",
        h_taken="acme_tools:taken",
    )
    make_cwd_importable()

    with caplog.at_level(logging.INFO, "toolcrib"):
        plugins = await load_host_tools_plugins(registry)

    faults = {each.name: each.fault for each in plugins}
    assert faults["g_sound"] is None
    assert [name for name, fault in faults.items() if fault] == [
        *("a_gone", "b_broken", "c_leaving", "d_missing", "e_half", "f_number", "h_taken")
    ]
    assert faults["b_broken"] == "ZeroDivisionError: division by zero"
    assert faults["c_leaving"] == "SystemExit: 3"
    assert faults["e_half"] == "InvalidTool: half failed: LookupError: no licence"
    assert "a tool named 'one' already" in f"{faults['h_taken']}"
    broken = next(each for each in caplog.records if "'b_broken' was not loaded" in each.message)
    # A traceback is for whoever looks for it: no handler of last resort prints it.
    assert (broken.levelno, broken.exc_info is not None) == (logging.INFO, True)
    assert names(registry.list_tools()) == ["mine", "one"]


async def test_without_plugins_there_is_nothing_to_load(
    project: Project, registry: HostToolRegistry
) -> None:
    """R33: other packages' entry points are not taken for ours."""
    assert await load_host_tools_plugins(registry) == ()

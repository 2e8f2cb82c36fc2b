"""Hot reload: the new set of tools, or the old one and the reason."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tests.host_tools.project import HANDLERS, QUERY, Project
from tests.host_tools.samples import context_for, define, names
from toolcrib.errors import InvalidTool, UsageError
from toolcrib.extras import install_command
from toolcrib.host_tools import (
    HostToolRegistry,
    HostToolsWatcher,
    RegistryChange,
    Reload,
    reload,
)

TWO = QUERY + QUERY.replace("tools:\n", "").replace("shop.query", "shop.other")


@pytest.fixture
def registry() -> HostToolRegistry:
    return HostToolRegistry()


async def call(registry: HostToolRegistry, name: str = "shop.query") -> Any:
    tools = registry.create_session_tools("s", context_for("s"))
    (tool,) = [each for each in tools if each.name == name]
    return (await tool.execute({"sql": "x"})).value


async def test_a_changed_file_is_swapped_in_one_step(
    project: Project, registry: HostToolRegistry
) -> None:
    """Listeners hear of it as one change, and what did not change stays as it is."""
    await registry.register(define("mine"))
    watcher = HostToolsWatcher(registry, project.shop(TWO))
    await watcher.load()
    (_, kept, gone) = registry.list_tools()
    heard: list[tuple[RegistryChange, ...]] = []
    registry.subscribe(heard.append)

    assert await watcher.poll() is None
    project.shop(TWO.replace("shop.other", "shop.new"))
    result = await watcher.poll()

    assert result is not None
    new = registry.get("shop.new")
    assert (result.fault, heard) == (None, [result.changes])
    assert result.changes == (
        RegistryChange("shop.other", gone, None),
        RegistryChange("shop.new", None, new),
    )
    assert registry.get("shop.query") is kept
    assert names(registry.list_tools()) == ["mine", "shop.query", "shop.new"]
    assert await watcher.poll() is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("tools: [", "this is not YAML"),
        (TWO.replace("function: query", "function: missing", 1), "'shop_handlers' has no"),
        (TWO.replace("shop.other", "mine"), "there is a tool named 'mine' already"),
        (TWO.replace("type: object", "type: array"), "must describe an object"),
    ],
)
async def test_a_bad_file_keeps_the_old_set(
    project: Project, registry: HostToolRegistry, text: str, fault: str
) -> None:
    """The fault is told once, not at every look, and a mended file is loaded."""
    await registry.register(define("mine"))
    file = project.shop()
    watcher = HostToolsWatcher(registry, file)
    await watcher.load()

    project.shop(text)
    result = await watcher.poll()

    assert result is not None
    assert (result.loaded, result.changes) == (None, ())
    assert f"{file}:" in f"{result.fault}"
    assert fault in f"{result.fault}"
    assert names(registry.list_tools()) == ["mine", "shop.query"]
    assert await watcher.poll() is None
    project.shop(TWO)
    mended = await watcher.poll()
    assert mended is not None
    assert mended.fault is None
    assert names(registry.list_tools()) == ["mine", "shop.query", "shop.other"]


async def test_a_file_that_is_gone_keeps_the_old_set(
    project: Project, registry: HostToolRegistry
) -> None:
    """Editors that write a new file and rename it leave such a moment."""
    file = project.shop()
    watcher = HostToolsWatcher(registry, file)
    await watcher.load()

    file.unlink()
    result = await watcher.poll()

    assert result is not None
    assert "cannot be read" in f"{result.fault}"
    assert names(registry.list_tools()) == ["shop.query"]


async def test_a_changed_module_is_loaded_anew(
    project: Project, registry: HostToolRegistry
) -> None:
    """Its handlers are the new ones, even after an edit of the same length at the same second."""
    watcher = HostToolsWatcher(registry, project.shop())
    await watcher.load()
    assert await call(registry) == "s ran x"

    project.write("shop_handlers.py", HANDLERS.replace(" ran ", " did "))
    result = await watcher.poll()

    assert result is not None
    assert [change.name for change in result.changes] == ["shop.query"]
    assert await call(registry) == "s did x"
    assert await watcher.poll() is None


async def test_a_call_in_flight_ends_with_the_code_it_began_with(
    project: Project, registry: HostToolRegistry
) -> None:
    """The old module's globals are not touched by the new one."""
    waiting = """\
import asyncio
entered, leave = asyncio.Event(), asyncio.Event()
WORD = "old"

async def query(input, context):
    entered.set()
    await leave.wait()
    return WORD
"""
    file = project.shop()
    project.write("shop_handlers.py", waiting)
    watcher = HostToolsWatcher(registry, file)
    await watcher.load()
    old: Any = sys.modules["shop_handlers"]
    calling = asyncio.create_task(call(registry))
    await old.entered.wait()

    project.write("shop_handlers.py", waiting.replace('"old"', '"new"'))
    assert await watcher.poll() is not None
    new: Any = sys.modules["shop_handlers"]
    old.leave.set()
    new.leave.set()

    assert await calling == "old"
    assert await call(registry) == "new"


async def test_a_broken_module_keeps_the_old_one(
    project: Project, registry: HostToolRegistry
) -> None:
    """Nothing of it is left, and it is tried again once it, or the file, is mended."""
    watcher = HostToolsWatcher(registry, project.shop())
    await watcher.load()
    before = sys.modules["shop_handlers"]

    project.write("shop_handlers.py", HANDLERS.replace(" ran ", " did ") + "\n1 / 0\n")
    result = await watcher.poll()
    assert result is not None
    assert "cannot reload 'shop_handlers': ZeroDivisionError" in f"{result.fault}"
    assert sys.modules["shop_handlers"] is before
    assert await call(registry) == "s ran x"

    project.write("shop_handlers.py", HANDLERS.replace(" ran ", " did "))
    assert await watcher.poll() is not None
    assert await call(registry) == "s did x"


async def test_a_sound_module_waits_for_the_file_to_be_mended(
    project: Project, registry: HostToolRegistry
) -> None:
    """Both belong to one set: neither takes effect without the other."""
    watcher = HostToolsWatcher(registry, project.shop())
    await watcher.load()

    project.write("shop_handlers.py", HANDLERS.replace(" ran ", " did "))
    project.write("shop.yaml", "tools: 5")
    assert await watcher.poll() is not None
    assert await call(registry) == "s ran x"

    project.write("shop.yaml", QUERY)
    assert await watcher.poll() is not None
    assert await call(registry) == "s did x"


async def test_a_new_module_is_watched_from_its_first_mention(
    project: Project, registry: HostToolRegistry
) -> None:
    """Also when it is broken at first, in either of two ways."""
    watcher = HostToolsWatcher(registry, project.shop())
    await watcher.load()
    project.write("shop_more.py", "1 / 0")
    project.shop(QUERY.replace("shop_handlers", "shop_more"))
    faults = [await watcher.poll()]
    project.write("shop_more.py", "x = 1")
    faults.append(await watcher.poll())
    assert [found and found.fault is not None for found in faults] == [True, True]

    project.write("shop_more.py", HANDLERS.replace(" ran ", " found "))
    mended = await watcher.poll()

    assert mended is not None
    assert mended.fault is None
    assert await call(registry) == "s found x"


async def test_a_first_load_that_fails_raises(project: Project, registry: HostToolRegistry) -> None:
    """R30: a program does not start with fewer tools than it was told to have."""
    watcher = HostToolsWatcher(registry, project.shop("tools: 5"))

    with pytest.raises(InvalidTool, match="tools must be a list"):
        await watcher.load()
    assert registry.list_tools() == []


async def test_it_looks_at_every_tick_and_reports(
    project: Project, registry: HostToolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """A report that fails is logged and does not end the watch."""
    reports: list[Reload] = []

    def report(found: Reload) -> None:
        reports.append(found)
        raise LookupError("no pager")

    async def ticks() -> AsyncIterator[None]:
        yield
        project.shop("tools: 5")
        yield
        yield
        project.shop(TWO)
        yield

    watcher = HostToolsWatcher(registry, project.shop(), on_reload=report)
    await watcher.load()
    with caplog.at_level(logging.ERROR):
        await watcher.watch(ticks())

    assert [found.fault is None for found in reports] == [False, True]
    assert names(registry.list_tools()) == ["shop.query", "shop.other"]
    assert "LookupError: no pager" in caplog.text


@asynccontextmanager
async def watched(watcher: HostToolsWatcher) -> AsyncGenerator[None]:
    task = asyncio.create_task(watcher.watch())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_change_on_disk_is_reported_without_ticks(
    project: Project, registry: HostToolRegistry
) -> None:
    """By default the file system tells of changes, also in a module that a reload brought."""
    reports: asyncio.Queue[Reload] = asyncio.Queue()
    watcher = HostToolsWatcher(registry, project.shop(), on_reload=reports.put_nowait)
    await watcher.load()

    async with watched(watcher):
        project.write("shop_more.py", HANDLERS.replace(" ran ", " found "))
        project.shop(QUERY.replace("shop_handlers", "shop_more"))
        first = await asyncio.wait_for(reports.get(), 30)
        assert (first.fault, await call(registry)) == (None, "s found x")

        project.write("shop_more.py", HANDLERS.replace(" ran ", " got "))
        second = await asyncio.wait_for(reports.get(), 30)
        assert (second.fault, await call(registry)) == (None, "s got x")


async def test_a_file_that_is_saved_by_rename_is_seen(
    project: Project, registry: HostToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Editors write another file and rename it. The event is enough: there is no look by time."""
    monkeypatch.setattr(reload, "CHECK_SECONDS", 3600.0)
    reports: list[Reload] = []
    seen = asyncio.Event()

    def report(result: Reload) -> None:
        reports.append(result)
        seen.set()

    file = project.shop()
    watcher = HostToolsWatcher(registry, file, on_reload=report)
    await watcher.load()

    async with watched(watcher):
        # The watch begins at an unknown moment, so the file is saved until a save is seen.
        version = 0
        while not seen.is_set():
            version += 1
            saved = file.with_name(f"saved-{version}")
            saved.write_text(QUERY.replace("shop.query", f"shop.v{version}"))
            saved.rename(file)
            with suppress(TimeoutError):
                await asyncio.wait_for(seen.wait(), 0.5)

    assert reports[0].fault is None
    assert names(registry.list_tools())[0].startswith("shop.v")


async def test_a_change_without_an_event_is_seen_by_the_regular_look(
    project: Project, registry: HostToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changed before the watch began, or on a file system without events, is not missed."""
    monkeypatch.setattr(reload, "CHECK_SECONDS", 0.05)
    reports: asyncio.Queue[Reload] = asyncio.Queue()
    watcher = HostToolsWatcher(registry, project.shop(), on_reload=reports.put_nowait)
    await watcher.load()
    project.shop(TWO)

    async with watched(watcher):
        first = await asyncio.wait_for(reports.get(), 30)

    assert first.fault is None
    assert names(registry.list_tools()) == ["shop.query", "shop.other"]


async def test_a_folder_that_is_gone_is_watched_when_it_is_back(
    project: Project, registry: HostToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old tools stay until then."""
    monkeypatch.setattr(reload, "CHECK_SECONDS", 0.05)
    reports: asyncio.Queue[Reload] = asyncio.Queue()
    file = project.shop()
    aside = file.parent / "aside" / "shop.yaml"
    aside.parent.mkdir()
    file.rename(aside)
    watcher = HostToolsWatcher(registry, aside, on_reload=reports.put_nowait)
    await watcher.load()
    shutil.rmtree(aside.parent)
    # Nothing else of the file's is watched, so that no folder is left.
    sys.modules.pop("shop_handlers")
    (file.parent / "shop_handlers.py").unlink()

    async with watched(watcher):
        gone = await asyncio.wait_for(reports.get(), 30)
        assert "cannot be read" in f"{gone.fault}"
        assert names(registry.list_tools()) == ["shop.query"]
        project.shop()
        aside.parent.mkdir()
        aside.write_text(TWO)
        back = await asyncio.wait_for(reports.get(), 30)

    assert back.fault is None
    assert names(registry.list_tools()) == ["shop.query", "shop.other"]


async def test_without_watchfiles_the_error_names_the_extra(
    project: Project, registry: HostToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ticks of one's own need no library."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    watcher = HostToolsWatcher(registry, project.shop())
    await watcher.load()

    with pytest.raises(UsageError, match=re.escape(install_command("reload"))):
        await watcher.watch()


async def test_without_a_report_reloads_are_logged(
    project: Project, registry: HostToolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator sees what was loaded, and what was not and why."""

    async def ticks() -> AsyncIterator[None]:
        project.shop("tools: 5")
        yield
        project.shop(TWO)
        yield

    watcher = HostToolsWatcher(registry, project.shop())
    await watcher.load()
    with caplog.at_level(logging.INFO):
        await watcher.watch(ticks())

    assert "was not loaded, the old tools stay" in caplog.text
    assert "changed tools: shop.other" in caplog.text

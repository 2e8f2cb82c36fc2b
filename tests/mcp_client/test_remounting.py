"""Other servers in the place of those that a runtime has mounted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.mcp_client.mounted_servers import raw
from tests.runtime.host_runtime import call, events, new_session, serving
from toolcrib.mcp_client import StdioServerConfig
from toolcrib.runtime.runtime import Runtime

pytestmark = pytest.mark.wire


def named(name: str, server: StdioServerConfig, **terms: Any) -> StdioServerConfig:
    return replace(server, name=name, terms=replace(server.terms, prefix=f"{name}_", **terms))


async def listed(runtime: Runtime, session_id: str) -> dict[str, bool]:
    """The tools of a session, each with whether a person has to approve it."""
    found = await runtime.ask("tools.list", {"session_id": session_id})
    return {each.name: each.requires_approval for each in found.tools}


def children() -> set[str]:
    """The processes that this one has started and that are still there."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii")
    return set(found.split())


async def test_servers_come_go_and_change_in_a_live_session() -> None:
    """R32: a session that is open has what is mounted now, and is told of each change; a server
    that stays as it was is not started again.
    """
    stays, goes, changes = (named(name, raw("read")) for name in ("stays", "goes", "changes"))
    before = children()
    async with serving(mcp_servers=[stays, goes, changes]) as runtime:
        session = await new_session(runtime)
        assert await listed(runtime, session) == dict.fromkeys(
            ["stays_read", "goes_read", "changes_read"], False
        )
        started = children() - before

        comes = named("comes", raw("write"))
        changed = named("changes", raw("read"), approval="always")
        await runtime.service.remount_servers([stays, changed, comes])

        expected = {"stays_read": False, "changes_read": True, "comes_write": False}
        assert await listed(runtime, session) == expected
        assert await listed(runtime, await new_session(runtime)) == expected
        assert (await call(runtime, session, "stays_read")).text == "ran read"
        assert (await call(runtime, session, "comes_write")).text == "ran write"
        assert (await call(runtime, session, "goes_read")).failure.kind == "not_found"
        told = {each["data"]["name"] for each in await events(runtime, session, "tools.changed")}
        assert told == {"goes_read", "changes_read", "comes_write"}
        assert len(started & children()) == 1
        assert len(children() - before) == 3
    assert children() == before


async def test_without_any_they_are_all_left() -> None:
    """What no file names any more is not served, and its program ends."""
    before = children()
    async with serving(mcp_servers=[raw("read")]) as runtime:
        session = await new_session(runtime)
        await runtime.service.remount_servers([])

        assert await listed(runtime, session) == {}
        assert children() == before


async def test_one_that_cannot_be_reached_is_told_of() -> None:
    """A bad server is no reason to keep the others as they were."""
    broken = StdioServerConfig(name="broken", terms=raw().terms, command="no-such-program-anywhere")
    async with serving() as runtime:
        session = await new_session(runtime)
        await runtime.service.remount_servers([broken, raw("read")])

        assert list(await listed(runtime, session)) == ["raw_read"]
        found = await runtime.ask("tools.list", {"session_id": session})
        assert list(found.unavailable) == ["mcp:broken"]


async def test_one_that_is_given_up_leaves_nothing() -> None:
    """Who closes meanwhile has no server that nobody knows of."""
    before = children()
    async with serving() as runtime:
        task = asyncio.create_task(runtime.service.remount_servers([raw("read")]))
        await until(lambda: children() != before)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    # A program that was killed as it began is still to be waited for.
    await until(lambda: children() == before)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0)

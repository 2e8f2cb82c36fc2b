"""What a registry tells of its changes, and how a set of changes stays whole."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pytest

from tests.host_tools.samples import define, echo, names, of_session
from toolcrib.errors import DuplicateTool, InvalidTool
from toolcrib.host_tools import HostToolRegistry, Origin, RegistryChange

FILE = Origin("shop.yaml")


@pytest.fixture
def registry() -> HostToolRegistry:
    return HostToolRegistry()


class TestListeners:
    async def test_every_change_is_told_once(self, registry: HostToolRegistry) -> None:
        """R15: with what was there before and what is there now."""
        heard: list[tuple[RegistryChange, ...]] = []
        registry.subscribe(heard.append)
        first, second, own = define(), define(version="2.0.0"), of_session("own")

        await registry.register(first)
        await registry.register_or_replace(second)
        await registry.register(own, session_id="a")
        await registry.unregister("search")
        await registry.close_session("a")

        assert heard == [
            (RegistryChange("search", None, first),),
            (RegistryChange("search", first, second),),
            (RegistryChange("own", None, own, session_id="a"),),
            (RegistryChange("search", second, None),),
            (RegistryChange("own", own, None, session_id="a"),),
        ]

    async def test_what_changes_nothing_is_not_told(self, registry: HostToolRegistry) -> None:
        """R15: the same tool again, a tool that was not there, or a refused one."""
        await registry.register(define())
        heard: list[tuple[RegistryChange, ...]] = []
        registry.subscribe(heard.append)

        assert await registry.register_or_replace(define())
        assert not await registry.unregister("other")
        with pytest.raises(DuplicateTool):
            await registry.register(define())
        with pytest.raises(InvalidTool):
            await registry.register(of_session())

        assert heard == []

    async def test_who_ends_it_hears_no_more(self, registry: HostToolRegistry) -> None:
        """R15: also in the middle of being told, and another subscription of the same function
        stays.
        """
        heard: list[str] = []

        def listen(changes: tuple[RegistryChange, ...]) -> None:
            heard.append(changes[0].name)
            end_second()

        end_first = registry.subscribe(listen)
        end_second = registry.subscribe(listen)

        await registry.register(define("a"))
        assert heard == ["a"]
        end_second()
        await registry.register(define("b"))
        end_first()
        await registry.register(define("c"))
        assert heard == ["a", "b"]

    async def test_a_listener_that_fails_does_not_stop_the_others(
        self, registry: HostToolRegistry, caplog: pytest.LogCaptureFixture
    ) -> None:
        """R15: the tool is registered, the others hear of it, and the fault is logged."""
        heard: list[tuple[RegistryChange, ...]] = []

        def broken(changes: tuple[RegistryChange, ...]) -> None:
            raise LookupError("gone")

        registry.subscribe(broken)
        registry.subscribe(heard.append)
        with caplog.at_level(logging.ERROR):
            await registry.register(define())

        assert len(heard) == 1
        assert "LookupError: gone" in caplog.text

    async def test_a_listener_may_change_the_registry(self, registry: HostToolRegistry) -> None:
        """R15: all listeners hear of that after what it was told, in one order."""
        heard: list[list[str]] = [[], []]

        def first(changes: tuple[RegistryChange, ...]) -> None:
            heard[0].append(changes[0].name)
            if changes[0].name == "a":
                registry.add(define("b"))

        registry.subscribe(first)
        registry.subscribe(lambda changes: heard[1].append(changes[0].name))

        await registry.register(define("a"))

        assert heard == [["a", "b"], ["a", "b"]]


class TestSwap:
    def test_all_of_one_origin_is_swapped_in_one_step(self, registry: HostToolRegistry) -> None:
        """What stays keeps its place, what is the same is not told, and others are left alone."""
        kept, old, gone = define("kept"), define("new_version"), define("gone")
        registry.add_all([(kept, FILE), (old, FILE)])
        registry.add(define("other"))
        registry.add_all([(gone, FILE)])
        heard: list[tuple[RegistryChange, ...]] = []
        registry.subscribe(heard.append)
        new, added = define("new_version", version="2.0.0"), define("added")

        changes = registry.swap("shop.yaml", [(added, FILE), (new, FILE), (define("kept"), FILE)])

        assert names(registry.list_tools()) == ["kept", "new_version", "other", "added"]
        assert heard == [changes]
        assert changes == (
            RegistryChange("new_version", old, new),
            RegistryChange("gone", gone, None),
            RegistryChange("added", None, added),
        )

    def test_a_swap_that_cannot_be_made_changes_nothing(self, registry: HostToolRegistry) -> None:
        """A name that somebody else has, or that stands twice, keeps the old set."""
        registry.add_all([(define("a"), FILE)])
        registry.add(define("taken"))

        for bad in ("taken", "b"):
            with pytest.raises(DuplicateTool, match=f"shop.yaml: there is a tool named '{bad}'"):
                registry.swap("shop.yaml", [(define("b"), FILE), (define(bad), FILE)])

        assert names(registry.list_tools()) == ["a", "taken"]


class TestAllOrNothing:
    async def test_what_a_failed_block_did_is_taken_back(self, registry: HostToolRegistry) -> None:
        """R30: additions, replacements and removals, so that nothing is half-loaded."""
        first, second = define("first"), define("second")
        await registry.register(first)
        await registry.register(second)
        heard: list[RegistryChange] = []
        registry.subscribe(heard.extend)

        with suppress(LookupError), registry.all_or_nothing():
            await registry.register(define("third"))
            await registry.register_or_replace(define("first", version="2.0.0"))
            await registry.register_or_replace(define("first", version="3.0.0"))
            await registry.unregister("second")
            raise LookupError

        assert registry.list_tools() == [first, second]
        assert len(heard) == 8

    async def test_what_a_good_block_did_stays(self, registry: HostToolRegistry) -> None:
        """R30: and is taken back only with a block around it that fails."""
        with registry.all_or_nothing():
            await registry.register(define("a"))
        with suppress(LookupError), registry.all_or_nothing():
            with registry.all_or_nothing():
                await registry.register(define("b"))
            raise LookupError

        assert names(registry.list_tools()) == ["a"]

    async def test_an_inner_block_that_fails_leaves_the_outer_one(
        self, registry: HostToolRegistry
    ) -> None:
        """R33: one broken plugin among several is taken back alone."""
        with registry.all_or_nothing():
            await registry.register(define("a"))
            with suppress(LookupError), registry.all_or_nothing():
                await registry.register(define("b"))
                raise LookupError
            await registry.register(define("c"))

        assert names(registry.list_tools()) == ["a", "c"]

    async def test_what_others_do_meanwhile_is_theirs(self, registry: HostToolRegistry) -> None:
        """Another task's registrations stay, also where they replaced the block's own."""
        inside, outside = asyncio.Event(), asyncio.Event()
        theirs = define("shared", handler=echo, version="9.0.0")

        async def block() -> None:
            with registry.all_or_nothing():
                await registry.register(define("mine"))
                await registry.register(define("shared"))
                inside.set()
                await outside.wait()
                raise LookupError

        failing = asyncio.create_task(block())
        await inside.wait()
        await registry.register(define("other"))
        await registry.register_or_replace(theirs)
        outside.set()
        with pytest.raises(LookupError):
            await failing

        assert registry.list_tools() == [theirs, define("other")]

    async def test_a_block_is_of_one_registry(self, registry: HostToolRegistry) -> None:
        """R12: what the block does to another registry is no part of it."""
        other = HostToolRegistry()

        with suppress(LookupError), registry.all_or_nothing(), other.all_or_nothing():
            await registry.register(define("a"))
            await other.register(define("b"))
            raise LookupError
        with suppress(LookupError), registry.all_or_nothing():
            await other.register(define("c"))
            raise LookupError

        assert registry.list_tools() == []
        assert names(other.list_tools()) == ["c"]

"""`CallEnded`: a handler or a hook ends its call with a kind of failure."""

from __future__ import annotations

from typing import Annotated, Any, cast

import pytest

from tests.calls.runs import run
from toolcrib import CallEnded, CallFailed, Executor, Hooks, Secret, Session, tool
from toolcrib.errors import UsageError
from toolcrib.failures import FAILURE_KINDS, FailureKind, Fault


@pytest.mark.parametrize("kind", FAILURE_KINDS)
async def test_a_handler_ends_its_call_with_a_kind(kind: FailureKind) -> None:
    """A program reads the kind; the model reads the message alone."""

    @tool
    async def print_page() -> str:
        """Print a page."""
        raise CallEnded(kind, "The printer is switched off.")

    ended = await run(print_page)

    assert ended.outcome.status == "failed"
    assert ended.outcome.failure is not None
    assert ended.outcome.failure.kind == kind
    assert ended.outcome.text == "The printer is switched off."
    with pytest.raises(CallFailed, match="switched off"):
        ended.outcome.unwrap()


async def test_a_sync_handler_ends_its_call_with_a_kind() -> None:
    """What a thread raises counts as much."""

    @tool
    def print_page() -> str:
        """Print a page."""
        raise CallEnded("unavailable", "The printer is switched off.")

    failure = (await run(print_page)).outcome.failure

    assert failure is not None
    assert failure.kind == "unavailable"


async def test_faults_name_the_arguments_that_are_wrong() -> None:
    """A handler that finds out late can say as much as validation does."""

    @tool
    async def book(day: str) -> str:
        """Book a day.

        Args:
            day: Which one.
        """
        faults = (Fault("/day", "is a holiday"),)
        raise CallEnded("invalid_arguments", f"{day} is a holiday.", faults=faults)

    failure = (await run(book, {"day": "Sunday"})).outcome.failure

    assert failure is not None
    assert failure.faults == (Fault("/day", "is a holiday"),)


async def test_hooks_end_a_call_and_do_not_see_its_end() -> None:
    """Before the tool it does not run; after it the end stands. Post hooks do not see a signal."""
    seen: list[object] = []

    @tool
    async def look() -> str:
        """Look."""
        raise CallEnded("unavailable", "It is dark.")

    async def watch(ctx: object, result: object) -> object:
        seen.append(result)
        return result

    async def refuse(ctx: object, arguments: dict[str, Any]) -> dict[str, Any]:
        raise CallEnded("not_permitted", "Not now.")

    watched = Executor(Session(), [look], hooks=Hooks(post={"look": watch}))
    refused = Executor(Session(), [look], hooks=Hooks(pre={"look": refuse}))

    dark = (await watched.call("look")).failure
    assert dark is not None
    assert (dark.kind, seen) == ("unavailable", [])
    not_now = (await refused.call("look")).failure
    assert not_now is not None
    assert not_now.kind == "not_permitted"


async def test_the_message_holds_no_secret() -> None:
    """A handler that quotes a secret argument does not put it into a record."""

    @tool
    async def sign_in(key: Annotated[str, Secret()]) -> str:
        """Sign in.

        Args:
            key: The key.
        """
        raise CallEnded("unavailable", "No service takes the key hunter2-hunter2.")

    ended = await run(sign_in, {"key": "hunter2-hunter2"})

    assert "hunter2" not in ended.outcome.text
    assert ended.outcome.failure is not None
    assert "hunter2" not in ended.outcome.failure.message


def test_an_unknown_kind_is_refused() -> None:
    """A misspelt kind is found where it is written."""
    with pytest.raises(UsageError, match="'offline' is not a kind of failure; the kinds are"):
        CallEnded(cast("FailureKind", "offline"), "The printer is switched off.")

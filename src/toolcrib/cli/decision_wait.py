"""Waiting for the decision on a call, wherever it is made, and going on with the call or prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from toolcrib.cli.results import show_prompt_wait, show_wait
from toolcrib.cli.service import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolcrib.cli.results import RequestPlace
    from toolcrib.runtime.blocking_operations import BlockingOperations
    from toolcrib.runtime.typed_operations import TypedOperations

POLL_SECONDS: Final = 1.0
"""How often the inbox is asked."""


def result_after_decision(
    service: BlockingOperations,
    session_id: str,
    waiting: Mapping[str, Any],
    place: RequestPlace,
) -> dict[str, Any]:
    """The result of a call that waits, once somebody has decided: in another process on the same
    store, or on the server. Ctrl-C leaves it waiting, and gives the result that it had.
    """
    try:
        show_wait(waiting, place)
        return service.complete(_decided(service.operations, session_id, waiting))
    except KeyboardInterrupt:
        return dict(waiting)


def prompt_after_decision(
    service: BlockingOperations, waiting: Mapping[str, Any], place: RequestPlace
) -> dict[str, Any]:
    """The result of a prompt that waits, once somebody has decided what it waits for. Ctrl-C leaves
    it waiting, and gives the result that it had.
    """
    try:
        show_prompt_wait(waiting, place)
        return service.complete(_answered(service.operations, waiting))
    except KeyboardInterrupt:
        return dict(waiting)


async def _answered(operations: TypedOperations, waiting: Mapping[str, Any]) -> dict[str, Any]:
    import asyncio

    result = dict(waiting)
    while result["status"] == "waiting":
        states = [(await operations.get_approval(each)).state for each in result["pending"]]
        if all(state == "pending" for state in states):
            await asyncio.sleep(POLL_SECONDS)
            continue
        resumed = await operations.resume_prompt(result["session_id"], waits=False)
        result = plain(resumed)
    return result


async def _decided(
    operations: TypedOperations, session_id: str, waiting: Mapping[str, Any]
) -> dict[str, Any]:
    import asyncio

    result = dict(waiting)
    # A tool that changed meanwhile is asked about again.
    while result["status"] == "waiting":
        request = await operations.get_approval(result["approval_id"])
        if request.state == "pending":
            await asyncio.sleep(POLL_SECONDS)
            continue
        called = await operations.call_tool(session_id, result["tool"], call_id=result["call_id"])
        result = plain(called)
    return result

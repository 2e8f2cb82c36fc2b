"""The tools that a client brings to its session."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.errors import InvalidTool, Refused
from toolcrib.runtime.client_calls import SOURCE, client_tool
from toolcrib.tools.prepared import prepare

if TYPE_CHECKING:
    from toolcrib.runtime.held import HeldSession
    from toolcrib.runtime.messages import ClientTool
    from toolcrib.runtime.principal import Principal
    from toolcrib.tools.tool import Tool


def brought(told: Sequence[ClientTool], taken: Collection[str]) -> list[Tool[Any, Any]]:
    """The tools of a session that opens. None may stand in for one of ours."""
    found: dict[str, Tool[Any, Any]] = {}
    for each in told:
        if each.name in taken or each.name in found:
            raise _shadows(each.name)
        found[each.name] = _checked(each)
    return list(found.values())


def bring_again(held: HeldSession, told: Sequence[ClientTool], who: Principal) -> None:
    """A client comes back to a session that is open: what it brings is there from now on. Raises
    `Refused` (forbidden) when the session has tools of somebody else's client.
    """
    if not told:
        return
    ours = [name for name, tool in held.executor.tools.items() if tool.ref.source != SOURCE]
    taken = {*ours, *held.tools.host_names}
    # One that a tool of the host stands before is still the client's to bring again.
    tools = brought(told, {name for name in taken if not held.tools.has_from(SOURCE, name)})
    held.client.belong_to(who)
    for tool in tools:
        held.tools.bring(tool)
        held.own_tools.add(tool.name)


def _checked(told: ClientTool) -> Tool[Any, Any]:
    try:
        tool = client_tool(told)
        prepare(tool)
    except InvalidTool as error:
        raise Refused("invalid", f"the client's tool {told.name[:128]!r}: {error}") from None
    return tool


def _shadows(name: str) -> Refused:
    return Refused("conflict", f"the client's tool {name!r} has the name of another tool")

"""The protocol of server tools, which the provider runs while it answers a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.messages.result import RESULTS

if TYPE_CHECKING:
    from toolcrib.embedded.backend import BackendTool
    from toolcrib.embedded.messages.request import Block


class ServerTool(Protocol):
    """A server tool that is open for one request."""

    @property
    def name(self) -> str:
        """The name by which a tool choice names it."""
        ...

    @property
    def backend_tools(self) -> Sequence[BackendTool]:
        """The declarations that the backend sees."""
        ...

    def use(self, name: str) -> Block:
        """The block of a call of one of its backend tools, without the input."""
        ...

    async def run(self, name: str, arguments: Mapping[str, Any]) -> Block:
        """Run a call; returns its result block. A failure of the tool is such a block too."""
        ...

    async def close(self) -> None:
        """Release resources at the end of the message."""
        ...


def server_use(name: str) -> Block:
    """The block of a call, without the input."""
    caller = {"type": "direct"}
    return {"type": "server_tool_use", "id": new_id("srvtoolu"), "name": name, "caller": caller}


def server_result(name: str, content: Any) -> Block:
    """The result block of a call, without the id of the call."""
    return {"type": RESULTS[name], "content": content}


def server_error(name: str, code: str, message: str | None = None) -> Block:
    """The result block of a call that failed."""
    content = {"type": f"{RESULTS[name]}_error", "error_code": code}
    # Only the text editor's error has a message.
    if name == "text_editor_code_execution":
        content["error_message"] = message or ""
    return server_result(name, content)


def positive(config: Mapping[str, Any], key: str, at: str) -> int | None:
    """A limit of a tool. Raises `ApiFault`."""
    value = config.get(key)
    if value is not None and (type(value) is not int or value < 1):
        raise invalid(f"{at}.{key}: it must be a whole number above 0.")
    return value

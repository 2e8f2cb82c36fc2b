"""The question whether a remote MCP tool may be called, on the Responses API."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from toolcrib.adapters.client_calls import ClientCall, ClientItems
from toolcrib.adapters.codec import Item
from toolcrib.adapters.credentials import Credentials
from toolcrib.adapters.items import mapping_of, maybe_text, text_of
from toolcrib.tools.mcp import McpRequest


class OpenAIMcpApprovals(ClientItems):
    """Reads a server's `mcp_approval_request` as a call of its gate (`mcp_gate`), and answers it.

    Only a gate that ran with exactly the arguments that the provider will use is a yes.
    """

    call_type: ClassVar[str] = "mcp_approval_request"
    output_type: ClassVar[str] = "mcp_approval_response"
    id_field: ClassVar[str] = "approval_request_id"

    def __init__(self, server_label: str | None = None, secrets: Sequence[str] = ()) -> None:
        self._label = server_label
        self._credentials = Credentials(secrets)

    def is_call(self, item: Item) -> bool:
        is_own = self._label is None or text_of(item, "server_label") == self._label
        return super().is_call(item) and is_own

    def id_of(self, item: Item) -> str:
        return text_of(item, "id")

    def arguments(self, item: Item) -> dict[str, Any]:
        """What would be called, without the server's credentials. Arguments that cannot be read are
        handed on as they are, so that the gate refuses them: nobody can say yes to what nobody can
        read.
        """
        return {
            "server": text_of(item, "server_label"),
            "tool": text_of(item, "name"),
            "arguments": self._credentials.hide(_read(item)),
        }

    def output(
        self, call: ClientCall, text: str, *, success: bool, value: Any, failure: str | None
    ) -> dict[str, Any]:
        if success and _is_same(_granted(value), call.arguments):
            return {"approve": True}
        edited = "The arguments were changed, and a remote call runs only as it was asked."
        return {"approve": False, "reason": edited if success else text}


def _read(item: Item) -> Any:
    text = maybe_text(item, "arguments")
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_same(granted: dict[str, Any], asked: dict[str, Any]) -> bool:
    """Whether both are the same JSON. Python's own comparison takes 1 for 1.0 and for true."""
    try:
        return json.dumps(granted, sort_keys=True) == json.dumps(asked, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return False


def _granted(value: Any) -> dict[str, Any]:
    """What was said yes to, also when it was read back from a ledger as plain JSON."""
    if isinstance(value, McpRequest):
        return {"server": value.server, "tool": value.tool, "arguments": value.arguments}
    return mapping_of({"value": value}, "value")

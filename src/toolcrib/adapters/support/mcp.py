"""Remote MCP servers: where they are, and what can be asked of them there."""

from __future__ import annotations

from typing import Final

from toolcrib.adapters.support.cell import Kind
from toolcrib.adapters.support.rows import LOCAL, OPENAI_ENDS, OWN_ADAPTER, cells, where

_BY_ADDRESS: Final = "it reaches servers by address only; give a server_url"
_NO_APPROVAL: Final = (
    "nobody can be asked before a call; set require_approval='never' and allow only tools that "
    "need no approval, or connect to the server from here"
)

MCP: Final = Kind(
    where(
        "openai openai-responses anthropic xai",
        no={
            "google google-vertex": "pydantic-ai connects Gemini to no MCP servers; connect to the "
            "server from here"
        },
        other=f"pydantic-ai offers no MCP servers there; {LOCAL}",
    ),
    {
        "server_url": cells("openai openai-responses anthropic xai"),
        "connector_id": cells(OPENAI_ENDS, no={"anthropic xai": _BY_ADDRESS}),
        "tunnel_id": cells(
            "openai", no={"openai-responses": OWN_ADAPTER, "anthropic xai": _BY_ADDRESS}
        ),
        "description": cells(
            "openai openai-responses xai",
            no={"anthropic": "pydantic-ai does not send it; leave it out"},
        ),
        "authorization": cells("openai openai-responses anthropic xai"),
        "headers": cells(
            "openai openai-responses xai",
            no={"anthropic": "it sends no headers of yours; use authorization"},
        ),
        "allowed_tools": cells("openai openai-responses anthropic xai"),
        "allowed_tools.read_only": cells(
            "openai",
            no={
                "openai-responses": OWN_ADAPTER,
                "anthropic xai": "it picks tools by name only; list their names",
            },
        ),
        "require_approval": cells(
            "openai",
            no={
                "openai-responses": f"{OWN_ADAPTER}, or set 'never'",
                "anthropic xai": _NO_APPROVAL,
            },
        ),
        "defer_loading": cells(
            "openai",
            no={
                "openai-responses": OWN_ADAPTER,
                "anthropic xai": "pydantic-ai shows all its tools at once; leave it out",
            },
        ),
    },
)

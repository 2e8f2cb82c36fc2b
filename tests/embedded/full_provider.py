"""A provider with something behind each hosted tool, and a backend that uses them all."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from tests.embedded.scripted_provider import Puppet, function
from tests.mcp_client.mounted_servers import web_peer
from toolcrib.embedded import (
    BackendCallResult,
    BackendOutput,
    BackendReasoning,
    BackendRequest,
    BackendText,
    BackendUsage,
    EmbeddedProvider,
    ProposedCall,
)
from toolcrib.embedded.web.folder import WebFolder

Json = dict[str, Any]

PAGE = "<title>Opening hours</title><h1>Opening hours</h1><p>The shop is open until nine.</p>"
NOTES = "# Returns\n\nGoods may be returned within thirty days."
CODE = (
    "import pathlib; pathlib.Path('/mnt/data/sum.txt').write_text('42')\nprint(json.dumps(6 * 7))"
)
INCLUDED = [
    "web_search_call.action.sources",
    "file_search_call.results",
    "code_interpreter_call.outputs",
]
STEPS: Sequence[tuple[str, Json]] = (
    ("web_search", {"query": "opening hours"}),
    ("file_search", {"queries": ["returns"]}),
    ("python", {"code": f"import json\n{CODE}"}),
    ("shell", {"commands": ["printf 42", "exit 3"]}),
    ("desk__add", {"a": 20, "b": 22}),
)
"""What the backend calls, one after the other, before it answers."""


def uses_everything(request: BackendRequest) -> Sequence[BackendOutput]:
    """Each tool once, if it is offered, and then an answer that cites what they said."""
    offered = {tool.name for tool in request.tools}
    answers = [turn for turn in request.history if isinstance(turn, BackendCallResult)]
    left = [step for step in STEPS if step[0] in offered][len(answers) :]
    if left:
        name, arguments = left[0]
        return [
            BackendReasoning(f"now {name}"),
            ProposedCall(name, json.dumps(arguments)),
            BackendUsage(10, 5),
        ]
    marks = [mark for answer in answers for mark in answer.marks]
    cited = "".join(f" [{mark}]" for mark in dict.fromkeys(marks))
    return [
        BackendText("Open until nine — 😀"),
        BackendText(cited),
        BackendText(", done."),
        BackendUsage(10, 5),
    ]


@dataclass(frozen=True, slots=True)
class Workshop:
    """A started provider, and the tools of a request that asks for everything."""

    provider: EmbeddedProvider
    puppet: Puppet
    client: AsyncOpenAI
    store_id: str
    server_url: str
    approval: str

    @property
    def tools(self) -> list[Json]:
        return [
            {"type": "web_search"},
            {"type": "file_search", "vector_store_ids": [self.store_id]},
            {"type": "code_interpreter", "container": {"type": "auto"}},
            {"type": "shell", "environment": {"type": "container_auto"}},
            {
                "type": "mcp",
                "server_label": "desk",
                "server_url": self.server_url,
                "allowed_tools": ["add"],
                "require_approval": self.approval,
            },
            function("unused"),
        ]

    @property
    def request(self) -> Json:
        return {"model": "puppet", "input": "when?", "tools": self.tools, "include": INCLUDED}

    async def body(self, **more: Any) -> Json:
        """A response as it stands on the wire."""
        responses: Any = self.client.responses.with_raw_response
        raw = await responses.create(**{**self.request, **more})
        return json.loads(raw.content)

    async def events(self, **more: Any) -> list[Json]:
        """The events of a stream as they stand on the wire."""
        asked = {**self.request, **more, "stream": True}
        responses: Any = self.client.responses.with_streaming_response
        async with responses.create(**asked) as raw:
            lines: list[str] = [line async for line in raw.iter_lines()]
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
        return [json.loads(each) for each in data]


@asynccontextmanager
async def workshop(folder: Path, *, approval: str = "never") -> AsyncGenerator[Workshop]:
    """A web of one page, a vector store with one file, and a real MCP server."""
    site = folder / "site"
    site.mkdir()
    (site / "hours.html").write_text(PAGE)
    web = [WebFolder(site, "https://shop.example")]
    puppet = Puppet(uses_everything)
    async with (
        web_peer() as peer,
        EmbeddedProvider(puppet, web=web, allow_egress=["127.0.0.1"]) as provider,
    ):
        client: AsyncOpenAI = provider.client()
        store = await client.vector_stores.create(name="notes")
        await client.vector_stores.files.upload_and_poll(
            vector_store_id=store.id, file=("returns.md", NOTES.encode()), poll_interval_ms=50
        )
        url = f"http://127.0.0.1:{peer.port}/mcp"
        yield Workshop(provider, puppet, client, store.id, url, approval)

"""Trace the four walks of docs/architecture.md and print how many files and functions each enters.

A call, a prompt, an HTTP request with approval, and a code_interpreter run on the embedded
provider. Each runs twice; the second, warm run is traced. Usage: scripts/walks.py [--files] [WALK]
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import toolcrib

PACKAGE = Path(toolcrib.__file__).parent
# The twins stand for the outside, so what they run is not part of a walk.
OUTSIDE = ("testing/", "_lazy.py")


@dataclass
class Walk:
    """What one traced run entered, in order."""

    functions: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    files_before_first_byte: int | None = None
    _seen: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]], repr=False)

    @property
    def named_functions(self) -> int:
        """How many functions have a name; the rest are comprehensions and lambdas."""
        return sum(not function.endswith(">") for _, function in self.functions)

    @property
    def files(self) -> list[str]:
        """The files, in the order in which they were entered first."""
        return list(dict.fromkeys(file for file, _ in self.functions))

    def enter(self, frame: FrameType, event: str, _: Any) -> None:
        """The profile function: remember a function of the package that is entered."""
        if event != "call":
            return
        name = frame.f_code.co_filename
        if not name.startswith(str(PACKAGE)):
            return
        file = Path(name).relative_to(PACKAGE).as_posix()
        entered = (file, frame.f_code.co_qualname)
        if entered not in self._seen and not file.startswith(OUTSIDE):
            self._seen.add(entered)
            self.functions.append(entered)

    def send_first_byte(self) -> None:
        """Note how many files were entered before anything was sent."""
        if self.files_before_first_byte is None:
            self.files_before_first_byte = len(self.files)


async def traced(run: Callable[[Walk], Awaitable[object]]) -> Walk:
    """Run once to warm up and once under the profiler."""
    await run(Walk())
    walk = Walk()
    threading.setprofile(walk.enter)
    sys.setprofile(walk.enter)
    try:
        await run(walk)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return walk


async def call_walk() -> Walk:
    """`executor.call` of a local tool, recorded in memory."""
    from toolcrib import Executor, Session, tool

    @tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    session = Session()
    executor = Executor(session, tools=[add])

    async def run(_: Walk) -> None:
        outcome = await executor.call("add", '{"a": 2, "b": 3}')
        assert outcome.value == 5

    return await traced(run)


async def prompt_walk() -> Walk:
    """`evaluate_async` on the OpenAI adapter: hosted web_search, and one call of a local tool."""
    from toolcrib import MarkdownSection, Prompt, Session, tool
    from toolcrib.adapters.openai import OpenAIAdapter
    from toolcrib.testing import ScriptedOpenAI, calls, says
    from toolcrib.tools.web_search import web_search_tool

    @tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "five"},
    }
    citation = {
        "type": "url_citation",
        "start_index": 0,
        "end_index": 2,
        "url": "https://example.org/five",
        "title": "Five",
    }
    script = ScriptedOpenAI(
        *([search, calls("add", {"a": 2, "b": 3})], [says("It is 5.", citation)]) * 2
    )
    adapter = OpenAIAdapter(model="scripted", client=script.client())
    prompt = Prompt(
        ns="walks",
        key="sum",
        sections=[
            MarkdownSection(
                title="Task", key="task", template="Add.", tools=[add, web_search_tool()]
            )
        ],
    )

    session = Session()

    async def run(walk: Walk) -> None:
        script.on_request = walk.send_first_byte
        response = await adapter.evaluate_async(prompt, session=session)
        assert response.text == "It is 5."
        assert len(response.citations) == 1

    return await traced(run)


async def http_walk() -> Walk:
    """`POST` a call that waits, `POST` the decision, `POST` again for the result."""
    import httpx2

    from toolcrib import RuntimeConfig, ToolContext, create_runtime
    from toolcrib.host_tools import HostToolDefinition, HostToolRegistry
    from toolcrib.serving.tokens import Token, Tokens
    from toolcrib.transports.http import create_app

    def delete_branch(arguments: Mapping[str, Any], _: ToolContext) -> str:
        return f"deleted {arguments['name']}"

    registry = HostToolRegistry()
    await registry.register(
        HostToolDefinition(
            name="delete_branch",
            description="Delete a branch.",
            parameters={"type": "object", "properties": {"name": {"type": "string"}}},
            handler=delete_branch,
            requires_approval=True,
        )
    )
    async with create_runtime(RuntimeConfig(host_tool_registry=registry)) as runtime:
        app = create_app(runtime, tokens=Tokens([Token("a-token-of-the-walk")]))
        transport = httpx2.ASGITransport(app)
        headers = {"authorization": "Bearer a-token-of-the-walk"}
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers
        ) as client:

            async def post(path: str, **body: Any) -> dict[str, Any]:
                answer = await client.post(path, json=body)
                assert answer.is_success, answer.text
                return answer.json()

            session = (await post("/v1/sessions"))["session_id"]

            async def run(_: Walk) -> None:
                path = f"/v1/sessions/{session}/tools/delete_branch/call"
                waiting = await post(path, arguments={"name": "old"})
                approval = waiting["approval_id"]
                await post(f"/v1/approvals/{approval}/decide", decision="approve")
                done = await post(path, arguments={}, call_id=waiting["call_id"])
                assert done["text"] == "deleted old"

            return await traced(run)


async def code_walk() -> Walk:
    """A code_interpreter run on the embedded provider, asked by the official client."""
    from toolcrib.embedded import EmbeddedProvider
    from toolcrib.embedded.backends import ScriptedBackend, read_scenario

    scenario = read_scenario(
        """
name: sums
turns:
  - steps:
      - calls:
          - {tool: python, arguments: {code: "print(6 * 7)"}, as: sum}
      - say: "It is {{ sum.json }}."
"""
    )
    async with EmbeddedProvider(ScriptedBackend(scenario)) as provider:
        client = provider.client()

        async def run(_: Walk) -> None:
            answer = await client.responses.create(
                model="sums",
                input="How much is six times seven?",
                tools=[{"type": "code_interpreter", "container": {"type": "auto"}}],
            )
            assert answer.output_text == "It is 42."

        return await traced(run)


WALKS: dict[str, Callable[[], Coroutine[Any, Any, Walk]]] = {
    "call": call_walk,
    "prompt": prompt_walk,
    "http": http_walk,
    "code": code_walk,
}


async def main(arguments: list[str]) -> None:
    """Print the walks that were named, or all."""
    shows_files = "--files" in arguments
    names = [name for name in arguments if not name.startswith("-")] or list(WALKS)
    for name in names:
        walk = await WALKS[name]()
        first = walk.files_before_first_byte
        until = f", {first} files before the first byte" if first is not None else ""
        named = walk.named_functions
        inner = len(walk.functions) - named
        print(
            f"{name}: {len(walk.files)} files, {named} functions "
            f"and {inner} comprehensions or lambdas{until}"
        )
        if shows_files:
            for file in walk.files:
                entered = [function for at, function in walk.functions if at == file]
                print(f"  {file}: {', '.join(entered)}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

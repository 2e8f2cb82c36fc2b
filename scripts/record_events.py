"""Record the events of real sessions for the tests of the console's timeline.

Run it after a change of what events hold: `python scripts/record_events.py`. The sessions are those
of a runtime with the embedded provider; times and ids are made the same in every run.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from toolcrib import Prompt, RuntimeConfig, ToolContext, create_runtime, tool
from toolcrib.embedded import (
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendReasoning,
    BackendRequest,
    BackendText,
    BackendUsage,
    EmbeddedAdapter,
    EmbeddedProvider,
    ProposedCall,
)
from toolcrib.prompt import MarkdownSection
from toolcrib.runtime.runtime import Runtime

FOLDER = Path(__file__).parents[1] / "console" / "src" / "parts" / "timeline" / "recorded"


@tool(is_read_only=True)
async def stock_level(part: str, ctx: ToolContext) -> int:
    """Say how many of a part are left."""
    ctx.progress(1, 2, f"counting {part}")
    ctx.output(f"shelf 1: {part}\n")
    ctx.output("shelf 2: none\n")
    ctx.progress(2, 2, "counted")
    return len(part)


@tool(requires_approval=True)
async def order_parts(part: str, count: int) -> str:
    """Order more of a part."""
    return f"{count} {part} are ordered"


@tool(is_read_only=True)
async def broken() -> str:
    """Fail."""
    raise RuntimeError("the till is jammed")


@tool(is_read_only=True)
async def translate(text: str, ctx: ToolContext) -> str:
    """Translate a text, with a model."""
    section = MarkdownSection(title="Task", key="task", template=f"Translate: {text}")
    prompt = Prompt[str](ns="shop", key="translate", sections=[section])
    response = await ctx.adapter.evaluate_async(prompt, session=ctx.session)
    return str(response.text)


@tool(is_read_only=True)
async def choose(ctx: ToolContext) -> str:
    """Ask the person which one."""
    return await ctx.ask("Which account?", choices=["shop", "home"])


class Clerk:
    """A model that does what its last message names."""

    name = "clerk"
    is_scripted = True

    async def aclose(self) -> None:
        """Nothing to release."""

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        last = [each for each in request.history if isinstance(each, BackendMessage)][-1].text
        results = 0
        for each in reversed(request.history):
            if isinstance(each, BackendMessage):
                break
            results += isinstance(each, BackendCallResult)
        yield BackendUsage(12, 7)
        if results:
            for piece in ("That ", "is ", "done."):
                yield BackendText(piece)
            return
        async for output in self._first(last):
            yield output

    async def _first(self, words: str) -> AsyncIterator[BackendOutput]:
        if "Translate:" in words:
            yield BackendText("Sägen")
        elif "count" in words:
            yield BackendReasoning("Two parts, ")
            yield BackendReasoning("so two calls.")
            yield BackendText("I look ")
            yield BackendText("at both.")
            yield ProposedCall("stock_level", json.dumps({"part": "saws"}))
            yield ProposedCall("stock_level", json.dumps({"part": "bolts"}))
        elif "order" in words:
            yield ProposedCall("order_parts", json.dumps({"part": "saws", "count": 50}))
        elif "fail" in words:
            yield ProposedCall("broken", "{}")
        elif "translate" in words:
            yield ProposedCall("translate", json.dumps({"text": "saws"}))
        elif "choose" in words:
            yield ProposedCall("choose", "{}")
        else:
            yield BackendText("Hello.")


async def _answer(runtime: Runtime) -> None:
    """Decide and answer whatever comes, until it is cancelled."""
    decisions = [
        {"decision": "approve", "arguments": {"part": "saws", "count": 5}},
        {"decision": "deny", "reason": "too many"},
    ]
    while True:
        for request in (await runtime.ask("approvals.list")).approvals:
            decision = decisions.pop(0)
            about = {"approval_id": request.approval_id, "digest": request.digest}
            await runtime.ask("approvals.decide", {**about, **decision})
        for question in (await runtime.ask("questions.list")).questions:
            answer = {"question_id": question.question_id, "value": "shop"}
            await runtime.ask("questions.answer", answer)
        await asyncio.sleep(0.01)


async def record(prompts: list[str]) -> list[dict[str, Any]]:
    """The envelopes of one session with these prompts, as a page that follows it gets them."""
    tools = [stock_level, order_parts, broken, translate, choose]
    config = RuntimeConfig(adapter=EmbeddedAdapter(EmbeddedProvider(Clerk())), tools=tools)
    async with create_runtime(config) as runtime:
        await runtime.ask("session.create", {"session_id": "workshop"})
        reader = runtime.service.follow("workshop")
        envelopes: list[dict[str, Any]] = []

        async def read() -> None:
            async for envelope in reader:
                envelopes.append(asdict(envelope))

        following, answering = asyncio.create_task(read()), asyncio.create_task(_answer(runtime))
        for text in prompts:
            await runtime.ask("prompt.send", {"session_id": "workshop", "text": text})
        await asyncio.sleep(0.2)
        answering.cancel()
        reader.close()
        await following
        return envelopes


def settled(envelopes: list[dict[str, Any]]) -> str:
    """The envelopes as JSON, with times and random ids that are the same in every run."""
    start = envelopes[0]["at"]
    text = json.dumps(envelopes, ensure_ascii=False, indent=1)
    numbers = count(1)
    names: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"{match[1]}_{next(numbers)}")

    text = re.sub(r"\b(apr|req|resp|msg|rs|fc|call|q|ctr|que)_[0-9a-f]{12,}\b", name, text)
    text = re.sub(
        r"\b1\d{9}\.\d+\b", lambda match: f"{1_790_000_000 + float(match[0]) - start:.3f}", text
    )
    return text + "\n"


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    prompts = ["count the parts", "order saws", "order more", "fail", "translate", "choose", "hi"]
    text = settled(asyncio.run(record(prompts)))
    (FOLDER / "workshop.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()

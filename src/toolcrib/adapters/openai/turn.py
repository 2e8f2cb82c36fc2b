"""One prompt and all that follows from it: requests, calls, and the answer.

`run` is the loop. Everything it learns goes into the ledger before it is acted on, so that a turn
can go on in another process without repeating a request or a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic_core import to_json

from toolcrib.adapters.budget import Budget
from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import mappings_of, maybe_text, text_of
from toolcrib.adapters.openai.content import output_format
from toolcrib.adapters.openai.conversation import Conversation, usage_of
from toolcrib.adapters.openai.finding import check_status
from toolcrib.adapters.openai.hosted_calls import HostedCalls
from toolcrib.adapters.openai.watching import Watcher
from toolcrib.adapters.openai.wire import Reply, Wire
from toolcrib.calls.batch import CallRequest
from toolcrib.session.events import ModelResponded

if TYPE_CHECKING:
    from toolcrib.adapters.openai.declared import Declared
    from toolcrib.calls.executor import Executor
    from toolcrib.calls.outcome import Outcome
    from toolcrib.prompt.rendering import RenderedPrompt

O = TypeVar("O")  # noqa: E741


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """How a prompt is asked."""

    model: str
    tool_choice: str = "auto"
    budget: Budget = field(default_factory=Budget)
    stream: bool = False
    settings: dict[str, Any] | None = None
    """Further fields of the request, as the provider names them."""


class Turn(Generic[O]):
    """A turn in progress."""

    def __init__(
        self,
        *,
        prompt: RenderedPrompt[O],
        declared: Declared,
        executor: Executor,
        wire: Wire,
        options: TurnOptions,
        conversation: Conversation,
        hosted: HostedCalls,
    ) -> None:
        self.prompt = prompt
        self.declared = declared
        self.executor = executor
        self.conversation = conversation
        self.options = options
        self.hosted = hosted
        self._wire = wire
        self._session = executor.session
        self._deadline = self._deadline_at(options.budget.seconds)

    async def run(self) -> list[Outcome]:
        """Ask until the model has answered, or calls wait; returns the outcomes that wait."""
        while True:
            await self.ask()
            waiting = await self.answer_calls()
            if waiting or not self._has_news():
                return waiting

    async def ask(self) -> None:
        """Make one request and write down what came back."""
        conversation = self.conversation
        self.options.budget.check(
            self.prompt.name,
            steps=conversation.steps,
            calls=conversation.calls,
            usage=conversation.usage,
        )
        step = conversation.steps + 1
        watcher = Watcher(self._session, step) if self.options.stream else None
        reply = await self._wire.ask(
            self._body(),
            prompt_name=self.prompt.name,
            on_event=watcher.hear if watcher else None,
            deadline=self._deadline,
        )
        await self._record(reply, step)
        check_status(reply, self.prompt.name)
        await self.hosted.record(conversation.last_items)

    async def answer_calls(self) -> list[Outcome]:
        """Run the calls of the last step and say what came of them; those that wait are returned
        and nothing is said yet, because a provider takes the outputs of a step together.
        """
        items = list(self.conversation.requested())
        outcomes = await self.executor.call_many([self._request(item) for item in items])
        self.conversation.calls += len(items)
        return self.say_outcomes(items, outcomes)

    def say_outcomes(self, items: Sequence[Item], outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Add the outputs of calls to the conversation, unless some of them wait."""
        waiting = [outcome for outcome in outcomes if outcome.status == "waiting"]
        if not waiting:
            for item, outcome in zip(items, outcomes, strict=True):
                self.conversation.say(output_item(item, outcome.text))
        return waiting

    def say_texts(self, items: Sequence[Item], texts: Mapping[str, str]) -> None:
        """Add the outputs of calls whose texts are known by call id."""
        for item in items:
            self.conversation.say(output_item(item, texts.get(text_of(item, "call_id"), "")))

    def _has_news(self) -> bool:
        return any(True for _ in self.conversation.requested())

    def _request(self, item: Item) -> CallRequest:
        wire_name = text_of(item, "name")
        return CallRequest(
            self.declared.names.get(wire_name, wire_name),
            arguments_of(item),
            maybe_text(item, "call_id"),
        )

    def _body(self) -> dict[str, Any]:
        conversation, declared, options = self.conversation, self.declared, self.options
        body: dict[str, Any] = {
            **(options.settings or {}),
            **declared.body,
            "model": options.model,
            "input": conversation.unsent,
        }
        include = list(declared.include)
        if conversation.history == "client":
            body["store"] = False
            include.append("reasoning.encrypted_content")
        elif conversation.previous_response_id is not None:
            body["previous_response_id"] = conversation.previous_response_id
        if include:
            body["include"] = include
        if declared.tools:
            body["tools"] = declared.tools
            # A choice that was forced once would be forced for ever.
            wanted = options.tool_choice if conversation.steps == 0 else "auto"
            if wanted != "auto" or options.tool_choice == "none":
                body["tool_choice"] = declared.choice(options.tool_choice, self.prompt.name)
        if self.prompt.output is not None:
            body["text"] = {**body.get("text", {}), "format": output_format(self.prompt.output)}
        return body

    async def _record(self, reply: Reply, step: int) -> None:
        body = reply.body
        items: list[Item] = [*mappings_of(body, "output")]
        usage = usage_of(body)
        model = maybe_text(body, "model")
        response_id = maybe_text(body, "id")
        session = self._session
        await session.record(
            ModelResponded(
                session_id=session.session_id,
                at=session.clock(),
                turn=session.turn,
                step=step,
                response_id=response_id,
                request_id=reply.request_id,
                model=model,
                items=list(items),
                usage={
                    "input_tokens": usage.input_tokens,
                    "output_tokens": usage.output_tokens,
                    "cached_tokens": usage.cached_tokens,
                    "reasoning_tokens": usage.reasoning_tokens,
                },
            )
        )
        if reply.request_id:
            self.conversation.request_ids.append(reply.request_id)
        self.conversation.hear(items, response_id, usage, model)

    def _deadline_at(self, seconds: float | None) -> float | None:
        return None if seconds is None else asyncio.get_running_loop().time() + seconds


def arguments_of(item: Item) -> str:
    """The arguments of a call; a custom tool's free text is its one argument."""
    if item.get("type") == "custom_tool_call":
        return to_json({"input": text_of(item, "input")}).decode()
    return text_of(item, "arguments")


def output_item(item: Item, text: str) -> Item:
    """The output of a call, as the provider takes it."""
    is_custom = item.get("type") == "custom_tool_call"
    return {
        "type": "custom_tool_call_output" if is_custom else "function_call_output",
        "call_id": text_of(item, "call_id"),
        "output": text,
    }

"""Behaviour shared by all adapters: blocking and async evaluation, and resuming a prompt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from pydantic_core import to_json

from toolcrib.adapters.attachments import first_message
from toolcrib.adapters.compaction import (
    CompactedItems,
    checked_length,
    has_turns,
    last_tokens,
    record_items,
    record_summary,
    summary_prompt,
)
from toolcrib.adapters.credentials import Credentials
from toolcrib.adapters.evaluation import PromptRequest
from toolcrib.adapters.options import Options
from toolcrib.adapters.prompt_scope import around
from toolcrib.adapters.prompt_stream import PromptStream
from toolcrib.adapters.run_options import configure
from toolcrib.adapters.tool_declarations import contribution_of, secrets_in
from toolcrib.adapters.turn_tools import (
    Governance,
    PreparedTools,
    PromptExecutor,
    ProviderProfile,
    TurnTools,
    open_turn,
)
from toolcrib.errors import InvalidPrompt, PromptEvaluationError, UsageError
from toolcrib.ledger.events import Event
from toolcrib.portal import Portal
from toolcrib.session.session import Session
from toolcrib.session.turns import call_here, caller_here
from toolcrib.store.store import ask_store
from toolcrib.tools.code_interpreter import ExistingContainer
from toolcrib.tools.identity import identity_of
from toolcrib.tools.prepared_tool import as_tool

if TYPE_CHECKING:
    from toolcrib.adapters.answer import PromptResponse
    from toolcrib.adapters.evaluation import Evaluation
    from toolcrib.ledger.prompt_events import HistoryCompacted
    from toolcrib.prompt.prompt import Prompt, RenderedPrompt
    from toolcrib.session.bus import EventBus
    from toolcrib.tools.prepared_tool import PreparedTool

O = TypeVar("O")  # noqa: E741


class PromptAdapter(ABC):
    """Evaluates prompts on one provider; `name` is the provider's."""

    name: str

    def __init__(self, *, compact_above: int | None = None) -> None:
        self.compact_above = checked_length(compact_above)
        self._portal = Portal()
        self._prepared = PreparedTools()

    def evaluate(
        self, prompt: Prompt[O], *, session: Session | None = None, **options: Unpack[Options]
    ) -> PromptResponse[O]:
        """Evaluate a prompt and wait for the answer. In async code, await `evaluate_async`."""
        return self._portal.run(
            lambda: self.evaluate_async(prompt, session=session, **options), "evaluate_async"
        )

    def resume(
        self, prompt: Prompt[O], *, session: Session, **options: Unpack[Options]
    ) -> PromptResponse[O]:
        """Go on with a prompt that stopped. In async code, await `resume_async`."""
        return self._portal.run(
            lambda: self.resume_async(prompt, session=session, **options), "resume_async"
        )

    async def evaluate_async(
        self, prompt: Prompt[O], *, session: Session | None = None, **options: Unpack[Options]
    ) -> PromptResponse[O]:
        """Evaluate a prompt. Raises `PromptEvaluationError`; nothing is sent before it is known
        that everything in the prompt can be.

        Inside a call, without another session, it is a turn of the call's own session.
        """
        call = call_here()
        session = session or (call.session if call else Session())
        with _published_to(session, options.get("bus")):
            await self._compact_above(session, options)
            evaluation = await self._open(prompt, session, options)
            return self._answered(await evaluation.start())

    async def resume_async(
        self, prompt: Prompt[O], *, session: Session, **options: Unpack[Options]
    ) -> PromptResponse[O]:
        """Go on where a prompt stopped, to wait or with an error, in this process or another: what
        was asked and what ran is taken from the session's ledger and not repeated.
        """
        with _published_to(session, options.get("bus")):
            evaluation = await self._open(prompt, session, options)
            return self._answered(await evaluation.resume())

    def compact(self, session: Session, *, instructions: str | None = None) -> HistoryCompacted:
        """Shorten a session's conversation. In async code, await `compact_async`."""
        return self._portal.run(
            lambda: self.compact_async(session, instructions=instructions), "compact_async"
        )

    async def compact_async(
        self, session: Session, *, instructions: str | None = None
    ) -> HistoryCompacted:
        """Shorten a session's conversation: by the provider where it can, else by a summary that
        the model writes, with `instructions` on what matters. Prompts that follow start from it.

        Raises `UsageError` without a conversation, and `PromptEvaluationError`.
        """
        if not await ask_store(session.store, has_turns, session):
            raise UsageError("the session has no conversation to shorten; evaluate a prompt first")
        provider = self._profile_here().provider
        items = await self._compacted(session, instructions)
        if items is not None:
            return await record_items(session, provider, items)
        summary = await self.evaluate_async(
            summary_prompt(instructions), session=session, follows=True, compact_above=None
        )
        return await record_summary(session, provider, summary)

    async def _compact_above(self, session: Session, options: Options) -> None:
        """Shorten the conversation that a prompt follows, if it is longer than is allowed."""
        limit = checked_length(options.get("compact_above", self.compact_above))
        if limit is None or not options.get("follows"):
            return
        if await ask_store(session.store, last_tokens, session) > limit:
            await self.compact_async(session)

    def stream(
        self, prompt: Prompt[O], *, session: Session | None = None, **options: Unpack[Options]
    ) -> PromptStream[O]:
        """Evaluate a prompt, and yield what happens: `async for event in adapter.stream(prompt)`.
        The last item is the `PromptResponse`, the same that `evaluate` returns; all others are
        events. Raises what `evaluate_async` raises, at the step where it happens.
        """
        call = call_here()
        session = session or (call.session if call else Session())
        return self._stream(self.evaluate_async, prompt, session, options)

    def stream_resume(
        self, prompt: Prompt[O], *, session: Session, **options: Unpack[Options]
    ) -> PromptStream[O]:
        """Go on where a prompt stopped, as `resume_async` does, and yield what happens."""
        return self._stream(self.resume_async, prompt, session, options)

    def stream_blocking(
        self, prompt: Prompt[O], *, session: Session | None = None, **options: Unpack[Options]
    ) -> Generator[Event | PromptResponse[O]]:
        """Like `stream`, in a program without an event loop: `for event in
        adapter.stream_blocking(prompt)`. Leaving the loop cancels the evaluation.
        """
        stream = self.stream(prompt, session=session, **options)
        try:
            while not stream.is_over:
                yield self._portal.run(stream.__anext__, "stream")
        finally:
            self._portal.run(stream.aclose, "stream")

    def _stream(
        self,
        evaluate: Callable[..., Coroutine[Any, Any, PromptResponse[O]]],
        prompt: Prompt[O],
        session: Session,
        options: Options,
    ) -> PromptStream[O]:
        own_bus = options.get("bus")

        async def followed(bus: EventBus) -> PromptResponse[O]:
            with _published_to(session, own_bus):
                streamed: Options = {**options, "bus": bus, "stream": True}
                return await evaluate(prompt, session=session, **streamed)

        return PromptStream(session, followed)

    def describe(self, tool: object, *, show_secrets: bool = False) -> dict[str, Any]:
        """Return the tool as an entry of a request's `tools`, as this adapter would send it.

        What the options hold that is secret is hidden unless `show_secrets` asks for it. Raises
        `UsageError` for a tool or an option that the provider does not take.
        """
        declared = as_tool(tool)
        contribution = contribution_of(declared, self._profile_here())
        if contribution is None:
            return self._function_entry(self._prepared.get(declared))
        entry = dict(contribution.tools[0])
        return entry if show_secrets else Credentials(secrets_in(declared)).hide(entry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """End the connections and the thread that blocking calls use."""
        self._portal.close(self.aclose)

    @abstractmethod
    async def aclose(self) -> None:
        """End the connections that were made in this event loop."""

    @abstractmethod
    async def _open(self, prompt: Prompt[O], session: Session, options: Options) -> Evaluation[O]:
        """Prepare everything; raises before anything is sent."""

    @abstractmethod
    def _profile_here(self) -> ProviderProfile:
        """What is known of the provider, without a request."""

    async def _compacted(self, session: Session, instructions: str | None) -> CompactedItems | None:
        """What the provider itself makes of the conversation; None when it cannot shorten one."""
        return None

    @abstractmethod
    def _function_entry(self, tool: PreparedTool) -> dict[str, Any]:
        """A tool that this process runs, as an entry of a request."""

    def _turn_tools(
        self,
        prompt: Prompt[O],
        rendered: RenderedPrompt[O],
        session: Session,
        options: Options,
        profile: ProviderProfile,
    ) -> TurnTools:
        """The tools of a prompt, ready. A nested prompt without governance of its own has that of
        the outer one.
        """
        own, outer = options.get("governance"), around(session)
        is_inherited = own is None and outer is not None
        governance = own or (outer.governance if outer else Governance())
        if governance.caller is None and (caller := caller_here()) is not None:
            # Whoever asked for the call that this prompt is part of asks for what comes of it.
            governance = replace(governance, caller=replace(caller, is_model=True))
        return open_turn(
            rendered,
            session,
            governance,
            profile,
            self._prepared,
            lambda tools: PromptExecutor(
                session, tools, governance, prompt=prompt, adapter=self, is_inherited=is_inherited
            ),
        )

    def _answered(self, response: PromptResponse[O]) -> PromptResponse[O]:
        """The response as the caller gets it; an adapter may log what it holds."""
        return response


def check_choice(option: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a misspelt option: history or a tool would go where nobody meant it to."""
    if value not in choices:
        raise UsageError(f"{option} must be one of {', '.join(choices)}, not {value!r}")


def render(prompt: Prompt[O], prepared: PreparedTools, session: Session) -> PromptRequest[O]:
    """The prompt as it is sent. Raises `PromptEvaluationError` (phase render).

    Its digest covers the whole identity of hosted tools, with their options: what the provider was
    allowed to use is not sent for anything else. Of tools that this process runs it covers the
    declaration; their calls are bound to the rest, and people are asked again about one by one.
    """
    try:
        configured = configure(prompt.render(), session, prepared)
        rendered = configured.prompt
        message = first_message(rendered)
    except InvalidPrompt as error:
        raise PromptEvaluationError(str(error), prompt_name=prompt.name, phase="render") from error
    hasher = sha256(to_json(message))
    if rendered.instructions:
        hasher.update(to_json({"instructions": rendered.instructions}))
    for tool in map(prepared.get, rendered.declared):
        is_hosted = tool.ref.place == "provider"
        hasher.update(to_json(_renewable(tool) if is_hosted else tool.declaration))
    return PromptRequest(
        rendered, message, hasher.hexdigest(), configured.withheld, configured.tool_options
    )


def without_withheld(
    prompt: Prompt[O], request: PromptRequest[O], tools: TurnTools
) -> tuple[PromptRequest[O], TurnTools]:
    """The request without what its text says of tools that are withheld and not replaced. The
    digest stays that of the whole prompt, so that it can be resumed under another policy.
    """
    tools = replace(tools, withheld=(*request.withheld, *tools.withheld))
    names = {withheld.tool.name for withheld in tools.withheld if withheld.replaced_by is None}
    if not names:
        return request, tools
    rendered = replace(prompt.render(withheld=names), declared=request.prompt.declared)
    if (
        rendered.text == request.prompt.text
        and rendered.instructions == request.prompt.instructions
    ):
        return request, tools
    withheld_tools = tuple(
        replace(
            withheld,
            sections=tuple(
                path for path, owned in rendered.left_out if withheld.tool.name in owned
            ),
        )
        for withheld in tools.withheld
    )
    shorter = replace(request, prompt=rendered, message=first_message(rendered))
    return shorter, replace(tools, withheld=withheld_tools)


def _renewable(tool: PreparedTool) -> str:
    """The digest of a hosted tool, whichever existing container it uses: containers expire, and a
    turn goes on in one that takes the place of another.
    """
    config: Any = getattr(tool.tool, "config", None)
    if not isinstance(getattr(config, "container", None), ExistingContainer):
        return tool.ref.digest
    renewed = replace(config, container=replace(config.container, id="any"))
    changes: dict[str, Any] = {"config": renewed}
    return identity_of(replace(tool.tool, **changes), tool.params.schema).digest


@contextmanager
def _published_to(session: Session, bus: EventBus | None) -> Generator[None]:
    """Publish the session's events to a bus meanwhile, unless it gets them already."""
    own = session.bus
    if bus is None or bus is own or bus.publish in own.subscribers.get(Event, ()):
        yield
        return
    unsubscribe = own.subscribe(Event, bus.publish)
    try:
        yield
    finally:
        unsubscribe()

"""The evaluation of one prompt, from its first message to the response.

A tool call may evaluate a prompt inside another one. By default the nested prompt has the
governance of the outer one, its tokens count against the budgets of both, and it ends with the
call.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toolcrib.adapters.answer import (
    PromptResponse,
    answer_items,
    answer_text,
    citations,
    codec_view,
    reasoning_texts,
    structured,
)
from toolcrib.adapters.attachments import kept_attachments
from toolcrib.adapters.credentials import Credentials
from toolcrib.adapters.earlier_turns import follow
from toolcrib.adapters.history import (
    Conversation,
    History,
    correction,
    queued_response,
    read_open_prompt,
    spent_within,
    steps_of,
    take_up,
)
from toolcrib.adapters.hosted_outputs import HostedOutputs
from toolcrib.adapters.items import ReplyItem, UserMessage, tool_calls
from toolcrib.adapters.kept_work import keep_work
from toolcrib.adapters.loop import Turn, announced
from toolcrib.adapters.prompt_scope import PromptScope, around, evaluating
from toolcrib.adapters.request_hooks import PromptHooks
from toolcrib.errors import CallFailed, ContainerGone, OutputMismatch, PromptEvaluationError
from toolcrib.ledger.prompt_events import (
    AnswerRejected,
    PromptAnswered,
    PromptResumed,
    PromptStarted,
    ToolWithheld,
)
from toolcrib.prices.cost import Cost
from toolcrib.session.turns import call_here, turn_here
from toolcrib.store.store import ask_store
from toolcrib.tools.citations import cited_source

if TYPE_CHECKING:
    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.model_client import ModelClient
    from toolcrib.adapters.options import TurnOptions
    from toolcrib.adapters.turn_tools import TurnTools, WithheldTool
    from toolcrib.calls.outcome import Outcome
    from toolcrib.ledger.events import Event
    from toolcrib.prompt.prompt import RenderedPrompt
    from toolcrib.session.session import Session
    from toolcrib.tools.citations import AnyCitation, CitedSource


O = TypeVar("O")  # noqa: E741
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PromptRequest(Generic[O]):
    """A rendered prompt as it is sent; `digest` is of all that it shows to the model."""

    prompt: RenderedPrompt[O]
    message: UserMessage
    digest: str
    withheld: tuple[WithheldTool, ...] = ()
    """The tools that are not for this run, by what their functions of options say."""
    tool_options: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict[str, Mapping[str, str]]
    )
    """By the name of a tool, the options that a function gave for this run, without secrets."""


MakeClient = Callable[["TurnTools", "RenderedPrompt[Any]"], "ModelClient"]


class Evaluation(Generic[O]):
    """A prompt in a session, with everything that was prepared for it."""

    def __init__(
        self,
        request: PromptRequest[O],
        session: Session,
        tools: TurnTools,
        options: TurnOptions,
        make_client: MakeClient,
        *,
        history: History,
        secrets: Sequence[str] = (),
    ) -> None:
        self._request = request
        self._prompt = request.prompt
        self._session = session
        self._tools = tools
        self._options = options
        self._make_client = make_client
        self._history: History = history
        self._current: Turn[O] | None = None
        self._credentials = Credentials([*tools.declared.secrets, *secrets])
        self._scope = PromptScope(
            session,
            self._prompt.name,
            options.budget,
            tools.executor.governance,
            around(session),
        )

    async def start(self) -> PromptResponse[O]:
        """Evaluate the prompt from the beginning."""
        with self._credentials.hidden_in_errors(), self._kept_in_errors():
            return await self._start()

    async def resume(self) -> PromptResponse[O]:
        """Continue where the session's ledger says that this prompt stopped."""
        with self._credentials.hidden_in_errors(), self._kept_in_errors():
            return await self._resume()

    async def _start(self) -> PromptResponse[O]:
        hooks = PromptHooks(self._prompt, self._tools, self._options.model)
        await hooks.submitted()
        await self._plan()
        # Here, where it can be waited for: a turn that begins would block for it.
        await self._session.keep_settings()
        with ExitStack() as stack:
            number = self._enter(stack, self._tools.executor.turn())
            await self._record_start(number)
            return await announced(self._session, number, self._hooked(hooks, number))

    async def _hooked(self, hooks: PromptHooks, number: int) -> PromptResponse[O]:
        async with hooks.around_turn(number) as outcome:
            response = await self._run(number)
            outcome.append(response.status)
            return response

    async def _run(self, number: int) -> PromptResponse[O]:
        await self._prepare(number)
        turn = self._turn(await self._conversation_after(number), number)
        return await self._answer(*await self._finish(turn), self._options.output_retries)

    async def _resume(self) -> PromptResponse[O]:
        session = self._session
        call = call_here(session)
        started, happened = await ask_store(
            session.store,
            read_open_prompt,
            session,
            self._prompt.name,
            self._request.digest,
            call.call_id if call else None,
        )
        with ExitStack() as stack:
            again = self._tools.executor.turn_again(
                started.turn,
                parent_call_id=started.parent_call_id,
                parent_turn=started.parent_turn,
            )
            self._enter(stack, again)
            spent = spent_within(happened, started.turn)
            self._scope.tokens, self._scope.nanos = spent.tokens, spent.nanos
            await self._record_resumption(started)
            work = self._taken_up(happened, started)
            return await announced(session, started.turn, work)

    async def _taken_up(
        self, happened: Sequence[Event], started: PromptStarted
    ) -> PromptResponse[O]:
        hooks = PromptHooks(self._prompt, self._tools, self._options.model)
        async with hooks.around_turn(started.turn, is_resumed=True) as outcome:
            response = await self._take_up(happened, started)
            outcome.append(response.status)
            return response

    async def _take_up(
        self, happened: Sequence[Event], started: PromptStarted
    ) -> PromptResponse[O]:
        await self._prepare_again(happened, started.turn)
        state = await take_up(
            steps_of(happened, started),
            await self._conversation_after(started.turn),
            self._tools,
            started.turn,
            queued_response(happened, started.turn),
        )
        self._scope.tokens += state.conversation.usage.total_tokens
        self._scope.nanos += self._cost(state.conversation).nanos or 0
        turn, retries = self._turn(state.conversation, started.turn), self._options.output_retries
        if not state.is_open:
            return await self._answer(*await self._finish(turn), retries)
        if not tool_calls(state.conversation.last_items):
            # To go on after an answer that did not fit is to ask again.
            return await self._answer(turn, [], retries + 1)
        waiting = await turn.take_up(state.ends)
        if waiting:
            return await self._respond(turn, waiting)
        return await self._answer(*await self._finish(turn), retries)

    async def _answer(
        self, turn: Turn[O], waiting: Sequence[Outcome], retries: int
    ) -> PromptResponse[O]:
        """The response of a turn. An answer that does not fit its type is sent back to the model,
        at most `retries` times.
        """
        try:
            return await self._respond(turn, waiting)
        except PromptEvaluationError as error:
            fault = error.__cause__
            if not isinstance(fault, OutputMismatch) or not retries or not self._has_steps(turn):
                raise
        await self._reject(turn, str(fault))
        return await self._answer(*await self._finish(turn), retries - 1)

    def _has_steps(self, turn: Turn[O]) -> bool:
        try:
            self._scope.check(turn.conversation.steps)
        except PromptEvaluationError:
            return False
        return True

    async def _reject(self, turn: Turn[O], problem: str) -> None:
        """Write down that the model is asked again, and tell it why."""
        session = self._session
        await session.record(
            AnswerRejected(
                session_id=session.session_id,
                at=session.clock(),
                turn=turn.number,
                prompt_name=self._prompt.name,
                problem=self._credentials.hide(problem),
            )
        )
        turn.conversation.add(correction(problem))

    @contextmanager
    def _kept_in_errors(self) -> Generator[None]:
        """Let an error of the turn carry what the turn came to."""
        try:
            yield
        except PromptEvaluationError as error:
            # One of a prompt within this one carries what that came to.
            if self._current is not None and error.session is None:
                cost = self._cost(self._current.conversation)
                keep_work(error, self._current, self._tools, self._session, cost)
            raise

    async def _finish(self, turn: Turn[O]) -> tuple[Turn[O], list[Outcome]]:
        """Run a turn until the model has answered, or calls wait; with new containers when those
        that it used are gone.
        """
        try:
            return turn, await self._run_settled(turn)
        except ContainerGone as gone:
            renewed = await self._renewed(turn, gone)
            if renewed is None:
                raise
        return renewed, await self._run_settled(renewed)

    async def _run_settled(self, turn: Turn[O]) -> list[Outcome]:
        """Run a turn, and write down what later turns need of it however it ends."""
        try:
            return await turn.run()
        finally:
            await self._settle(turn.conversation, turn.number)

    def _enter(self, stack: ExitStack, turn: AbstractContextManager[T]) -> T:
        """Make what follows part of a turn. Raises `PromptEvaluationError` when that is too deep
        within calls, or the call around it is given up.
        """
        try:
            entered = stack.enter_context(turn)
        except CallFailed as error:
            raise PromptEvaluationError(
                error.failure.message, prompt_name=self._prompt.name, phase="budget"
            ) from error
        stack.enter_context(evaluating(self._scope))
        return entered

    async def _plan(self) -> None:
        """Find out what must be prepared. Nothing has been recorded or sent yet."""

    async def _prepare(self, turn: int) -> None:
        """Prepare what the first request needs."""

    async def _prepare_again(self, happened: Sequence[Event], turn: int) -> None:
        """Prepare what the next request needs, after what happened before."""

    async def _renewed(self, turn: Turn[O], gone: ContainerGone) -> Turn[O] | None:
        """The turn without the containers that are gone; None when it cannot go on without."""
        return None

    async def _settle(self, conversation: Conversation, turn: int) -> None:
        """Write down what later turns need of a turn that ended or stops here."""

    async def _conversation_after(self, turn: int, *, is_whole: bool = False) -> Conversation:
        """A conversation that begins with this prompt, after the earlier ones if it follows."""
        conversation = Conversation(self._history)
        if self._options.follows:
            await ask_store(
                self._session.store,
                partial(follow, is_whole=is_whole),
                self._session,
                conversation,
                self._tools.provider,
                self._tools.classifier,
                turn,
            )
        conversation.add(self._request.message)
        return conversation

    def _turn(self, conversation: Conversation, number: int) -> Turn[O]:
        client = self._make_client(self._tools, self._prompt)
        self._current = Turn(
            self._prompt,
            self._tools,
            client,
            self._options,
            conversation,
            number,
            self._scope,
        )
        return self._current

    async def _record_start(self, turn: int) -> None:
        session, caller = self._session, self._tools.executor.governance.caller
        here = turn_here(session)
        attachments, artifacts = kept_attachments(self._request.message)
        tool_options = self._request.tool_options
        await session.record(
            PromptStarted(
                session_id=session.session_id,
                at=session.clock(),
                turn=turn,
                prompt_name=self._prompt.name,
                text=self._prompt.text,
                instructions=self._prompt.instructions or None,
                digest=self._request.digest,
                adapter=self._tools.provider,
                model=self._options.model,
                parent_call_id=here.parent_call_id if here else None,
                parent_turn=here.parent_turn if here else None,
                parent_tool=here.caller.name if here and here.caller else None,
                token_limits=self._options.token_limits or None,
                principal=caller.principal if caller else None,
                transport=caller.transport if caller else None,
                attachments=attachments,
                tool_options={name: dict(parts) for name, parts in tool_options.items()} or None,
            ),
            artifacts,
        )
        await _record_withheld(session, turn, self._tools.withheld)

    async def _record_resumption(self, started: PromptStarted) -> None:
        session, caller = self._session, self._tools.executor.governance.caller
        await session.record(
            PromptResumed(
                session_id=session.session_id,
                at=session.clock(),
                turn=started.turn,
                prompt_name=self._prompt.name,
                adapter=self._tools.provider,
                model=self._options.model,
                parent_call_id=started.parent_call_id,
                principal=caller.principal if caller else None,
                transport=caller.transport if caller else None,
            )
        )

    async def _respond(self, turn: Turn[O], waiting: Sequence[Outcome]) -> PromptResponse[O]:
        conversation, hosted = turn.conversation, self._tools.hosted
        if not waiting:
            await hosted.settle(turn.number)
        answer = [] if waiting else answer_items(conversation.last_items)
        raws = codec_view(conversation.items, answer, self._tools.classifier.format)
        outputs = self._hosted_outputs(raws)
        response: PromptResponse[O] = PromptResponse(
            prompt_name=self._prompt.name,
            status="waiting" if waiting else "completed",
            output=None if waiting else self._output(answer, conversation),
            text=answer_text(answer),
            hosted_outputs=MappingProxyType(outputs.whole),
            run_outputs=MappingProxyType(outputs.by_run),
            invocations=tuple((ran.name, ran.invocation) for ran in hosted.ran),
            citations=tuple(citations(answer)),
            reasoning=reasoning_texts(conversation.items),
            usage=conversation.usage,
            cost=self._cost(conversation),
            pending=tuple(outcome.approval for outcome in waiting if outcome.approval is not None),
            model=conversation.model,
            request_ids=tuple(conversation.request_ids),
            skipped=MappingProxyType(dict(hosted.skipped)),
        )
        if not waiting:
            await self._record_answer(response, turn.number)
        return response

    def _cost(self, conversation: Conversation) -> Cost:
        """Of the requests, and of what the provider ran."""
        costs = (ran.invocation.cost for ran in self._tools.hosted.ran)
        return sum((cost for cost in costs if cost is not None), conversation.cost)

    def _output(self, answer: Sequence[ReplyItem], conversation: Conversation) -> Any:
        schema = self._prompt.output
        if schema is None:
            return answer_text(answer)
        try:
            return structured(answer, schema)
        except OutputMismatch as error:
            raise self._unreadable(str(error), conversation) from error

    def _hosted_outputs(self, raws: Sequence[RawItem]) -> HostedOutputs:
        outputs = HostedOutputs()
        for hosted in self._tools.declared.hosted:
            runs = self._tools.hosted.runs_of(hosted, raws)
            try:
                output = runs.whole()
                outputs.by_run[hosted.tool.name] = runs.by_run()
            except PromptEvaluationError:
                raise
            except Exception as error:
                raise PromptEvaluationError(
                    f"the codec of {hosted.tool.kind} could not read the response: "
                    f"{type(error).__name__}: {error}",
                    prompt_name=self._prompt.name,
                    phase="parse",
                ) from error
            if output is not None:
                outputs.whole[hosted.tool.name] = output
        return outputs

    async def _record_answer(self, response: PromptResponse[O], turn: int) -> None:
        session = self._session
        await session.record(
            PromptAnswered(
                session_id=session.session_id,
                at=session.clock(),
                turn=turn,
                prompt_name=self._prompt.name,
                text=self._credentials.hide(response.text),
                sources=tuple(self._source(citation) for citation in response.citations),
            )
        )

    def _source(self, citation: AnyCitation) -> CitedSource:
        source, hide = cited_source(citation), self._credentials.hide
        return replace(source, url=hide(source.url), title=hide(source.title))

    def _unreadable(self, message: str, conversation: Conversation) -> PromptEvaluationError:
        ids = conversation.request_ids
        return PromptEvaluationError(
            f"{message}; `resume` asks the model again",
            prompt_name=self._prompt.name,
            phase="parse",
            request_id=ids[-1] if ids else None,
        )


async def _record_withheld(session: Session, turn: int, withheld: Sequence[WithheldTool]) -> None:
    """Write down which provider-run tools were not offered, and why."""
    for withheld_tool in withheld:
        await session.record(
            ToolWithheld(
                session_id=session.session_id,
                at=session.clock(),
                turn=turn,
                tool=withheld_tool.tool,
                reason=withheld_tool.reason,
                replaced_by=withheld_tool.replaced_by,
                sections=withheld_tool.sections,
            )
        )

"""One evaluation of a prompt: opened, asked, answered or left waiting."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toolcrib.adapters.items import maybe_text
from toolcrib.adapters.openai.answer import annotations_of, answer_text
from toolcrib.adapters.openai.content import first_message
from toolcrib.adapters.openai.conversation import Conversation, History
from toolcrib.adapters.openai.opening import Opening, prompt_digest, record_withheld
from toolcrib.adapters.openai.replay import replayed
from toolcrib.adapters.openai.turn import Turn, TurnOptions
from toolcrib.adapters.response import PromptResponse
from toolcrib.errors import PromptEvaluationError
from toolcrib.prompt.output import OutputMismatch
from toolcrib.session.events import PromptAnswered, PromptStarted
from toolcrib.tools.web_search import Citation

if TYPE_CHECKING:
    from toolcrib.adapters.codec import Item
    from toolcrib.adapters.openai.wire import Wire
    from toolcrib.calls.outcome import Outcome
    from toolcrib.prompt.rendering import RenderedPrompt
    from toolcrib.session.session import Session

O = TypeVar("O")  # noqa: E741


class Evaluation(Generic[O]):
    """A prompt in a session, with everything that was prepared for it."""

    def __init__(
        self,
        prompt: RenderedPrompt[O],
        session: Session,
        opening: Opening,
        options: TurnOptions,
        wire: Wire,
        history: History,
    ) -> None:
        self._prompt = prompt
        self._session = session
        self._opening = opening
        self._options = options
        self._wire = wire
        self._history: History = history

    async def start(self) -> PromptResponse[O]:
        """Ask from the beginning."""
        with self._opening.executor.turn():
            await self._record_start()
            conversation = Conversation(self._history)
            conversation.say(first_message(self._prompt))
            turn = self._turn(conversation)
            return await self._respond(turn, await turn.run())

    async def go_on(self) -> PromptResponse[O]:
        """Go on where the session's ledger says that this prompt stopped."""
        conversation, calls, outputs = replayed(self._prompt, self._session, self._history)
        turn = self._turn(conversation)
        unanswered = [maybe_text(item, "call_id") or "" for item in calls]
        resumed = await self._opening.executor.resume(
            call_id for call_id in unanswered if call_id not in outputs
        )
        waiting = [outcome for outcome in resumed if outcome.status == "waiting"]
        if not waiting:
            outputs.update({outcome.call_id: outcome.text for outcome in resumed})
            turn.say_texts(calls, outputs)
            waiting = await turn.run()
        return await self._respond(turn, waiting)

    def _turn(self, conversation: Conversation) -> Turn[O]:
        return Turn(
            prompt=self._prompt,
            declared=self._opening.declared,
            executor=self._opening.executor,
            wire=self._wire,
            options=self._options,
            conversation=conversation,
            hosted=self._opening.hosted,
        )

    async def _record_start(self) -> None:
        session = self._session
        await session.record(
            PromptStarted(
                session_id=session.session_id,
                at=session.clock(),
                turn=session.turn,
                prompt_name=self._prompt.name,
                text=self._prompt.text,
                digest=prompt_digest(self._prompt),
                adapter="openai",
                model=self._options.model,
            )
        )
        await record_withheld(session, self._opening)

    async def _respond(self, turn: Turn[O], waiting: Sequence[Outcome]) -> PromptResponse[O]:
        conversation = turn.conversation
        text = "" if waiting else answer_text(conversation.last_items)
        output = None if waiting else self._output(text, conversation)
        if not waiting:
            await self._record_answer(text)
        return PromptResponse[O](
            prompt_name=self._prompt.name,
            status="waiting" if waiting else "completed",
            output=output,
            text=text,
            hosted_outputs=MappingProxyType(self._hosted_outputs(conversation.items)),
            invocations=tuple((ran.name, ran.invocation) for ran in self._opening.hosted.ran),
            citations=() if waiting else tuple(citations(conversation.last_items)),
            usage=conversation.usage,
            pending=tuple(each.approval for each in waiting if each.approval is not None),
            model=conversation.model,
            request_ids=tuple(conversation.request_ids),
            skipped=dict(self._opening.hosted.skipped),
        )

    def _output(self, text: str, conversation: Conversation) -> Any:
        schema = self._prompt.output
        if schema is None:
            return text
        try:
            return schema.parse(text)
        except OutputMismatch as error:
            raise self._failed(str(error), conversation) from error

    def _hosted_outputs(self, items: Sequence[Item]) -> dict[str, Any]:
        outputs: dict[str, Any] = {}
        for hosted in self._opening.declared.hosted:
            try:
                found = hosted.codec.parse_output(items, hosted.tool)
            except PromptEvaluationError:
                raise
            except Exception as error:
                raise PromptEvaluationError(
                    f"the codec of {hosted.tool.kind} could not read the response: {error}",
                    prompt_name=self._prompt.name,
                    phase="parse",
                ) from error
            if found is not None:
                outputs[hosted.tool.name] = found
        return outputs

    async def _record_answer(self, text: str) -> None:
        session = self._session
        await session.record(
            PromptAnswered(
                session_id=session.session_id,
                at=session.clock(),
                turn=session.turn,
                prompt_name=self._prompt.name,
                text=text,
            )
        )

    def _failed(self, message: str, conversation: Conversation) -> PromptEvaluationError:
        ids = conversation.request_ids
        return PromptEvaluationError(
            message,
            prompt_name=self._prompt.name,
            phase="parse",
            request_id=ids[-1] if ids else None,
        )


def citations(items: Sequence[Item]) -> list[Citation]:
    """What the answer cites on the web; spans are offsets into its text."""
    found: list[Citation] = []
    for note in annotations_of(items, "url_citation"):
        url = maybe_text(note.facts, "url")
        if url:
            found.append(Citation(url, maybe_text(note.facts, "title") or "", note.span()))
    return found

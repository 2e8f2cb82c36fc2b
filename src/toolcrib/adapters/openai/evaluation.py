"""The evaluation of a prompt on the Responses API: its containers, its files, and the responses
that it leaves at the provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.adapters.earlier_turns import note_of
from toolcrib.adapters.evaluation import Evaluation
from toolcrib.adapters.items import TextContent, UserMessage
from toolcrib.adapters.openai.container_files import message_with, turn_tools_with
from toolcrib.adapters.openai.session_containers import SessionContainers, auto_tools

if TYPE_CHECKING:
    from toolcrib.adapters.evaluation import PromptRequest
    from toolcrib.adapters.history import Conversation
    from toolcrib.adapters.loop import Turn
    from toolcrib.adapters.openai.background import BackgroundResponses
    from toolcrib.adapters.openai.container_files import Staging
    from toolcrib.adapters.openai.host_files import Plan
    from toolcrib.adapters.openai.model_client import ResponsesEndpoint
    from toolcrib.adapters.openai.session_containers import AutoTool
    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.errors import ContainerGone
    from toolcrib.ledger.events import Event
    from toolcrib.ledger.prompt_events import FilesStaged

O = TypeVar("O")  # noqa: E741


class ResponsesEvaluation(Evaluation[O]):
    """Chooses the containers and stages the files before the first request, and finds them again
    when it goes on.
    """

    def __init__(
        self,
        *args: Any,
        endpoint: ResponsesEndpoint,
        background: BackgroundResponses,
        staging: Staging | None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._endpoint = endpoint
        self._background = background
        self._staging = staging
        self._planned: Plan | None = None
        self._declared_tools: TurnTools = self._tools
        self._declared_request: PromptRequest[O] = self._request
        self._auto_tools = auto_tools(self._tools)
        self._containers = SessionContainers(self._session, endpoint.client, self._prompt.name)

    async def _plan(self) -> None:
        if self._staging is not None:
            self._planned = await self._staging.plan()

    async def _prepare(self, turn: int) -> None:
        await self._stage(turn, await self._reuse(turn) if self._options.follows else None)

    async def _prepare_again(self, happened: Sequence[Event], turn: int) -> None:
        reused_id = await self._reuse(turn)
        if self._staging is not None:
            staged = await self._staging.take_up(
                happened, self._endpoint, self._session, turn, reused_id
            )
            self._bring(staged)

    def _turn(self, conversation: Conversation, number: int) -> Turn[O]:
        conversation.reused = frozenset(self._containers.chosen.values())
        return super()._turn(conversation, number)

    async def _renewed(self, turn: Turn[O], gone: ContainerGone) -> Turn[O] | None:
        conversation, number = turn.conversation, turn.number
        is_kept_there = self._history == "server"
        if is_kept_there and (conversation.steps or not self._options.follows):
            # What the provider keeps of this turn cannot be said in other words.
            return None
        if not is_kept_there and not conversation.reused:
            return None
        expired = await self._containers.expire(str(gone), number)
        self._tools, self._request = self._declared_tools, self._declared_request
        staged = await self._stage(number, None)
        if conversation.steps:
            conversation.expired |= expired
            if staged is not None:
                conversation.add(UserMessage((TextContent(note_of(staged)),)))
        else:
            conversation = await self._conversation_after(number, is_whole=is_kept_there)
        return self._turn(conversation, number)

    async def _settle(self, conversation: Conversation, turn: int) -> None:
        if self._auto_tools:
            await self._containers.note(self._auto_tools, conversation, turn)
        if self._history == "client":
            for response_id in conversation.background_ids:
                await self._background.delete(response_id)
            conversation.background_ids.clear()

    async def _reuse(self, turn: int) -> str | None:
        """Use the containers of this turn so far, or of those that it follows, where they live;
        returns the one that files are staged in.
        """
        self._tools, self._request = self._declared_tools, self._declared_request
        if not self._auto_tools:
            return None
        first_turn = 0 if self._options.follows else turn
        chosen = await self._containers.choose(self._auto_tools, first_turn, turn)
        self._tools = _with_containers(self._tools, self._auto_tools, chosen)
        return chosen.get(self._staging.tool.name) if self._staging else None

    async def _stage(self, turn: int, reused_id: str | None) -> FilesStaged | None:
        if self._staging is None:
            return None
        plan = self._planned or await self._staging.plan()
        staged = await self._staging.stage(plan, self._endpoint, self._session, turn, reused_id)
        self._bring(staged)
        return staged

    def _bring(self, staged: FilesStaged) -> None:
        """Give the code interpreter its files, and say where they are."""
        self._tools = turn_tools_with(staged, self._tools)
        message = message_with(staged, self._request.message)
        self._request = replace(self._request, message=message)


def _with_containers(
    tools: TurnTools, autos: Sequence[AutoTool], chosen: dict[str, str]
) -> TurnTools:
    """The tools of a turn, with these containers by tool."""
    entries: list[Any] = []
    for entry in tools.declared.entries:
        for auto in autos:
            if auto.name in chosen and auto.kind.options(entry) is not None:
                entry = auto.kind.with_container(entry, chosen[auto.name])
        entries.append(entry)
    return replace(tools, declared=replace(tools.declared, entries=entries))

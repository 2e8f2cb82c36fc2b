"""Host files in a code interpreter's container: planned, uploaded, and announced to the model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.earlier_turns import note_of
from toolcrib.adapters.items import TextContent, UserMessage, mapping_of, texts_of
from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
from toolcrib.adapters.openai.host_files import HostFiles, Plan, Uploads, plan_files
from toolcrib.adapters.openai.session_containers import KnownFiles, read_known_files
from toolcrib.errors import PromptEvaluationError, UsageError
from toolcrib.ledger.events import Event
from toolcrib.ledger.prompt_events import FilesStaged
from toolcrib.store.store import ask_store
from toolcrib.tools.code_interpreter import KIND, ExistingContainer

if TYPE_CHECKING:
    from toolcrib.adapters.openai.model_client import ResponsesEndpoint
    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.prompt.prompt import RenderedPrompt
    from toolcrib.session.session import Session
    from toolcrib.tools.tool import Tool
    from toolcrib.vfs.mount import StagedFile


@dataclass(frozen=True, slots=True)
class Staging:
    """The host files of a prompt's code interpreter, and how they get there."""

    tool: OpenAICodeInterpreterTool
    allowed: HostFiles
    prompt_name: str
    seconds: float | None = None
    """How long uploading may take."""

    async def plan(self) -> Plan:
        """What to upload. Raises `PromptEvaluationError` (phase render); nothing is sent yet."""
        try:
            return await asyncio.to_thread(plan_files, self.tool, self.allowed)
        except UsageError as error:
            raise PromptEvaluationError(
                str(error), prompt_name=self.prompt_name, phase="render"
            ) from error

    async def stage(
        self,
        plan: Plan,
        wire: ResponsesEndpoint,
        session: Session,
        turn: int,
        reused_id: str | None,
    ) -> FilesStaged:
        """Upload all files, or leave none behind, and write down what was staged. What earlier
        turns uploaded is not uploaded again; `reused_id` is the container that they left, if the
        turn uses it.
        """
        container_id = self._container_id(reused_id)
        known = await ask_store(session.store, read_known_files, session, container_id)
        uploads = self._uploads(wire, container_id, known)
        files = await uploads.run(plan.files, self.seconds)
        return await self._record(files, plan.empty, session, turn, container_id)

    async def take_up(
        self,
        happened: Iterable[Event],
        wire: ResponsesEndpoint,
        session: Session,
        turn: int,
        reused_id: str | None,
    ) -> FilesStaged:
        """What was staged for a turn, by its ledger; in the tool's container, if that is another
        one by now.
        """
        staged = staged_in(happened, turn)
        if staged is None:
            return await self.stage(await self.plan(), wire, session, turn, reused_id)
        container_id = self._container_id(reused_id)
        if staged.container_id == container_id:
            return staged
        known = await ask_store(session.store, read_known_files, session, container_id)
        files = await self._uploads(wire, container_id, known).again(staged.files)
        return await self._record(files, staged.empty, session, turn, container_id)

    def _container_id(self, reused_id: str | None) -> str | None:
        container = self.tool.config.container
        return container.id if isinstance(container, ExistingContainer) else reused_id

    def _uploads(
        self, wire: ResponsesEndpoint, container_id: str | None, known: KnownFiles
    ) -> Uploads:
        client = wire.client.with_options(max_retries=wire.retry.attempts - 1)
        return Uploads(client, container_id, self.prompt_name, known)

    async def _record(
        self,
        files: Sequence[StagedFile],
        empty: tuple[str, ...],
        session: Session,
        turn: int,
        container_id: str | None,
    ) -> FilesStaged:
        staged = FilesStaged(
            session_id=session.session_id,
            at=session.clock(),
            turn=turn,
            tool=self.tool.name,
            container_id=container_id,
            files=tuple(files),
            empty=empty,
        )
        await session.record(staged)
        return staged


def staged_in(happened: Iterable[Event], turn: int) -> FilesStaged | None:
    """What was staged for a turn, by its ledger."""
    staged = [event for event in happened if isinstance(event, FilesStaged) and event.turn == turn]
    return staged[-1] if staged else None


def staging_of(
    prompt: RenderedPrompt[Any],
    turn_tools: TurnTools,
    allowed: HostFiles,
    seconds: float | None,
) -> Staging | None:
    """The staging that a prompt needs; None without host mounts, and when the tool that has them
    is not offered: its files then stay where they are.
    """
    offered = {hosted.tool.name for hosted in turn_tools.declared.hosted}
    for tool in prompt.hosted_tools:
        is_interpreter = isinstance(tool, OpenAICodeInterpreterTool)
        if is_interpreter and tool.host_mounts and tool.name in offered:
            return Staging(tool, allowed, prompt.name, seconds)
    return None


def without_mounts(prompt: RenderedPrompt[Any]) -> RenderedPrompt[Any]:
    """The prompt as the provider takes it: its containers know no mounts."""
    return replace(prompt, declared=tuple(map(_unmounted, prompt.declared)))


def turn_tools_with(staged: FilesStaged, turn_tools: TurnTools) -> TurnTools:
    """The tools of a turn, with the files in the container."""
    declared = turn_tools.declared
    return replace(
        turn_tools, declared=replace(declared, entries=entries_with(staged, declared.entries))
    )


def entries_with(staged: FilesStaged, entries: Sequence[RawItem]) -> list[Any]:
    """The tools of a request, with the files in the container that the provider makes."""
    if staged.container_id is not None:
        return list(entries)
    return [_with_files(entry, staged) if entry.get("type") == KIND else entry for entry in entries]


def message_with(staged: FilesStaged, message: UserMessage) -> UserMessage:
    """The first message, and where the files are."""
    return UserMessage((*message.content, TextContent(note_of(staged))))


def _unmounted(tool: Tool[Any, Any]) -> Tool[Any, Any]:
    is_mounted = isinstance(tool, OpenAICodeInterpreterTool) and tool.host_mounts
    return replace(tool, host_mounts=()) if is_mounted else tool


def _with_files(tool: RawItem, staged: FilesStaged) -> dict[str, Any]:
    container = mapping_of(tool, "container")
    ids = [*texts_of(container, "file_ids"), *(file.file_id for file in staged.files)]
    return {**tool, "container": {**container, "file_ids": ids} if ids else container}

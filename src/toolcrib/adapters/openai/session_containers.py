"""The containers of a session: which one the code of a turn runs in, and which files it has.

A turn that follows others runs its code in their container while it lives, so that variables and
files stay. The ledger says which one that is, also to another process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic_core import to_json

from toolcrib.adapters.items import mapping_of, text_of
from toolcrib.adapters.openai.containers import check_container
from toolcrib.errors import ContainerGone, PromptEvaluationError
from toolcrib.ledger.prompt_events import ContainerExpired, ContainerUsed, FilesStaged
from toolcrib.session.turns import turn_here
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.history import Conversation
    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.session.session import Session
    from toolcrib.vfs.mount import StagedFile

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ContainerKind:
    """A kind of tool that runs in containers: where its entry and its calls name them."""

    entry_type: str
    call_type: str
    options_field: str
    auto_type: str

    def options(self, entry: RawItem) -> dict[str, Any] | None:
        """The options of the container that the provider would make; None for any other."""
        options = mapping_of(entry, self.options_field)
        is_auto = entry.get("type") == self.entry_type and options.get("type") == self.auto_type
        return options if is_auto else None

    def used_in(self, item: RawItem) -> str:
        """The container that a call ran in; empty for any other item."""
        if item.get("type") != self.call_type:
            return ""
        return text_of(item, "container_id") or text_of(
            mapping_of(item, "environment"), "container_id"
        )

    def with_container(self, entry: RawItem, container_id: str) -> dict[str, Any]:
        """The entry with this container in place of a new one."""
        reference: Any = container_id
        if self.options_field == "environment":
            reference = {"type": "container_reference", "container_id": container_id}
        return {**entry, self.options_field: reference}


INTERPRETER: Final = ContainerKind("code_interpreter", "code_interpreter_call", "container", "auto")
SHELL: Final = ContainerKind("shell", "shell_call", "environment", "container_auto")
KINDS: Final = (INTERPRETER, SHELL)


@dataclass(frozen=True, slots=True)
class AutoTool:
    """A tool of a turn whose container the provider makes."""

    kind: ContainerKind
    name: str
    options: str
    """The digest of the container's options."""


def auto_tools(tools: TurnTools) -> list[AutoTool]:
    """The tools of a turn whose containers the provider makes."""
    names = {hosted.tool.kind: hosted.tool.name for hosted in tools.declared.hosted}
    return [
        AutoTool(kind, names.get(kind.entry_type, kind.entry_type), _digest(options))
        for entry in tools.declared.entries
        for kind in KINDS
        if (options := kind.options(entry)) is not None
    ]


def _digest(options: Mapping[str, Any]) -> str:
    return sha256(to_json(_public(options))).hexdigest()


def _public(value: Any) -> Any:
    """Options without the values of secrets, in a fixed order."""
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return {key: _public(members[key]) for key in sorted(members) if key != "value"}
    if isinstance(value, list | tuple):
        return [_public(member) for member in cast("Iterable[Any]", value)]
    return value


@dataclass(slots=True)
class SessionContainers:
    """The containers of a session, for one turn of it."""

    session: Session
    client: Any
    prompt_name: str
    chosen: dict[str, str] = field(default_factory=dict[str, str])
    """The ids of the containers that the turn uses, by tool."""

    async def choose(self, tools: Iterable[AutoTool], first_turn: int, turn: int) -> dict[str, str]:
        """The containers that these tools use again in a turn, by tool: those of turns from
        `first_turn`. One that is gone is recorded, and the provider makes a new one.
        """
        self.chosen.clear()
        for tool in tools:
            turns = range(first_turn, turn + 1)
            used = await ask_store(self.session.store, _last_used, self.session, tool, turns)
            if used is None:
                continue
            try:
                await check_container(self.client, used, prompt_name=self.prompt_name)
            except ContainerGone as gone:
                await self._record_expired((used,), str(gone), turn)
            except PromptEvaluationError as error:
                # A server may have no containers to ask for; it then chooses itself.
                logger.warning("%s; %s leaves the choice to the provider", error, tool.name)
            else:
                await self._record_used(tool, used, turn)
        return dict(self.chosen)

    async def expire(self, reason: str, turn: int) -> frozenset[str]:
        """Write down that the chosen containers are gone, and return them."""
        gone = frozenset(self.chosen.values())
        if gone:
            await self._record_expired(tuple(sorted(gone)), reason, turn)
        self.chosen.clear()
        return gone

    async def note(self, tools: Iterable[AutoTool], conversation: Conversation, turn: int) -> None:
        """Write down the containers that the provider made in a turn."""
        for tool in tools:
            used = [tool.kind.used_in(item.raw) for item in conversation.items]
            last = next((container_id for container_id in reversed(used) if container_id), None)
            if last is not None and last != self.chosen.get(tool.name):
                await self._record_used(tool, last, turn)

    async def _record_used(self, tool: AutoTool, container_id: str, turn: int) -> None:
        self.chosen[tool.name] = container_id
        here = turn_here(self.session)
        await self.session.record(
            ContainerUsed(
                session_id=self.session.session_id,
                at=self.session.clock(),
                turn=turn,
                tool=tool.name,
                container_id=container_id,
                options=tool.options,
                is_nested=here is not None and here.parent_call_id is not None,
            )
        )

    async def _record_expired(self, ids: tuple[str, ...], reason: str, turn: int) -> None:
        await self.session.record(
            ContainerExpired(
                session_id=self.session.session_id,
                at=self.session.clock(),
                turn=turn,
                container_ids=ids,
                reason=reason,
            )
        )


def _last_used(session: Session, tool: AutoTool, turns: range) -> str | None:
    """The container that a tool used last in these turns, unless it is known to be gone or was made
    with other options. A prompt within a call has its own. May touch the disk.
    """
    expired: set[str] = set()
    kinds = (ContainerUsed.kind, ContainerExpired.kind)
    for event in session.events(kinds=kinds, newest_first=True):
        match event:
            case ContainerExpired():
                expired.update(event.container_ids)
            case ContainerUsed() if event.tool == tool.name and event.turn in turns:
                if event.is_nested and event.turn != turns[-1]:
                    continue
                is_usable = event.options == tool.options and event.container_id not in expired
                return event.container_id if is_usable else None
            case _:
                pass
    return None


FileKey: TypeAlias = tuple[str, str]
"""The name of a file in its mount, and the digest of its content."""


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """Files of the host that earlier turns uploaded, by name and digest."""

    placed: Mapping[FileKey, StagedFile] = field(default_factory=dict[FileKey, "StagedFile"])
    """Those that lie in the container."""
    uploaded: Mapping[FileKey, StagedFile] = field(default_factory=dict[FileKey, "StagedFile"])
    """Those that the provider keeps."""


def read_known_files(session: Session, container_id: str | None) -> KnownFiles:
    """What a session's turns uploaded, and what of it lies in a container. May touch the disk."""
    placed: dict[FileKey, StagedFile] = {}
    uploaded: dict[FileKey, StagedFile] = {}
    turns: set[int] = set()
    kinds = (ContainerUsed.kind, FilesStaged.kind)
    for event in session.events(kinds=kinds, newest_first=True):
        match event:
            case ContainerUsed() if event.container_id == container_id:
                turns.add(event.turn)
            case FilesStaged():
                is_here = event.container_id == container_id or (
                    # Made with the files, in a turn that then used it.
                    event.container_id is None and event.turn in turns
                )
                for file in event.files:
                    key = file.name, file.sha256
                    uploaded.setdefault(key, file)
                    if container_id is not None and is_here:
                        placed.setdefault(key, file)
            case _:
                pass
    return KnownFiles(placed, uploaded)

"""The Responses API without its wire: create, retrieve, cancel, delete."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic import TypeAdapter

from toolcrib.local.faults import ApiFault, invalid
from toolcrib.local.hosted.tool import Opened, Source
from toolcrib.local.responses.answering import Answering
from toolcrib.local.responses.citing import Sources
from toolcrib.local.responses.conversation import Conversation
from toolcrib.local.responses.request import CreateResponse, Item, read_format, read_request
from toolcrib.local.responses.resource import new_response, told_tool
from toolcrib.local.responses.run import FINAL, EventLog, Run

if TYPE_CHECKING:
    from toolcrib.local.brain import Brain
    from toolcrib.local.responses.kept import Kept, KeptItem
    from toolcrib.local.responses.tools import Kinds
    from toolcrib.store.store import Clock

logger = logging.getLogger(__name__)

_SOURCE: TypeAdapter[Source] = TypeAdapter(Source)
STOPPED = "The provider stopped while it made this response; ask again."


@dataclass(frozen=True, slots=True)
class Making:
    """A response that is being made."""

    run: Run
    task: asyncio.Task[None]


class Responses:
    """Makes responses, and keeps those that are stored."""

    def __init__(self, brains: Mapping[str, Brain], kinds: Kinds, kept: Kept, clock: Clock) -> None:
        self._brains = brains
        self._kinds = kinds
        self._kept = kept
        self._clock = clock
        self._making: dict[str, Making] = {}

    async def recover(self) -> None:
        """What was being made when the provider died is told as failed: it is never lost."""
        for response in await self._kept.unfinished():
            log = EventLog()
            run = Run(response, log)
            run.begin()
            run.end("failed", self._clock(), error={"code": "server_error", "message": STOPPED})
            await self._kept.finish(response, {}, log.events)

    async def create(self, body: object) -> Making:
        """Begin a response. Raises `ApiFault` before anything is made or kept."""
        asked = read_request(body)
        brain = self._brain(asked.model)
        read_format(asked.text)
        self._kinds.check(asked)
        conversation, sources = await self._conversation(asked)
        response = new_response(asked, self._clock(), told_of(brain))
        if asked.is_stored:
            await self._kept.begin(response, _request_of(body), asked.items)
        run = Run(response, EventLog())
        run.begin()
        work = self._make(run, brain, asked, conversation, sources)
        making = Making(run, asyncio.create_task(work))
        self._making[response["id"]] = making
        return making

    async def retrieve(self, response_id: str) -> dict[str, Any]:
        """A response as it is now. Raises `ApiFault`."""
        making = self._making.get(response_id)
        return making.run.response if making else await self._kept.body(response_id)

    async def follow(self, response_id: str, after: int) -> AsyncIterator[dict[str, Any]]:
        """The events of a response after a number, and those to come. Raises `ApiFault`."""
        making = self._making.get(response_id)
        if making is not None:
            return making.run.log.after(after)
        response = await self._kept.body(response_id)
        if not response["background"]:
            raise invalid("Only a background response can be streamed again.", "stream")
        return _each(await self._kept.events(response_id, after))

    async def cancel(self, response_id: str) -> dict[str, Any]:
        """Stop a background response. One that is over stays as it is. Raises `ApiFault`."""
        response = await self.retrieve(response_id)
        if not response["background"]:
            raise invalid("Only a background response can be cancelled.", "response_id")
        making = self._making.get(response_id)
        if making is not None:
            making.task.cancel()
            await asyncio.wait([making.task])
            return making.run.response
        return response

    async def delete(self, response_id: str) -> dict[str, Any]:
        """Keep a response no longer. Raises `ApiFault`."""
        making = self._making.get(response_id)
        if making is not None:
            making.task.cancel()
            await asyncio.wait([making.task])
        await self._kept.delete(response_id)
        return {"id": response_id, "object": "response", "deleted": True}

    async def input_items(self, response_id: str) -> list[Item]:
        """What went into a response. Raises `ApiFault`."""
        return await self._kept.input_items(response_id)

    async def close(self) -> None:
        """Stop everything that is being made; it is kept as cancelled or failed."""
        tasks = [making.task for making in self._making.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _brain(self, model: str) -> Brain:
        brain = self._brains.get(model)
        if brain is None:
            have = ", ".join(sorted(self._brains))
            raise ApiFault(
                404,
                f"The model '{model[:80]}' does not exist here; there is {have}.",
                code="model_not_found",
                param="model",
            )
        return brain

    async def _conversation(self, asked: CreateResponse) -> tuple[Conversation, Sources]:
        items, before = await self._resolved(asked.items), list["KeptItem"]()
        if asked.previous_response_id is not None:
            before = await self._kept.chain(asked.previous_response_id)
        answers = {str(kept.body.get("id")): kept.answer for kept in before if kept.answer}
        for item in items:
            # An item that comes back from the client may be one of ours.
            item_id = item.get("id")
            if isinstance(item_id, str) and item_id not in answers:
                known = await self._kept.item(item_id)
                answers.update({item_id: known.answer} if known and known.answer else {})
        conversation = Conversation(answers.get)
        conversation.read((kept.body for kept in before), "previous_response_id")
        conversation.read(items)
        return conversation, _restored(answers)

    async def _resolved(self, items: list[Item]) -> list[Item]:
        """The items, with those that are named by their id alone."""
        resolved: list[Item] = []
        for at, item in enumerate(items):
            if item.get("type") != "item_reference":
                resolved.append(item)
                continue
            known = await self._kept.item(str(item.get("id")))
            if known is None:
                raise ApiFault(404, "Item not found.", param=f"input[{at}].id")
            resolved.append(known.body)
        return resolved

    async def _make(
        self,
        run: Run,
        brain: Brain,
        asked: CreateResponse,
        conversation: Conversation,
        sources: Sources,
    ) -> None:
        try:
            status, changes = await self._answered(run, brain, asked, conversation, sources)
        except asyncio.CancelledError:
            status, changes = "cancelled", {}
        except ApiFault as fault:
            status, changes = "failed", {"error": _error(fault.message)}
        except Exception:
            logger.exception("response %s failed", run.response["id"])
            status, changes = "failed", {"error": _error("The provider failed; see its log.")}
        run.end(status, self._clock(), **changes)
        if asked.is_stored:
            events = run.log.events if asked.background else []
            await self._kept.finish(run.response, run.answers, events)
        self._making.pop(run.response["id"], None)

    async def _answered(
        self,
        run: Run,
        brain: Brain,
        asked: CreateResponse,
        conversation: Conversation,
        sources: Sources,
    ) -> tuple[str, dict[str, Any]]:
        async with AsyncExitStack() as stack:
            opened = Opened(run, tuple(conversation.items))
            tools = await self._kinds.open(asked, opened, stack)
            return await Answering(brain, asked, run, conversation, tools, sources).go()


def told_of(brain: Brain) -> dict[str, str]:
    """What a response's metadata says of a brain whose answers are written beforehand."""
    return {"toolcrib_brain": "scripted"} if brain.is_scripted else {}


def is_over(response: Mapping[str, Any]) -> bool:
    """Whether nothing more will happen to a response."""
    return response["status"] in FINAL


def _error(message: str) -> dict[str, str]:
    return {"code": "server_error", "message": message}


def _restored(answers: Mapping[str, Mapping[str, Any] | None]) -> Sources:
    sources = Sources()
    for answer in answers.values():
        for mark, source in (answer or {}).get("sources", {}).items():
            sources.restore(mark, _SOURCE.validate_python(source))
    return sources


def _request_of(body: object) -> Mapping[str, Any]:
    """The request as it is kept: without the secrets of its tools."""
    kept = cast(dict[str, Any], body)
    tools = cast(list[dict[str, Any]], kept.get("tools") or [])
    return {**kept, "tools": [told_tool(each) for each in tools]}


async def _each(events: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    for event in events:
        yield event

"""A client of the official SDK that keeps every message as it came, and what differs between two
runs of it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.node.peers import environment

Json = dict[str, Any]

_TIMES = re.compile(
    r"\d{1,2}:\d\d:\d\d [AP]M"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z"
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d{4} [^\"\\\n]*"
)


@dataclass
class Tap:
    """The messages of a connection."""

    sent: list[Json] = field(default_factory=list[Json])
    received: list[Json] = field(default_factory=list[Json])


class _Tapped:
    """One stream of a connection, whose messages are kept."""

    def __init__(self, stream: Any, messages: list[Json]) -> None:
        self._stream = stream
        self._messages = messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _keep(self, item: Any) -> Any:
        message = getattr(item, "message", None)
        if message is not None:
            self._messages.append(message.model_dump(mode="json", exclude_none=True))
        return item

    async def send(self, item: Any) -> None:
        await self._stream.send(self._keep(item))

    async def receive(self) -> Any:
        return self._keep(await self._stream.receive())

    def __aiter__(self) -> _Tapped:
        return self

    async def __anext__(self) -> Any:
        return self._keep(await self._stream.__anext__())

    async def __aenter__(self) -> _Tapped:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> Any:
        return await self._stream.__aexit__(*reason)


@asynccontextmanager
async def _tapped(parameters: StdioServerParameters, tap: Tap) -> AsyncGenerator[Any]:
    async with stdio_client(parameters) as (incoming, outgoing):
        yield _Tapped(incoming, tap.received), _Tapped(outgoing, tap.sent)


@dataclass(frozen=True)
class Step:
    """One request, under the name that differences are listed with."""

    name: str
    request: types.ClientRequest


def call(tool: str, **arguments: Any) -> Step:
    params = types.CallToolRequestParams(name=tool, arguments=arguments)
    return Step(f"tools/call {tool}", types.CallToolRequest(params=params))


async def record(
    command: Sequence[str], env: Mapping[str, str], steps: Sequence[Step], roots: Sequence[Path]
) -> Json:
    """What a server answers to each step, and asks and says meanwhile."""
    tap, found = Tap(), cast("Json", {})
    parameters = StdioServerParameters(
        command=command[0], args=list(command[1:]), env=environment(**env)
    )

    async def sample(context: Any, params: Any) -> types.CreateMessageResult:
        words = types.TextContent(type="text", text="42")
        return types.CreateMessageResult(role="assistant", content=words, model="small-model")

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        is_form = isinstance(params, types.ElicitRequestFormParams)
        content: Any = {"name": "Ada", "check": True} if is_form else None
        return types.ElicitResult(action="accept", content=content)

    async def list_roots(context: Any) -> types.ListRootsResult:
        listed = [types.Root.model_validate({"uri": root.as_uri()}) for root in roots]
        return types.ListRootsResult(roots=listed)

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        pass

    client = Client(
        _tapped(parameters, tap),
        mode="legacy",
        sampling_callback=sample,
        elicitation_callback=elicit,
        list_roots_callback=list_roots,
        cache=None,
    )
    async with client:
        for step in steps:
            # An error is in the messages, too.
            with suppress(MCPError):
                await client.session.send_request(
                    step.request, types.Result, progress_callback=progress
                )
            found[step.name] = _response(tap)
    found["requests"] = [
        message["params"] | {"method": message["method"]} for message in asked(tap)
    ]
    found["notifications"] = _notifications(tap)
    return _without_times(found)


def asked(tap: Tap) -> list[Json]:
    """The requests of the server in the middle of calls."""
    requests = [each for each in tap.received if "method" in each and "id" in each]
    return [each for each in requests if each["method"] not in ("roots/list", "ping")]


def _response(tap: Tap) -> Json:
    sent = next(each for each in reversed(tap.sent) if "method" in each and "id" in each)
    answer = next(
        each for each in tap.received if each.get("id") == sent["id"] and "method" not in each
    )
    return answer.get("result") or {"error": answer["error"]}


def _notifications(tap: Tap) -> Json:
    """By method; progress with its numbers, log messages by their number: their level is random."""
    found: Json = {}
    for message in tap.received:
        if "method" in message and "id" not in message:
            params = dict(message.get("params") or {})
            params.pop("progressToken", None)
            if params.get("logger") == "everything-server":
                # It has read the roots, at a time of its own.
                continue
            if message["method"] == "notifications/message":
                params = {"logger": params.get("logger")}
            found.setdefault(message["method"], []).append(params)
    return found


def _without_times(value: Any) -> Any:
    match value:
        case dict():
            members = cast("Json", value).items()
            return {key: _without_times(member) for key, member in members}
        case list():
            return [_without_times(each) for each in cast("list[Any]", value)]
        case str():
            return _TIMES.sub("TIME", value)
        case _:
            return value


def differences(direct: Any, through: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """Where two values differ, by pointers. Lists of named things are compared by name."""
    if isinstance(direct, dict) and isinstance(through, dict):
        one, other = cast("Json", direct), cast("Json", through)
    elif isinstance(direct, list) and isinstance(through, list):
        one, other = _by_name(cast("list[Any]", direct)), _by_name(cast("list[Any]", through))
    else:
        # JSON has one kind of number.
        is_same = isinstance(direct, bool) == isinstance(through, bool) and direct == through
        return {} if is_same else {path: (direct, through)}
    found: dict[str, tuple[Any, Any]] = {}
    for key in {**one, **other}:
        where = f"{path}/{key}"
        found |= differences(one.get(key, MISSING), other.get(key, MISSING), where)
    return found


MISSING = "(not there)"


def _by_name(items: list[Any]) -> Json:
    names: list[Any] = [
        cast("Json", each).get("name") if isinstance(each, dict) else None for each in items
    ]
    if all(names) and len(set(names)) == len(names):
        return dict(zip(names, items, strict=True))
    return {str(number): each for number, each in enumerate(items)}


def unexplained(
    found: Mapping[str, tuple[Any, Any]], reasons: Mapping[str, str]
) -> tuple[Json, list[str]]:
    """The differences without a reason, and the reasons without a difference."""
    without = {
        path: {"direct": values[0], "gateway": values[1]}
        for path, values in found.items()
        if not any(fnmatchcase(path, pattern) for pattern in reasons)
    }
    vanished = [
        pattern for pattern in reasons if not any(fnmatchcase(path, pattern) for path in found)
    ]
    return without, vanished

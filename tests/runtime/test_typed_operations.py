"""The operations as typed methods: one for each, with the same parameters and results."""

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import date
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from tests.runtime.host_runtime import CALLER, Json, host_tool, serving
from toolcrib import ToolContext, ToolResult
from toolcrib.approval import decision
from toolcrib.errors import Refused
from toolcrib.host_tools import HostToolDefinition
from toolcrib.ledger.events import SessionOpened, ToolInvoked
from toolcrib.ledger.prompt_events import TextDelta
from toolcrib.runtime import (
    approval_messages,
    audit_messages,
    catalog_messages,
    messages,
    policy_messages,
    typed_catalog,
    typed_operations,
)
from toolcrib.runtime.approval_messages import GrantTerms
from toolcrib.runtime.blocking_operations import BlockingOperations
from toolcrib.runtime.event_reader import Envelope
from toolcrib.runtime.messages import Nothing
from toolcrib.runtime.operations import OPERATIONS
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.service import as_json
from toolcrib.runtime.session_events import SessionEvents, UnknownEvent, typed_event
from toolcrib.runtime.typed_operations import TypedOperations

BESIDES = {"run_operation", "events", "open_session", "watch_approvals"}
"""Methods that are no operation themselves."""
METHODS = {
    name: method
    for name, method in inspect.getmembers(TypedOperations, inspect.isfunction)
    if not name.startswith("_") and name not in BESIDES
}


class Recorded(TypedOperations):
    """Notes which operation a method stands on."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def run_operation(self, name: str, params: Mapping[str, Any]) -> Any:
        OPERATIONS[name].read(params)
        self.names.append(name)

    def events(self, session_id: str, after: int = 0) -> SessionEvents:
        raise NotImplementedError


def example(name: str) -> Any:
    return {"grant": GrantTerms(scope="once"), "decision": "approve"}.get(name, "x")


async def operation_of(method: str) -> str:
    recorded = Recorded()
    signature = inspect.signature(METHODS[method]).parameters.values()
    needed = [each.name for each in signature if each.default is each.empty and each.name != "self"]
    await METHODS[method](recorded, **{name: example(name) for name in needed})
    [operation] = recorded.names
    return operation


async def test_every_operation_has_exactly_one_typed_method() -> None:
    """Newcomers A, criticism 2: nobody has to write the name of an operation as a string."""
    operations = [await operation_of(method) for method in METHODS]
    assert sorted(operations) == sorted(OPERATIONS)


@pytest.mark.parametrize("method", METHODS)
async def test_parameters_and_results_are_those_of_the_operation(method: str) -> None:
    """A method takes what its operation takes, by the same names, and promises its result."""
    operation = OPERATIONS[await operation_of(method)]
    parameters = inspect.signature(METHODS[method]).parameters
    assert set(parameters) - {"self"} == {field.name for field in fields(operation.params)}
    for field in fields(operation.params):
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        assert (parameters[field.name].default is not inspect.Parameter.empty) == has_default
    modules = (
        messages,
        approval_messages,
        audit_messages,
        catalog_messages,
        decision,
        policy_messages,
        typed_catalog,
        typed_operations,
    )
    names = {name: value for module in modules for name, value in vars(module).items()}
    promised = get_type_hints(METHODS[method], names)["return"]
    assert promised == (type(None) if operation.result is Nothing else operation.result)


ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.py")]


def test_nobody_else_writes_operations_as_strings() -> None:
    """Criticism 2: outside of the runtime and the wire, code names methods, as pages do."""
    wire = ("runtime", "transports", "client")
    for file in (ROOT / "src" / "toolcrib").rglob("*.py"):
        if file.relative_to(ROOT / "src" / "toolcrib").parts[0] in wire:
            continue
        constants = [
            each.value
            for each in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(each, ast.Constant)
        ]
        assert OPERATIONS.keys().isdisjoint(filter(lambda value: isinstance(value, str), constants))
    shown = re.compile(r"runtime\.ask\(")
    assert [page.name for page in PAGES if shown.search(page.read_text("utf-8"))] == []


def test_blocking_operations_are_the_same() -> None:
    """Whoever cannot await has every operation too, by the same name and parameters."""
    for name, method in {**METHODS, "open_session": TypedOperations.open_session}.items():
        assert inspect.signature(vars(BlockingOperations)[name]) == inspect.signature(method)


async def test_a_runtime_has_the_operations_typed() -> None:
    """A program in the process opens a session, calls a tool and reads the result as attributes."""
    async with serving(host_tool("add")) as runtime:
        session = await runtime.open_session("s1")
        result = await runtime.call_tool(session.session_id, "add", {"a": 1, "b": 2})
        assert result.value == 3
        assert [tool.name for tool in (await runtime.list_tools("s1")).tools] == ["add"]


async def test_a_session_is_opened_or_created() -> None:
    """Newcomers A: opening a session that may or may not exist needs no try and except."""
    async with serving(host_tool("add")) as runtime:
        created = await runtime.open_session("s1")
        await runtime.call_tool("s1", "add", {"a": 1, "b": 2})
        await runtime.close_session("s1")
        opened = await runtime.open_session("s1")
        assert created.session_id == opened.session_id
        assert opened.last_seq > created.last_seq
        assert (await runtime.open_session()).session_id != "s1"


async def test_the_session_of_somebody_else_is_not_opened() -> None:
    """Open-or-create gives nobody a session of another principal, nor says that there is one."""
    async with serving(host_tool("add")) as runtime:
        await runtime.open_session("eve:1")
        eve = Principal("eve", frozenset({"caller"}))
        with pytest.raises(Refused) as refused:
            await runtime.as_principal(eve).open_session("eve:1")
        assert refused.value.kind == "not_found"


async def test_operations_as_a_principal_are_those_of_the_principal() -> None:
    """What a principal may not do is refused, and what it makes is its own."""
    async with serving(host_tool("add")) as runtime:
        operations = runtime.as_principal(CALLER)
        session = await operations.create_session()
        assert session.owner == CALLER.name
        with pytest.raises(Refused, match="admin"):
            await operations.delete_session(session.session_id)


async def test_parameters_are_validated() -> None:
    """A typed method refuses what the operation refuses: also within a dataclass."""
    async with serving(host_tool("add")) as runtime:
        with pytest.raises(Refused) as refused:
            await runtime.decide("a", "approve", grant=GrantTerms(scope="session", uses=-1))
        assert refused.value.kind == "invalid"


def long_tool(text: str) -> HostToolDefinition:
    async def write(given: Json, context: ToolContext) -> str:
        return text

    return host_tool("long", write)


async def test_an_artifact_is_read_whole_or_in_pages() -> None:
    """F7: the whole result that the model saw only the beginning of can be fetched."""
    text = "".join(f"line {count}\n" for count in range(20_000))
    async with serving(long_tool(text)) as runtime:
        session = await runtime.open_session("s1")
        artifact_id = (await runtime.call_tool("s1", "long")).artifact_id or ""
        whole = await runtime.artifact("s1", artifact_id)
        page = await runtime.artifact("s1", artifact_id, offset=5, limit=7)
        with pytest.raises(Refused) as missing:
            await runtime.artifact("s1", "artifact_of_nobody")
    assert session.state == "open"
    assert (whole.text, whole.media_type, whole.next_offset) == (text, "text/plain", None)
    assert (page.text, page.next_offset, page.total_chars) == (text[5:12], 12, len(text))
    assert missing.value.kind == "not_found"


async def test_a_very_large_artifact_comes_in_pages() -> None:
    """One answer holds at most what the runtime takes and gives at once."""
    text = "x" * 120_000
    async with serving(long_tool(text), max_payload_bytes=100_000) as runtime:
        await runtime.open_session("s1")
        artifact_id = (await runtime.call_tool("s1", "long")).artifact_id or ""
        first = await runtime.artifact("s1", artifact_id)
        rest = await runtime.artifact("s1", artifact_id, offset=first.next_offset or 0)
    assert (len(first.text), first.next_offset) == (100_000, 100_000)
    assert (len(rest.text), rest.next_offset) == (20_000, None)


async def test_an_artifact_of_somebody_else_is_not_found() -> None:
    """F7: artifacts belong to the owner of their session, as everything in it does."""
    async with serving(long_tool("x" * 60_000)) as runtime:
        await runtime.open_session("s1")
        artifact_id = (await runtime.call_tool("s1", "long")).artifact_id or ""
        with pytest.raises(Refused) as refused:
            await runtime.as_principal(CALLER).artifact("s1", artifact_id)
        assert refused.value.kind == "not_found"


async def test_the_metadata_of_a_result_is_in_the_answer_and_the_record() -> None:
    """F6: what a tool says for programs reaches them, and a repeated request too, as JSON."""
    facts = {"source": "till", "at": date(2026, 1, 2), "huge": 10**5000}

    async def note(given: Json, context: ToolContext) -> ToolResult[int]:
        return ToolResult(value=1, metadata=facts)

    async with serving(host_tool("note", note)) as runtime:
        await runtime.open_session("s1")
        told = [await runtime.call_tool("s1", "note", idempotency_key="k") for _ in range(2)]
        await runtime.close_session("s1")
        records = (await runtime.list_events("s1")).events
    [invoked] = [each["data"] for each in records if each["kind"] == "tool.invoked"]
    assert invoked["metadata"]["at"] == "2026-01-02"
    assert [each.metadata for each in told] == [invoked["metadata"]] * 2
    assert as_json(told[0])["metadata"]["source"] == "till"


async def test_metadata_holds_no_secret_in_the_record() -> None:
    """A secret argument that a tool repeats in its metadata is not written down."""
    schema = {
        "type": "object",
        "properties": {"pin": {"type": "string", "writeOnly": True}},
    }

    async def pay(given: Json, context: ToolContext) -> ToolResult[int]:
        return ToolResult(value=1, metadata={"used": given["pin"]})

    async with serving(host_tool("pay", pay, schema)) as runtime:
        await runtime.open_session("s1")
        await runtime.call_tool("s1", "pay", {"pin": "4711-very-secret"})
        records = (await runtime.list_events("s1")).events
    assert "metadata" in str(records)
    assert "4711-very-secret" not in str(records)


async def test_events_are_typed_and_continue_after_a_number() -> None:
    """Events are dataclasses, each once; `seq` is where another iteration goes on."""
    async with serving(host_tool("add")) as runtime:
        await runtime.open_session("s1")
        await runtime.call_tool("s1", "add", {"a": 1, "b": 2})
        events = runtime.events("s1")
        first = await anext(events)
        assert isinstance(first, SessionOpened)
        seen = events.seq
        await events.aclose()
        async with runtime.events("s1", after=seen) as later:
            event = await anext(later)
            while not isinstance(event, ToolInvoked):
                event = await anext(later)
            assert event.value == 3
            assert later.seq > seen


async def test_iteration_ends_when_the_session_is_closed() -> None:
    """An iteration over the events of a session is over when the session is."""
    async with serving(host_tool("add")) as runtime:
        await runtime.open_session("s1")
        async with runtime.events("s1") as events:
            await runtime.close_session("s1")
            kinds = [event.kind async for event in events]
        assert kinds[0] == "session.opened"


async def test_a_gap_is_bridged_without_a_double() -> None:
    """A reader that the runtime cut off goes on where it was, and yields no event twice."""
    async with serving(host_tool("add"), event_backlog=2) as runtime:
        await runtime.open_session("s1")
        async with runtime.events("s1") as events:
            values: list[Any] = []
            await anext(events)
            while len(values) < 3:
                # Each round leaves the reader further behind than it may be.
                for count in range(5):
                    await runtime.call_tool("s1", "add", {"a": count, "b": 0})
                event = await anext(events)
                values += [event.value] if isinstance(event, ToolInvoked) else []
            await runtime.close_session("s1")
            values += [event.value async for event in events if isinstance(event, ToolInvoked)]
        assert len(values) % 5 == 0
        assert values == [0, 1, 2, 3, 4] * (len(values) // 5)


async def test_a_reader_that_is_behind_when_the_session_closes_misses_nothing() -> None:
    """What was recorded before the end is yielded, also to a reader that was cut off just then."""
    async with serving(host_tool("add"), event_backlog=2) as runtime:
        await runtime.open_session("s1")
        async with runtime.events("s1") as events:
            await anext(events)
            for count in range(5):
                await runtime.call_tool("s1", "add", {"a": count, "b": 0})
            await runtime.close_session("s1")
            values = [event.value async for event in events if isinstance(event, ToolInvoked)]
        assert values == [0, 1, 2, 3, 4]


def test_an_event_of_a_newer_version_is_no_crash() -> None:
    """An unknown kind, and a known one with other facts, come as an `UnknownEvent`."""
    for kind in ("tool.invented", ToolInvoked.kind):
        event = typed_event(Envelope("s1", 7, kind, 1.0, {"colour": "red"}))
        data = {"colour": "red"}
        assert event == UnknownEvent(session_id="s1", at=1.0, kind_name=kind, data=data)


def test_a_passing_event_is_typed() -> None:
    """Text that streams is not in the ledger, and comes as its dataclass all the same."""
    facts = {"turn": 1, "step": 0, "text": "hel"}
    event = typed_event(Envelope("s1", 7, TextDelta.kind, 1.0, facts, is_kept=False))
    assert isinstance(event, TextDelta)
    assert event.text == "hel"

"""Arguments are checked before anything else happens to a call, and then they are frozen."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import pytest

from tests.calls.runs import Run, failure, found, kinds, run
from toolcrib import Executor, Hooks, Limits, Session, ToolInvoked, tool
from toolcrib.errors import UsageError
from toolcrib.failures import Fault
from toolcrib.host_tools.definition import HostToolDefinition
from toolcrib.ledger.events import CallStarted


@dataclass(frozen=True)
class Place:
    city: str
    zip: int


@tool
async def visit(place: Place, days: int = 1, how: Literal["bus", "boat"] = "bus") -> str:
    """Visit a place."""
    return f"{days} in {place.city} by {how}"


@tool
async def ping() -> str:
    """Say pong."""
    return "pong"


def pointers(ended: Run) -> list[str]:
    assert ended.outcome.failure is not None
    return [fault.pointer for fault in ended.outcome.failure.faults]


OSLO = {"place": {"city": "Oslo", "zip": 150}}


class TestForms:
    @pytest.mark.parametrize(
        "arguments",
        [
            OSLO,
            '{"place": {"city": "Oslo", "zip": 150}}',
            b'{"place":{"city":"Oslo","zip":150}}',
        ],
        ids=["mapping", "text", "bytes"],
    )
    async def test_arguments_come_as_json_or_as_a_mapping(self, arguments: Any) -> None:
        """Whatever form arguments arrive in, the handler gets the same typed values, and the record
        has them with their defaults.
        """
        ended = await run(visit, arguments)

        assert ended.outcome.value == "1 in Oslo by bus"
        assert ended.record.params == {**OSLO, "days": 1, "how": "bus"}

    @pytest.mark.parametrize("arguments", [None, "", b"", "{}", {}], ids=repr)
    async def test_no_arguments_are_an_empty_object(self, arguments: Any) -> None:
        """Models leave the arguments of a tool without any empty; that is no fault."""
        ended = await run(ping, arguments)

        assert ended.outcome.value == "pong"
        assert ended.record.params == {}

    @pytest.mark.parametrize(
        "arguments",
        ["{", "nonsense", b"\xff", "\udce9", '{"a": 1} trailing'],
    )
    async def test_what_is_not_json_is_a_fault(self, arguments: Any) -> None:
        """R45: text that cannot be read ends the call; the handler does not run."""
        ended = await run(ping, arguments)

        assert ended.failure == "invalid_arguments"
        assert pointers(ended) == [""]
        assert ended.outcome.text.startswith("The arguments of `ping` are not valid:\n- /: ")
        assert ended.record.params is None
        assert kinds(ended.session) == ["session.opened", "tool.invoked"]

    @pytest.mark.parametrize("arguments", ["[]", "5", "null", '"text"'])
    async def test_json_that_is_no_object_is_a_fault(self, arguments: str) -> None:
        """R45: arguments are an object, for every way to declare a tool."""

        async def echo(input: Any, _: Any) -> Any:
            raise AssertionError("never called")

        by_schema = HostToolDefinition(
            name="echo", description="Echo.", parameters={"type": "object"}, handler=echo
        )

        for declared in (ping, visit, by_schema):
            assert (await run(declared, arguments)).failure == "invalid_arguments"

    @pytest.mark.parametrize("value", [object(), "caf\udce9", {1, object()}])
    async def test_a_mapping_that_is_not_json_is_a_usage_error(self, value: Any) -> None:
        """No model can send it, so it is the program's mistake: raised, and nothing recorded."""
        session = Session()

        with pytest.raises(UsageError, match="not JSON"):
            await run(visit, {"place": value}, session=session)

        assert kinds(session) == ["session.opened"]

    async def test_a_mapping_that_contains_itself_is_a_usage_error(self) -> None:
        """A circle in the arguments is told, not followed."""
        circle: dict[str, Any] = {}
        circle["place"] = circle

        with pytest.raises(UsageError, match="not JSON"):
            await run(visit, circle)

    async def test_any_mapping_will_do(self) -> None:
        """A mapping need not be a dict."""
        ended = await run(visit, MappingProxyType(OSLO))

        assert ended.outcome.ok


class TestFaults:
    async def test_every_fault_has_a_pointer(self) -> None:
        """R45: all faults are listed at once, each with the JSON pointer to its place."""
        ended = await run(visit, {"place": {"city": 5}, "days": "two", "how": "rail", "x/y": 1})

        assert ended.failure == "invalid_arguments"
        assert set(pointers(ended)) == {
            "/place/city",
            "/place/zip",
            "/days",
            "/how",
            "/x~1y",
        }
        assert "- /place/zip: Field required" in ended.outcome.text

    @pytest.mark.parametrize(
        "arguments",
        [
            {"place": {"city": "Oslo", "zip": "150"}},
            {"place": {"city": "Oslo", "zip": 150.0}},
            {"place": {"city": "Oslo", "zip": True}},
            {"place": {"city": 1, "zip": 150}},
            {**OSLO, "days": None},
            {**OSLO, "days": float("nan")},
        ],
    )
    async def test_nothing_is_coerced(self, arguments: Any) -> None:
        """R45: a value of another type is a fault, not something to be guessed at."""
        assert (await run(visit, arguments)).failure == "invalid_arguments"

    @pytest.mark.parametrize(
        "arguments",
        [
            {"whole": "1", "part": 1.5},
            {"whole": 1.0, "part": 1.5},
            {"whole": True, "part": 1.5},
            {"whole": 1, "part": "1.5"},
            {"whole": 1, "part": float("nan")},
            {"whole": 1, "part": 1.5, "flag": "true"},
            {"whole": 1, "part": 1.5, "flag": 1},
            {"whole": 1, "part": 1.5, "maybe": "1"},
        ],
    )
    async def test_a_functions_own_arguments_are_not_coerced(self, arguments: Any) -> None:
        """R45: plain parameters are as strict as the fields of a type."""

        @tool
        async def mix(whole: int, part: float, flag: bool = False, maybe: int | None = None) -> str:
            """Mix."""
            raise AssertionError("never called")

        assert (await run(mix, arguments)).failure == "invalid_arguments"

    async def test_the_handler_is_not_called(self) -> None:
        """R45, T4: invalid arguments reach neither hooks nor handler, and nothing is started."""
        seen: list[str] = []

        @tool
        async def add(a: int) -> int:
            """Add."""
            seen.append("handler")
            return a

        async def pre(_: Any, arguments: dict[str, Any]) -> dict[str, Any]:
            seen.append("hook")
            return arguments

        ended = await run(add, {"a": "1"}, hooks=Hooks(pre={"add": pre}))

        assert ended.failure == "invalid_arguments"
        assert seen == []
        assert kinds(ended.session) == ["session.opened", "tool.invoked"]

    async def test_the_record_has_the_faults(self) -> None:
        """R46: an attempt with invalid arguments is on record, with what was wrong."""
        ended = await run(visit, {**OSLO, "days": "two"})

        assert ended.record.failure == ended.outcome.failure
        assert ended.record.failure is not None
        assert isinstance(ended.record.failure.faults[0], Fault)
        assert ended.record.params == {**OSLO, "days": "two"}


class TestSize:
    async def test_arguments_have_a_size(self) -> None:
        """R45: too many bytes are refused unread. The record has their digest and not the bytes,
        or the cap would not bound what a call can cost.
        """
        arguments = '{"place": "' + "x" * 1000 + '"}'

        ended = await run(visit, arguments, limits=Limits(max_arguments_bytes=1000))

        assert ended.failure == "invalid_arguments"
        assert ended.outcome.text == (
            f"The arguments of `visit` are {len(arguments)} bytes; at most 1000 are taken."
        )
        assert ended.record.params is None
        assert ended.record.arguments_digest
        assert max(len(record.payload or b"") for record in ended.session.records()) < 1000

    async def test_the_cap_is_inclusive(self) -> None:
        """Arguments of exactly the allowed size are taken."""
        arguments = b'{"place":{"city":"Oslo","zip":150}}'

        ended = await run(visit, arguments, limits=Limits(max_arguments_bytes=len(arguments)))

        assert ended.outcome.ok

    async def test_the_deepest_arguments_can_be_read_back(self) -> None:
        """R21: whatever is taken can be read from the ledger again; what is deeper is a fault."""

        @tool
        async def echo(data: Any) -> str:
            """Echo."""
            return "ok"

        deepest = "[" * 149 + "1" + "]" * 149

        ended = await run(echo, f'{{"data": {deepest}}}')
        refused = await run(echo, f'{{"data": [{deepest}]}}')

        assert ended.outcome.ok
        assert ended.record.params["data"]
        assert refused.failure == "invalid_arguments"
        assert refused.record.failure


async def digest_of(arguments: Any, declared: Any = visit) -> str:
    return (await run(declared, arguments)).record.arguments_digest


class TestDigest:
    async def test_the_digest_is_of_tool_version_and_arguments(self) -> None:
        """R50: another version, another tool or other arguments are another call."""

        def versioned(version: str, name: str = "greet") -> Any:
            async def greet(word: str = "hi") -> str:
                """Greet."""
                return word

            return tool(name=name, version=version)(greet)

        same = await digest_of({"word": "hi"}, versioned("1.0.0"))

        assert same == await digest_of({"word": "hi"}, versioned("1.0.0"))
        others = {
            await digest_of({"word": "ho"}, versioned("1.0.0")),
            await digest_of({"word": "hi"}, versioned("1.0.1")),
            await digest_of({"word": "hi"}, versioned("1.0.0", "grüß".encode().hex())),
        }
        assert same not in others
        assert len(others) == 3

    async def test_the_handler_cannot_change_what_is_on_record(self) -> None:
        """T21: handlers get a parsed copy; what they do to it changes neither digest nor record."""

        @tool
        async def grow(items: list[int]) -> int:
            """Grow."""
            items.append(4)
            return len(items)

        ended = await run(grow, {"items": [1, 2, 3]})

        assert ended.outcome.value == 4
        assert ended.record.params == {"items": [1, 2, 3]}
        (started,) = found(ended.session, CallStarted)
        assert started.arguments_digest == ended.record.arguments_digest

    async def test_the_caller_cannot_change_a_call_that_was_made(self) -> None:
        """The arguments are taken when the call is made; the caller's mapping is not kept."""
        arguments = {"items": [1, 2, 3]}

        @tool
        async def meddle(items: list[int]) -> list[int]:
            """Change the caller's own list."""
            arguments["items"].append(4)
            return items

        ended = await run(meddle, arguments)

        assert ended.outcome.value == [1, 2, 3]
        assert ended.record.params == {"items": [1, 2, 3]}


async def test_each_call_gets_its_own_defaults() -> None:
    """T21: a mutable default is not shared between calls."""

    @tool
    async def grow(items: list[int] = []) -> int:  # noqa: B006 - the point of the test
        """Grow."""
        items.append(1)
        return len(items)

    executor = Executor(Session(), [grow])
    outcomes = [await executor.call("grow") for _ in range(3)]

    assert [outcome.value for outcome in outcomes] == [1, 1, 1]
    assert [failure(outcome) for outcome in outcomes] == [None] * 3
    assert all(isinstance(event, ToolInvoked) for event in found(executor.session, ToolInvoked))

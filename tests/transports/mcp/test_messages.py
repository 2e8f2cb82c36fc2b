"""Ids of calls, and lines of the pipes."""

from __future__ import annotations

import json

import pytest
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from toolcrib.errors import UsageError
from toolcrib.transports.mcp import McpOptions
from toolcrib.transports.mcp.client_sessions import call_fingerprint, fingerprint_of, new_call_id
from toolcrib.transports.mcp.stdio import (
    MAX_IN_FLIGHT,
    InvalidLine,
    RequestsInFlight,
    as_line,
    read_message,
)


class TestCallIds:
    def test_an_id_shows_what_was_called(self) -> None:
        """A retry is found by it, in whichever order its arguments come."""
        sign = call_fingerprint("write", {"a": 1, "b": {"c": 2, "d": [3]}})

        assert sign == call_fingerprint("write", {"b": {"d": [3], "c": 2}, "a": 1})
        assert fingerprint_of(new_call_id(sign)) == sign
        assert new_call_id(sign) != new_call_id(sign)

    @pytest.mark.parametrize(
        ("name", "arguments"), [("erase", {"a": 1}), ("write", {"a": "1"}), ("write", {})]
    )
    def test_another_call_has_another_mark(self, name: str, arguments: dict[str, object]) -> None:
        """Another tool, another type of an argument, one argument less."""
        assert call_fingerprint(name, arguments) != call_fingerprint("write", {"a": 1})

    @pytest.mark.parametrize("call_id", ["call_1_2", "mine", "call_" + "f" * 31, ""])
    def test_ids_of_others_have_no_mark(self, call_id: str) -> None:
        """What a client or an executor chose says nothing about the call."""
        assert fingerprint_of(call_id) is None


class TestLines:
    def test_a_message_is_read_as_it_was_written(self) -> None:
        """One message, one line."""
        line = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'

        assert as_line(read_message(line, 100)) == line + b"\n"

    @pytest.mark.parametrize(
        ("line", "code"),
        [(b"{", -32700), (b"[]", -32600), (b'{"jsonrpc":"1.0"}', -32600), (b"x" * 200, -32600)],
    )
    def test_what_is_no_message_has_an_answer(self, line: bytes, code: int) -> None:
        """The client is told, without its line being repeated to it."""
        with pytest.raises(InvalidLine) as caught:
            read_message(line, 100)

        told = json.loads(as_line(caught.value.answer))
        assert told["error"]["code"] == code
        assert told["id"] is None


class TestInFlight:
    def test_what_was_asked_is_open_until_it_is_answered(self) -> None:
        """Notifications wait for nothing."""
        open_requests = RequestsInFlight()
        open_requests.begin(JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized"))
        assert open_requests.is_empty.is_set()

        open_requests.begin(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping"))
        assert not open_requests.is_empty.is_set()

        open_requests.end(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
        assert open_requests.is_empty.is_set()

    def test_what_was_cancelled_is_not_waited_for(self) -> None:
        """It will not be answered."""
        open_requests = RequestsInFlight()
        open_requests.begin(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call"))
        cancelled = JSONRPCNotification(
            jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1}
        )
        open_requests.begin(cancelled)

        assert open_requests.is_empty.is_set()

    def test_nobody_asks_without_end(self) -> None:
        """A client that does not read its answers cannot have them pile up here."""
        open_requests = RequestsInFlight()
        for number in range(MAX_IN_FLIGHT):
            open_requests.begin(JSONRPCRequest(jsonrpc="2.0", id=number, method="ping"))
        with pytest.raises(InvalidLine) as caught:
            open_requests.begin(JSONRPCRequest(jsonrpc="2.0", id="more", method="ping"))
        open_requests.end(JSONRPCResponse(jsonrpc="2.0", id=0, result={}))
        open_requests.begin(JSONRPCRequest(jsonrpc="2.0", id="more", method="ping"))

        assert caught.value.answer.id == "more"


class TestOptions:
    @pytest.mark.parametrize(("name", "value"), [("list_ttl_ms", -1), ("idle_seconds", 0)])
    def test_numbers_that_make_no_sense_are_refused(self, name: str, value: int) -> None:
        """At once, and by name."""
        changed: dict[str, int] = {name: value}
        with pytest.raises(UsageError, match=name):
            McpOptions(**changed)  # pyright: ignore[reportArgumentType]

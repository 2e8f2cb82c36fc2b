"""Messages of JSON-RPC."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import Refused
from toolcrib.transports.jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    Malformed,
    Notification,
    Request,
    Response,
    error_frame,
    notification_frame,
    read_message,
    refusal_frame,
    request_frame,
    result_frame,
)

MOST = 10_000


def read(**members: Any) -> object:
    return read_message(json.dumps({"jsonrpc": "2.0", **members}), MOST)


@pytest.mark.parametrize("request_id", ["a", "", 0, -1, 2**70])
def test_ids_are_texts_and_integers(request_id: str | int) -> None:
    """Falsy and large ids are ids too."""
    assert read(id=request_id, method="ping") == Request(request_id, "ping", None)


@pytest.mark.parametrize("request_id", [None, True, 1.5, [], {}, "x" * 256])
def test_other_ids_are_refused_under_no_id(request_id: object) -> None:
    """An id that cannot be given back is no id; it is not taken for a notification either."""
    told = read(id=request_id, method="ping")

    assert isinstance(told, Malformed)
    assert (told.code, told.id) == (INVALID_REQUEST, None)


def test_without_an_id_it_is_a_notification() -> None:
    """A message without an id is not answered."""
    assert read(method="ping", params={"a": 1}) == Notification("ping", {"a": 1})


@pytest.mark.parametrize("frame", ["", "{", "nul", b"\xff\xfe", '{"a":NaN}', "[" * 100_000])
def test_what_is_no_json_is_a_parse_error(frame: str | bytes) -> None:
    """Also what no parser may recurse into."""
    told = read_message(frame, 1_000_000)

    assert isinstance(told, Malformed)
    assert (told.code, told.id) == (PARSE_ERROR, None)


@pytest.mark.parametrize(
    "members",
    [
        {"jsonrpc": "1.0", "method": "ping"},
        {"method": 5},
        {"method": "ping", "params": "text"},
        {},
    ],
)
def test_what_is_no_request_is_answered_under_its_id(members: dict[str, Any]) -> None:
    """Whoever sent it can tell which message was wrong."""
    told = read(**{"id": 7, **members})

    assert isinstance(told, Malformed)
    assert (told.code, told.id) == (INVALID_REQUEST, 7)


@pytest.mark.parametrize("frame", ["[]", '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', "5", "null"])
def test_batches_and_bare_values_are_refused(frame: str) -> None:
    """A frame holds one message."""
    told = read_message(frame, MOST)

    assert isinstance(told, Malformed)
    assert told.code == INVALID_REQUEST


def test_a_frame_over_the_cap_is_not_even_read() -> None:
    """Its error is that of a payload that is too large."""
    told = read_message(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', 10)

    assert isinstance(told, Malformed)
    assert (told.code, told.id) == (-32013, None)


@pytest.mark.parametrize("error", [5, {}, {"message": 5}, {"code": -1, "message": "no"}])
def test_an_answer_is_never_answered(error: object) -> None:
    """However odd an answer is, it is one: complaining about it could go on forever."""
    told = read(id=[1], error=error)

    assert isinstance(told, Response)
    assert isinstance(told.error, str)


def test_what_is_written_is_one_line_that_reads_back() -> None:
    """Line breaks in texts do not break the line."""
    odd = {"text": "a\nb\r\n\u2028 ü 🐚", "nan": float("nan")}
    frames = [
        result_frame(1, odd),
        request_frame("s1", "client.call", odd),
        notification_frame("event", odd),
        error_frame(None, -32700, "a\nb"),
        refusal_frame(2, Refused("busy", "a\nb", {"odd": odd})),
    ]

    assert all("\n" not in frame and "\r" not in frame for frame in frames)
    assert json.loads(frames[0])["result"]["text"] == odd["text"]
    assert read_message(frames[1], MOST) == Request("s1", "client.call", odd | {"nan": "NaN"})
    assert json.loads(frames[4])["error"]["data"]["kind"] == "busy"


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200)))
def test_any_frame_is_read_without_an_exception(frame: str | bytes) -> None:
    """A client can send what it wants."""
    assert isinstance(read_message(frame, MOST), Malformed | Request | Notification | Response)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]),
        _JSON | st.sampled_from(["2.0", "ping"]),
    )
)
def test_any_object_is_read_without_an_exception(members: dict[str, Any]) -> None:
    """Members of any type in any combination."""
    told = read_message(json.dumps(members), MOST)

    assert isinstance(told, Malformed | Request | Notification | Response)

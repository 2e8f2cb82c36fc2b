"""Log lines: one for each record whatever it holds, with the facts of the request and the call."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from toolcrib.errors import UsageError
from toolcrib.logs import LogOptions, log_facts, request_facts, restored_logs, write_logs

FORGED = 'bolt\n2026-01-01T00:00:00.000Z info toolcrib: all is well\r\x1b[2J\u2028\u202egnp"='
LOGGER = logging.getLogger("toolcrib.test")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Leave the logs of the other tests alone."""
    with restored_logs():
        yield


def written(options: LogOptions, **context: Any) -> io.StringIO:
    out = io.StringIO()
    write_logs(options, out, context=lambda: context)
    return out


def test_every_line_is_one_json_object() -> None:
    """Time, level, logger and message, then the facts of request and call, then its own."""
    out = written(LogOptions(format="json"), session_id="s", call_id="c")
    token = request_facts.set(lambda: {"request_id": "r1", "principal": "alice"})
    log_facts(LOGGER, logging.INFO, "call %s", "completed", facts={"tool": "bolt", "none": None})
    request_facts.reset(token)

    (line,) = out.getvalue().splitlines()
    record = json.loads(line)
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "info",
        "logger": "toolcrib.test",
        "message": "call completed",
        "request_id": "r1",
        "principal": "alice",
        "session_id": "s",
        "call_id": "c",
        "tool": "bolt",
    }


@pytest.mark.parametrize("format", ["text", "json"])
def test_nothing_forges_a_line(format: Any) -> None:
    """Newlines, terminal sequences and characters that turn the direction are escaped in messages,
    facts and tracebacks; a line of a traceback cannot be taken for a record.
    """
    out = written(LogOptions(format=format), session_id=FORGED)
    try:
        raise RuntimeError(FORGED)
    except RuntimeError:
        LOGGER.exception("the tool %s failed", FORGED)

    text = out.getvalue()
    assert not any(letter in text for letter in "\r\x1b\u2028\u202e")
    first, *rest = text.splitlines()
    assert "the tool bolt\\n2026" in first
    if format == "json":
        assert rest == []
        assert json.loads(first)["session_id"] == FORGED
    else:
        assert rest
        assert all(line.startswith("    | ") for line in rest)


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize("prefix", ["tc_abcdefghijkl_", "sc_", "ss_"])
def test_no_credential_is_written(prefix: str, format: Any) -> None:
    """Neither in a message nor in the text of an exception, whichever library logs it: tokens, and
    the codes and cookies of sign-ins.
    """
    secret = f"{prefix}0123456789abcdefghij0123456789"
    out = written(LogOptions(format=format))
    try:
        raise RuntimeError(f"GET /?token={secret} with Authorization: Bearer {secret}")
    except RuntimeError:
        logging.getLogger("anybody").exception("Authorization: Bearer %s", secret)
    logging.getLogger("anybody").warning("it was %s, Toolcrib-CSRF: 0123456789abcdefghij", secret)

    assert "0123456789abcdefghij" not in out.getvalue()
    assert "***" in out.getvalue()


@pytest.mark.parametrize(
    ("level", "all_tracebacks", "is_shown"),
    [("info", False, False), ("info", True, True), ("debug", False, True)],
)
def test_what_a_tool_raised_is_shown_only_when_wanted(
    level: Any, all_tracebacks: bool, is_shown: bool
) -> None:
    """It may quote an argument. What is unexpected is shown always: that is our own fault."""
    out = io.StringIO()
    write_logs(LogOptions(level=level), out, all_tracebacks=all_tracebacks)
    try:
        raise KeyError("hunter2")
    except KeyError:
        LOGGER.info("call c of look failed", exc_info=True)
    assert "call c of look failed" in out.getvalue()
    assert ("hunter2" in out.getvalue()) is is_shown
    try:
        raise RuntimeError("the shelf fell down")
    except RuntimeError:
        LOGGER.exception("tools.call failed")

    assert "the shelf fell down" in out.getvalue()


def test_the_level_is_ours_and_libraries_warn() -> None:
    """Libraries talk at info about every connection; that is no operator's business."""
    out = written(LogOptions(level="info"))
    LOGGER.info("ours")
    LOGGER.debug("too much")
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")

    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert "info toolcrib.test: ours" in lines[0]
    assert "warning uvicorn.error: Invalid" in lines[1]


def test_setting_up_twice_writes_once() -> None:
    """The last options count."""
    written(LogOptions())
    out = written(LogOptions(level="warning"))
    LOGGER.info("left out")
    LOGGER.warning("once")

    assert out.getvalue().count("once") == 1
    assert "left out" not in out.getvalue()


def test_what_was_set_up_is_undone() -> None:
    """A command in a process that goes on leaves no handler and no level behind."""
    root, own = logging.getLogger(), logging.getLogger("toolcrib")
    before = root.handlers[:], root.level, own.level
    with restored_logs():
        written(LogOptions(level="debug"))
        assert (root.handlers[:], root.level, own.level) != before

    assert (root.handlers[:], root.level, own.level) == before


@pytest.mark.parametrize(("name", "value"), [("level", "loud"), ("format", "xml")])
def test_unknown_values_are_refused(name: str, value: Any) -> None:
    """With what would be right."""
    with pytest.raises(UsageError, match=f"unknown log {name} '{value}'"):
        LogOptions(**{name: value})

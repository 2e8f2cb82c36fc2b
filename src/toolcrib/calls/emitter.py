"""What a running call says: progress, output and events of its own."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json, to_json

from toolcrib.calls.redaction import encodable, scrub
from toolcrib.errors import InvalidEvent
from toolcrib.ledger.events import Event, ToolEmitted, ToolOutput, ToolProgress

if TYPE_CHECKING:
    from toolcrib.calls.call import Call

MAX_EVENT_BYTES = 64 * 1024
MAX_EVENTS_PER_CALL = 1000
PROGRESS_INTERVAL_SECONDS = 0.1


class Emitter:
    """The events of one call, in order. Usable from the handler's own thread.

    Progress within `PROGRESS_INTERVAL_SECONDS` replaces what was not sent yet; the last one is
    sent before anything else is, and before the call finishes.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._count = 0
        self._is_closed = False
        self._sent_at = float("-inf")
        self._unsent: ToolProgress | None = None

    def progress(self, current: float, total: float | None, message: str | None) -> None:
        call = self._call
        _check_number("current", current)
        if total is not None:
            _check_number("total", total)
        event = ToolProgress(
            session_id=call.session.session_id,
            at=call.session.clock(),
            call_id=call.call_id,
            tool=call.name,
            current=current,
            total=total,
            message=None if message is None else self._clean_text("message", message),
        )
        self._check_size(event)
        with self._lock:
            self._check_open()
            if event.at - self._sent_at < PROGRESS_INTERVAL_SECONDS:
                self._unsent = event
                return
            self._unsent = None
            self._sent_at = event.at
            self._send(event)

    def output(self, chunk: str) -> None:
        call = self._call
        self._send_counted(
            ToolOutput(
                session_id=call.session.session_id,
                at=call.session.clock(),
                call_id=call.call_id,
                tool=call.name,
                chunk=self._clean_text("chunk", chunk),
            )
        )

    def emit(self, type: str, data: Any) -> None:
        call = self._call
        prefix = f"tool.{call.name}."
        if not _is_text(type) or not type.startswith(prefix) or type == prefix:
            raise InvalidEvent(
                f"{call.name!r} may only emit events whose type starts with {prefix!r}, "
                f"not {type!r}"
            )
        try:
            clean = scrub(call, from_json(to_json(data)))
        except ValueError as error:
            raise InvalidEvent(f"the data of event {type!r} is not JSON: {error}") from None
        self._send_counted(
            ToolEmitted(
                session_id=call.session.session_id,
                at=call.session.clock(),
                call_id=call.call_id,
                tool=call.name,
                type=type,
                data=clean,
            )
        )

    def close(self) -> None:
        """Send what is left; nothing is taken any more."""
        with self._lock:
            self._is_closed = True
            self._send_unsent()

    def _send_counted(self, event: Event) -> None:
        self._check_size(event)
        with self._lock:
            self._check_open()
            if self._count >= MAX_EVENTS_PER_CALL:
                raise InvalidEvent(
                    f"call {self._call.call_id} has emitted {MAX_EVENTS_PER_CALL} events, "
                    "the most that one call may; use progress, which is coalesced"
                )
            self._count += 1
            self._send_unsent()
            self._send(event)

    def _send_unsent(self) -> None:
        if self._unsent is not None:
            self._send(self._unsent)
            self._unsent = None

    def _send(self, event: Event) -> None:
        # Under the lock, so that threads of one call cannot reorder its events.
        self._call.session.note(event)

    def _check_open(self) -> None:
        if self._is_closed:
            raise InvalidEvent(f"call {self._call.call_id} is over; it can emit nothing more")

    def _check_size(self, event: Event) -> None:
        size = len(to_json(event))
        if size > MAX_EVENT_BYTES:
            raise InvalidEvent(
                f"the event is {size} bytes; at most {MAX_EVENT_BYTES} are taken: put large data "
                "into the result"
            )

    def _clean_text(self, name: str, text: str) -> str:
        if not _is_text(text):
            raise InvalidEvent(f"{name} must be text, not {type(text).__name__}")
        return encodable(scrub(self._call, text))


def _check_number(name: str, number: object) -> None:
    # An event that cannot be read back would make the whole ledger unreadable.
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not abs(cast("float", number)) <= sys.float_info.max:
        raise InvalidEvent(f"{name} must be a finite number, not {type(number).__name__}")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_making = threading.Lock()


def emitter_of(call: Call) -> Emitter:
    """The call's emitter, made when it is first wanted: most calls say nothing.

    A call that ends meanwhile either closes it or is seen here to be over.
    """
    with _making:
        if call.emitter is None:
            call.emitter = Emitter(call)
            if call.is_over:
                call.emitter.close()
        return call.emitter

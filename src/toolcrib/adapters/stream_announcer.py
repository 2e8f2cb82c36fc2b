"""Announces what a model produces, piece by piece, while it is produced.

Credentials, and the secret arguments of tools, are in no piece. A request that is made again
repeats what it said before: that is not announced twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from toolcrib.adapters.credentials import Credentials, Pieces
from toolcrib.adapters.items import HostedCallItem, ToolCallItem
from toolcrib.adapters.prompt_stream import reader_ready
from toolcrib.ledger.prompt_events import (
    ArgumentsDelta,
    HostedStatus,
    HostedToolProgress,
    PartialImage,
    ReasoningDelta,
    TextDelta,
)

if TYPE_CHECKING:
    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.ledger.events import Event
    from toolcrib.tools.redaction import Redactor

MAX_IMAGE_CHARS: Final = 8 * 1024 * 1024
"""The longest partial image, in base64, that is announced."""
_ENDS: Final = frozenset({"completed", "failed", "incomplete"})

Key = object
"""What a stream knows a call or a text by."""


class Passage:
    """A text that comes piece by piece. What an earlier attempt announced of it is left out."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._pieces = Pieces(credentials)
        self._heard: list[str] = []
        """What came in this attempt."""
        self._announced: list[str] = []
        self._earlier = ""
        """What an earlier attempt announced, as long as this one says the same."""
        self._place = 0

    @property
    def announced(self) -> str:
        """All that was announced, and still holds."""
        return "".join(self._announced)

    def add(self, piece: str) -> tuple[str, bool]:
        """What is to be announced, and whether it begins the text anew."""
        self._heard.append(piece)
        return self._new(self._pieces.add(piece))

    def complete(self, whole: str) -> Iterator[tuple[str, bool]]:
        """Announce what was held back, and what of the whole was in no piece; empty when the whole
        is not known.
        """
        heard = "".join(self._heard)
        if whole.startswith(heard):
            yield self.add(whole[len(heard) :])
        elif whole:
            # The pieces were others.
            self._pieces, self._heard, self._earlier = Pieces(self._credentials), [whole], ""
            self._announced = [self._credentials.hide(whole)]
            yield self._announced[0], True
            return
        yield self._new(self._pieces.rest())

    def begin_again(self) -> None:
        """Another attempt says it from the start."""
        self._earlier = self.announced
        self._pieces, self._heard, self._place = Pieces(self._credentials), [], 0

    def _new(self, shown: str) -> tuple[str, bool]:
        if not self._earlier:
            self._announced.append(shown)
            return shown, False
        known = self._earlier[self._place : self._place + len(shown)]
        if not shown.startswith(known):
            text = self._earlier[: self._place] + shown
            self._announced, self._earlier = [text], ""
            return text, True
        self._place += len(known)
        if self._place == len(self._earlier):
            self._earlier = ""
        new = shown[len(known) :]
        self._announced.append(new)
        return new, False


@dataclass(slots=True)
class _StreamedCall:
    """A call that the model has begun to write."""

    call_id: str
    tool: str
    capability: str | None
    """None for a call that this process is to run."""
    redactor: Redactor | None = None
    held: list[str] = field(default_factory=list[str])
    """Arguments that may hold a secret."""
    status: HostedStatus = "in_progress"
    said: set[object] = field(default_factory=set[object])


class StreamAnnouncer:
    """Announces the pieces of one step as they stream in. Calls, reasoning and texts have keys of
    the caller's choice; what belongs to a call that was not opened, or is neither a function nor
    run by the provider, is passed over.
    """

    def __init__(self, tools: TurnTools, turn: int, step: int, id_of: Callable[[str], str]) -> None:
        self._tools = tools
        self._session = tools.executor.session
        self._facts: dict[str, Any] = {"turn": turn, "step": step}
        self._id_of = id_of
        self._passages: dict[Key, Passage] = {}
        self._texts: dict[Key, int] = {}
        """The parts of the answer's text in this attempt, in order."""
        self._reasoning: dict[Key, int] = {}
        self._calls: dict[Key, _StreamedCall] = {}

    async def ready(self) -> None:
        """Wait for a reader that has fallen behind."""
        await reader_ready()

    def begin_attempt(self) -> None:
        """The request is made, perhaps again: everything may be said once more."""
        for passage in self._passages.values():
            passage.begin_again()
        self._texts.clear()
        self._reasoning.clear()

    def text(self, key: Key, piece: str) -> None:
        """A piece of a part of the answer's text."""
        passage = self._text(key)
        self._say_text(*passage.add(piece))

    def end_text(self, key: Key, whole: str = "") -> None:
        """The end of a part of the text; `whole` adds what no piece brought."""
        passage = self._text(key)
        for text, is_restart in passage.complete(whole):
            self._say_text(text, is_restart)

    def reasoning(self, key: Key, piece: str) -> None:
        """A piece of the reasoning."""
        index = self._index(key)
        self._say_reasoning(index, *self._passage(("reasoning", index)).add(piece))

    def end_reasoning(self, key: Key, whole: str = "") -> None:
        """The end of a text of the reasoning; `whole` adds what no piece brought."""
        if key not in self._reasoning and not whole:
            return
        index = self._index(key)
        for text, is_restart in self._passage(("reasoning", index)).complete(whole):
            self._say_reasoning(index, text, is_restart)

    def open_call(self, key: Key, item: RawItem) -> None:
        """The model begins a call."""
        if key in self._calls:
            return
        match self._tools.classifier.item(item, [item]):
            case ToolCallItem(name=name, call_id=call_id):
                prepared = self._tools.executor.tools.get(name)
                call = _StreamedCall(
                    self._id_of(call_id), name, None, prepared.redactor if prepared else None
                )
                self._calls[key] = call
                self._say_arguments(call, "")
            case HostedCallItem(declaration=declared, item_id=item_id):
                call = _StreamedCall(item_id, declared.tool.name, declared.tool.kind)
                self._calls[key] = call
                self._say_progress(call)
            case _:
                pass

    def capability(self, key: Key) -> str | None:
        """The kind of the tool of a provider-run call; None for any other."""
        call = self._hosted(key)
        return call.capability if call else None

    def arguments(self, key: Key, piece: str) -> None:
        """A piece of the arguments of a call."""
        call = self._calls.get(key)
        if call is None:
            return
        if call.redactor is not None:
            call.held.append(piece)
            return
        text, _ = self._passage((key, "arguments")).add(piece)
        self._say_call_arguments(call, text)

    def end_arguments(self, key: Key, whole: str) -> None:
        """The arguments of a call are there; `whole` adds what no piece brought."""
        call = self._calls.get(key)
        if call is None:
            return
        if call.redactor is not None:
            self._say_once(call, "arguments", lambda: self._say_redacted(call, whole))
            return
        for text, is_restart in self._passage((key, "arguments")).complete(whole):
            self._say_call_arguments(call, "" if is_restart else text)

    def code(self, key: Key, piece: str, *, is_whole: bool = False) -> None:
        """A piece of the program that the provider runs, or the whole. Commands for this process
        are the arguments of their call.
        """
        if self._hosted(key) is not None:
            self._say_piece(key, "code", piece, is_whole=is_whole)
        elif is_whole:
            self.end_arguments(key, piece)
        else:
            self.arguments(key, piece)

    def output(self, key: Key, piece: str, *, is_whole: bool = False) -> None:
        """A piece of what the program printed, or the whole."""
        self._say_piece(key, "output", piece, is_whole=is_whole)

    def search(self, key: Key, queries: tuple[str, ...], url: str | None = None) -> None:
        """What the provider searches for, or the page that it opens."""
        call = self._hosted(key)
        if call is None or not (queries or url):
            return
        shown: list[str] = self._tools.credentials.hide([*queries])
        page: str | None = self._tools.credentials.hide(url)
        facts = (tuple(shown), page)
        self._say_once(
            call, facts, lambda: self._say_progress(call, queries=facts[0], url=facts[1])
        )

    def image(self, key: Key, index: int, media_type: str, base64: str) -> None:
        """A picture that is not finished."""
        call = self._hosted(key)
        if call is None:
            return
        image = PartialImage(index, media_type, base64)
        if len(base64) > MAX_IMAGE_CHARS:
            self._say_progress(call)
        else:
            self._say_progress(call, image=image)

    def status(self, key: Key, status: HostedStatus) -> None:
        """How far a provider-run call is. Said once, and nothing after the end."""
        call = self._hosted(key)
        if call is None or call.status == status or call.status in _ENDS:
            return
        call.status = status
        self._say_progress(call)

    def flush(self) -> None:
        """Announce what was held back: nothing follows."""
        for key in [*self._texts]:
            self.end_text(key)
        if any(map(self._is_unsaid, self._passages)):
            self._restart_text()
        for key in [*self._reasoning]:
            self.end_reasoning(key)

    def _text(self, key: Key) -> Passage:
        return self._passage(("text", self._texts.setdefault(key, len(self._texts))))

    def _whole_text(self) -> str:
        texts = [("text", place) for place in range(len(self._texts))]
        return "".join(self._passage(key).announced for key in texts)

    def _is_unsaid(self, key: Key) -> bool:
        """Whether only an earlier attempt said a part of the text."""
        match key:
            case ("text", int(place)):
                return place >= len(self._texts) and bool(self._passages[key].announced)
            case _:
                return False

    def _hosted(self, key: Key) -> _StreamedCall | None:
        call = self._calls.get(key)
        return call if call is not None and call.capability is not None else None

    def _index(self, key: Key) -> int:
        return self._reasoning.setdefault(key, len(self._reasoning))

    def _passage(self, key: Key) -> Passage:
        passage = self._passages.get(key)
        if passage is None:
            passage = self._passages[key] = Passage(self._tools.credentials)
        return passage

    def _say_once(self, call: _StreamedCall, what: object, say: Callable[[], None]) -> None:
        if what not in call.said:
            call.said.add(what)
            say()

    def _say_piece(self, key: Key, name: str, piece: str, *, is_whole: bool) -> None:
        call = self._hosted(key)
        if call is None:
            return
        passage = self._passage((key, name))
        for text, is_restart in passage.complete(piece) if is_whole else [passage.add(piece)]:
            if text and not is_restart:
                self._say_progress(call, **{name: text})

    def _say_redacted(self, call: _StreamedCall, whole: str) -> None:
        assert call.redactor is not None
        shown = call.redactor.redact_json(whole or "".join(call.held))
        self._say_arguments(call, self._tools.credentials.hide(to_json(shown).decode()))

    def _say_call_arguments(self, call: _StreamedCall, text: str) -> None:
        if not text:
            return
        if call.capability is None:
            self._say_arguments(call, text)
        else:
            self._say_progress(call, arguments=text)

    def _say_text(self, text: str, is_restart: bool) -> None:
        if is_restart:
            self._restart_text()
        elif text:
            self._say(TextDelta, text=text)

    def _restart_text(self) -> None:
        """Say the text of this attempt from its start. What earlier ones said is void."""
        for key in [key for key in self._passages if self._is_unsaid(key)]:
            del self._passages[key]
        self._say(TextDelta, text=self._whole_text(), is_restart=True)

    def _say_reasoning(self, index: int, text: str, is_restart: bool) -> None:
        if text:
            self._say(ReasoningDelta, index=index, text=text, is_restart=is_restart)

    def _say_arguments(self, call: _StreamedCall, text: str) -> None:
        self._say(ArgumentsDelta, call_id=call.call_id, tool=call.tool, text=text)

    def _say_progress(self, call: _StreamedCall, **payload: Any) -> None:
        self._tools.hosted.watch(call.call_id)
        self._say(
            HostedToolProgress,
            call_id=call.call_id,
            tool=call.tool,
            capability=call.capability,
            status=call.status,
            **payload,
        )

    def _say(self, event_type: type[Event], **facts: Any) -> None:
        session = self._session
        if session.is_heard:
            session.announce(
                event_type(
                    session_id=session.session_id, at=session.clock(), **self._facts, **facts
                )
            )

"""The events of a session on the screen: the model's text on stdout, activity on stderr."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TextIO

from toolcrib.cli.output import show_note, stream
from toolcrib.ledger.events import (
    SessionToolsChanged,
    ToolInvoked,
    ToolOutput,
    ToolProgress,
    ToolUnavailable,
)
from toolcrib.ledger.prompt_events import (
    HostedToolProgress,
    PartialReply,
    ReasoningDelta,
    TextDelta,
    ToolWithheld,
)
from toolcrib.terminal_text import STATUS_STYLES, end_word

if TYPE_CHECKING:
    from toolcrib.ledger.events import Event
    from toolcrib.runtime.chat import Chat, ChatTurn
    from toolcrib.runtime.messages import PromptResult

MAX_CHARS: Final = 200
"""How much of a call's arguments or result is shown."""


MAX_LINES: Final = 20
"""How many lines of one piece of a provider's output are shown."""


class EventScreen:
    """Shows the events of a session. `is_silent` leaves out the model's text."""

    def __init__(self, out: TextIO | None = None, *, is_silent: bool = False) -> None:
        self._out = out
        self._is_silent = is_silent
        self._written = ""
        self._step: object = None
        self._thought = ""
        self._thought_key: object = None
        self._hosted: dict[str, str] = {}
        """What each running call of the provider has printed, up to the last whole line."""

    async def follow(self, turn: ChatTurn, chat: Chat) -> PromptResult:
        """Show a turn of a chat to its end, and ask what its calls ask. Raises `Refused`."""
        from toolcrib.cli.question_prompt import TerminalAnswers
        from toolcrib.runtime.messages import PromptResult

        answers = TerminalAnswers(chat)
        try:
            async for event in turn:
                if not isinstance(event, PromptResult):
                    self.show(event)
                    answers.take(event)
        finally:
            await answers.close()
        self.finish(turn.result.text)
        return turn.result

    def show(self, event: Event) -> None:
        """Show one event, if it is of interest to a person."""
        match event:
            case TextDelta(turn=turn, step=step, text=text, is_restart=is_restart):
                self._write(text, (turn, step), is_restart=is_restart)
            case PartialReply(turn=turn, step=step, text=text):
                self._write(text, (turn, step), is_restart=True)
            case ReasoningDelta():
                self._think(event)
            case HostedToolProgress():
                self._follow_hosted(event)
            case ToolInvoked():
                self._hosted.pop(event.call_id, None)
                self._note(*_invoked(event))
            case ToolProgress():
                self._note(_progress(event), "dim")
            case ToolOutput(tool=tool, chunk=chunk):
                self._note(f"{tool}: {_cut(chunk.rstrip())}", "dim")
            case ToolWithheld(tool=tool, reason=reason) | ToolUnavailable(tool=tool, reason=reason):
                self._note(f"{tool.name} is unavailable: {reason}", "yellow")
            case SessionToolsChanged(gone=gone, changed=changed):
                names = ", ".join(tool.name for tool in (*gone, *(each.old for each in changed)))
                self._note(f"tools gone or changed since the last time: {names}", "yellow")
            case _:
                pass

    def finish(self, text: str) -> None:
        """End the answer, and write it now if it was not streamed."""
        self._end_thought()
        if self._is_silent:
            return
        if self._written.strip() != text.strip():
            self._end_line()
            stream(text, self._out)
            self._written = text
        self._end_line()

    def _write(self, text: str, step: tuple[int, int], *, is_restart: bool) -> None:
        if self._is_silent or not text:
            return
        self._end_thought()
        if step != self._step or is_restart:
            # Text before a tool call is not part of the answer, nor what is void.
            self._end_line()
            self._step, self._written = step, ""
        stream(text, self._out)
        self._written += text

    def _think(self, piece: ReasoningDelta) -> None:
        """Show reasoning a paragraph at a time, when it is whole."""
        key = (piece.turn, piece.step, piece.index)
        if key != self._thought_key or piece.is_restart:
            self._end_thought()
            self._thought_key = key
        self._thought += piece.text

    def _end_thought(self) -> None:
        text, self._thought = self._thought.strip(), ""
        if text:
            self._note(f"thinks: {_cut(text)}", "dim")

    def _follow_hosted(self, event: HostedToolProgress) -> None:
        """Show what a call of the provider searches for, and what it prints, by lines."""
        for query in filter(None, (*event.queries, event.url)):
            self._note(f"{event.tool}: {_cut(query)}", "dim")
        if event.output:
            *lines, rest = (self._hosted.get(event.call_id, "") + event.output).split("\n")
            self._hosted[event.call_id] = rest
            for line in lines[:MAX_LINES]:
                self._note(f"{event.tool}: {_cut(line)}", "dim")

    def _note(self, text: str, style: str | None) -> None:
        self._end_thought()
        self._end_line()
        show_note(text, style)

    def _end_line(self) -> None:
        if self._written and not self._written.endswith("\n"):
            stream("\n", self._out)
            self._written += "\n"


def shown_call(name: str, arguments: Any) -> str:
    """A call on one line."""
    return f"{name} {_cut(json.dumps(arguments, ensure_ascii=False, default=str))}"


def _invoked(event: ToolInvoked) -> tuple[str, str | None]:
    """The line of a call that is over, and its style: a denial is no failure of the tool."""
    kind = event.failure.kind if event.failure else None
    word = end_word(is_success=event.success, failure_kind=kind)
    end = "->" if word == "ok" else f"{word}:"
    call, duration = shown_call(event.name, event.params), f"({event.duration_seconds:.2f} s)"
    style = None if word == "ok" else STATUS_STYLES[word]
    return f"{call} {end} {_cut(event.message)} {duration}", style


def _progress(event: ToolProgress) -> str:
    done = f"{event.current:g}" + (f" of {event.total:g}" if event.total is not None else "")
    return f"{event.tool}: {done}" + (f" {_cut(event.message)}" if event.message else "")


def _cut(text: str) -> str:
    line = " ".join(text.split("\n"))
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}..."

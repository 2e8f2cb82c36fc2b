"""An approval request as terminal text, in which no argument can move the cursor or pose as a
prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, assert_never

from toolcrib.terminal_text import columns_of, showable, wrap

if TYPE_CHECKING:
    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.tools.identity import Place

Emphasis = Callable[[str], str]

_BORDER = "| "
_NARROWEST = 20


def draw_panel(request: ApprovalRequest, width: int, emphasis: Emphasis = str) -> str:
    """Return the whole request as text, its first sentence with `emphasis`. The facts come last,
    next to the prompt, so that long arguments cannot push them off the screen.
    """
    sentence, *rest = _lines(request)
    heading = [emphasis(piece) for piece in _pieces(sentence, _room(width))]
    return _framed([*heading, *(p for line in rest for p in _pieces(line, _room(width)))], width)


def draw_arguments(arguments: Mapping[str, Any], width: int) -> str:
    """Return arguments as framed JSON, which cannot pose as a prompt either."""
    lines = shown_json(arguments).split("\n")
    return _framed([piece for line in lines for piece in _pieces(line, _room(width))], width)


def _room(width: int) -> int:
    return max(width, _NARROWEST) - len(_BORDER)


def _framed(pieces: list[str], width: int) -> str:
    rule = "+" + "-" * _room(width)
    return "\n".join([rule, *(f"{_BORDER}{piece}".rstrip() for piece in pieces), rule])


def shown_json(value: object) -> str:
    """Return indented JSON that is safe to print."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return "\n".join(showable(line) for line in text.split("\n"))


def _lines(request: ApprovalRequest) -> Iterator[str]:
    tool = request.tool
    yield f"{showable(tool.name)} wants to run {_where(tool.place)} with these arguments:"
    yield from shown_json(request.arguments).split("\n")
    yield ""
    for name, value in _facts(request).items():
        yield f"{name:<8} {showable(value)}"
    for change in request.changes:
        yield f"{'changed':<8} {showable(change)}"


def _facts(request: ApprovalRequest) -> Mapping[str, str]:
    tool = request.tool
    facts = {
        "tool": f"{tool.name}, version {tool.version}",
        "source": tool.source,
        "place": tool.place,
        "asker": request.caller.text(),
        "rule": request.rule,
        "why": request.reason,
    }
    if request.metadata:
        facts["details"] = _compact(request.metadata)
    if request.approvers:
        from toolcrib.approval.quorum import quorum_text

        facts["needs"] = " and ".join(map(quorum_text, request.approvers))
    if request.deadline is not None:
        from toolcrib.approval.duration import duration_text

        time = duration_text(max(0.0, request.deadline - request.created_at))
        facts["expires"] = f"{time} after it was asked; then it does not run"
    return facts


def _where(place: Place) -> str:
    match place:
        case "local":
            return "in this process"
        case "sandbox":
            return "in a sandbox"
        case "client":
            return "in the connected client"
        case "provider":
            return "on the model's platform"
    assert_never(place)


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _pieces(line: str, room: int) -> Iterator[str]:
    """Break a line at words, and a longer word at the width: a line that the terminal wraps would
    continue without a border. Nothing but one space is left out at a break.
    """
    for part in wrap(line, room, is_exact=True):
        piece, used = "", 0
        for character in part:
            taken = columns_of(character)
            if used + taken > room:
                yield piece
                piece, used = "", 0
            piece, used = piece + character, used + taken
        yield piece

"""A notice: what a notification is about, and its body for each kind of receiver."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, assert_never
from urllib.parse import quote

from pydantic_core import to_json

from toolcrib.logs import one_line

if TYPE_CHECKING:
    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.ledger.events import ToolInvoked
    from toolcrib.notifications.options import NotificationEvent, NotificationOptions

_TYPES: Final[dict[NotificationEvent, str]] = {
    "waiting": "approval.waiting",
    "expiring": "approval.expiring",
    "failed": "call.failed",
}
_LONGEST: Final = 200
_LONGEST_ARGUMENTS: Final = 2_000
_LONGEST_SLACK_TEXT: Final = 3_000
"""Slack refuses a message with a longer one, and so nobody would be told."""
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing to tell. The same thing has the same id, whoever tells it and however often."""

    event: NotificationEvent
    notice_id: str
    at: float
    tool: str
    session_id: str
    call_id: str
    principal: str | None = None
    approval_id: str | None = None
    rule: str | None = None
    deadline: float | None = None
    failure: str | None = None
    error: str | None = None
    """The class of the exception, if there was one."""
    arguments: Any = field(default=None, repr=False)
    """The redacted arguments, which go only to a receiver that is to have them."""


def waiting_notice(request: ApprovalRequest, event: NotificationEvent, at: float) -> Notice:
    """A request that waits, or is about to expire."""
    return Notice(
        event=event,
        notice_id=f"{request.approval_id}.{event}",
        at=at,
        tool=request.tool.name,
        session_id=request.session_id,
        call_id=request.call_id,
        principal=request.caller.principal,
        approval_id=request.approval_id,
        rule=request.rule,
        deadline=request.deadline,
        arguments=request.arguments,
    )


def failed_notice(event: ToolInvoked) -> Notice:
    """A call that failed."""
    failure = event.failure
    assert failure is not None, "a call that succeeded has not failed"
    return Notice(
        event="failed",
        notice_id=f"{event.session_id}.{event.call_id}.failed",
        at=event.at,
        tool=event.name,
        session_id=event.session_id,
        call_id=event.call_id,
        principal=event.principal,
        failure=failure.kind,
        error=failure.error_type,
        arguments=event.params,
    )


def sample_notice(event: NotificationEvent, at: float) -> Notice:
    """A notice about nothing, to try a webhook with."""
    is_failure = event == "failed"
    return Notice(
        event=event,
        notice_id=f"sample.{event}.{int(at)}",
        at=at,
        tool="sample_tool",
        session_id="sample",
        call_id="sample",
        principal="toolcrib notifications test",
        approval_id=None if is_failure else "apr_sample",
        rule=None if is_failure else "sample",
        deadline=at + 300 if event == "expiring" else None,
        failure="tool_error" if is_failure else None,
    )


def body_of(notice: Notice, options: NotificationOptions) -> bytes:
    """The body of the request that carries a notice."""
    match options.format:
        case "json":
            return to_json(_event(notice, options))
        case "slack":
            return to_json(_slack(notice, options))
        case "teams":
            return to_json(_teams(notice, options))
    assert_never(options.format)


def link_of(notice: Notice, options: NotificationOptions) -> str | None:
    """Where a person decides about this notice; None where nobody can decide."""
    if options.link is None or ("{approval_id}" in options.link and notice.approval_id is None):
        return None
    places = {
        "{approval_id}": notice.approval_id or "",
        "{session_id}": notice.session_id,
        "{call_id}": notice.call_id,
    }
    link = options.link
    for place, value in places.items():
        link = link.replace(place, quote(value, safe=""))
    return link


def _event(notice: Notice, options: NotificationOptions) -> dict[str, Any]:
    data = {
        "tool": notice.tool,
        "principal": notice.principal,
        "session_id": notice.session_id,
        "call_id": notice.call_id,
        "approval_id": notice.approval_id,
        "rule": notice.rule,
        "deadline": None if notice.deadline is None else _time(notice.deadline),
        "failure": notice.failure,
        "error": notice.error,
        "link": link_of(notice, options),
        "command": _command(notice),
        "arguments": notice.arguments if options.include_arguments else None,
    }
    return {
        "type": _TYPES[notice.event],
        "timestamp": _time(notice.at),
        "data": {key: value for key, value in data.items() if value is not None},
    }


def _slack(notice: Notice, options: NotificationOptions) -> dict[str, Any]:
    facts = [f"*{name}:* {_slack_text(value)}" for name, value in _facts(notice, options)]
    title = _slack_text(_title(notice))
    text = "\n".join(facts)[:_LONGEST_SLACK_TEXT]
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": f"*{title}*"}},
        {"type": "section", "text": {"type": "mrkdwn", "text": text}},
    ]
    if (link := link_of(notice, options)) is not None:
        button = {"type": "button", "text": {"type": "plain_text", "text": "Open"}, "url": link}
        blocks.append({"type": "actions", "elements": [button]})
    if (command := _command(notice)) is not None:
        note = {"type": "mrkdwn", "text": f"or run `{command}`"}
        blocks.append({"type": "context", "elements": [note]})
    return {"text": title, "blocks": blocks}


def _teams(notice: Notice, options: NotificationOptions) -> dict[str, Any]:
    facts = [
        {"title": name, "value": _MARKDOWN.sub(r"\\\1", value)}
        for name, value in _facts(notice, options)
    ]
    body: list[dict[str, Any]] = [
        {
            "type": "TextBlock",
            "size": "Medium",
            "weight": "Bolder",
            "wrap": True,
            "text": _MARKDOWN.sub(r"\\\1", _title(notice)),
        },
        {"type": "FactSet", "facts": facts},
    ]
    if (command := _command(notice)) is not None:
        text = _MARKDOWN.sub(r"\\\1", f"or run: {command}")
        body.append({"type": "TextBlock", "isSubtle": True, "wrap": True, "text": text})
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    }
    if (link := link_of(notice, options)) is not None:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open", "url": link}]
    kind = "application/vnd.microsoft.card.adaptive"
    attachment = {"contentType": kind, "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _title(notice: Notice) -> str:
    tool = _short(notice.tool)
    match notice.event:
        case "waiting":
            return f"{tool} waits for approval"
        case "expiring":
            return f"{tool} still waits for approval and expires soon"
        case "failed":
            return f"{tool} failed"
    assert_never(notice.event)


def _facts(notice: Notice, options: NotificationOptions) -> list[tuple[str, str]]:
    """What people read of a notice, in order."""
    deadline = None if notice.deadline is None else _time(notice.deadline)
    arguments = None
    if options.include_arguments and notice.arguments is not None:
        arguments = to_json(notice.arguments, inf_nan_mode="strings").decode()[:_LONGEST_ARGUMENTS]
    facts = (
        ("Asked by", notice.principal or "the host"),
        ("Why", notice.failure),
        ("Error", notice.error),
        ("Rule", notice.rule),
        ("Expires", deadline),
        ("Session", notice.session_id),
        ("Request", notice.approval_id or notice.call_id),
        ("Arguments", arguments),
    )
    longest = _LONGEST_ARGUMENTS
    return [(name, _short(value, longest)) for name, value in facts if value is not None]


def _command(notice: Notice) -> str | None:
    """How to look at the request from a terminal, before deciding it."""
    return notice.approval_id and f"toolcrib approvals show {notice.approval_id}"


def _short(text: str, longest: int = _LONGEST) -> str:
    return one_line(text)[:longest]


def _slack_text(text: str) -> str:
    """Text in which nothing is a mention, a link or markup."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An invisible joiner keeps a pair of signs from being markup.
    return re.sub(r"([*_~`])", "\u2060\\1", escaped)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

"""The options of notifications: where they go, what they are about, and how they are signed.

Every command that reads a project file imports this module, so it imports little.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

from toolcrib.errors import UsageError

NotificationEvent = Literal["waiting", "expiring", "failed"]
NotificationFormat = Literal["json", "slack", "teams"]

EVENTS: Final[tuple[NotificationEvent, ...]] = get_args(NotificationEvent)
FORMATS: Final[tuple[NotificationFormat, ...]] = get_args(NotificationFormat)
SECRET_PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = range(24, 65)
_PLACES: Final = frozenset(("approval_id", "session_id", "call_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationOptions:
    """A webhook that hears of calls that wait, are about to expire, or have failed."""

    url: str = field(repr=False)
    """Where to POST. It may hold a token, so it is shown nowhere."""
    events: Sequence[NotificationEvent] = EVENTS
    secret: bytes | None = field(default=None, repr=False)
    """What signs the requests, 24 to 64 bytes. Slack and Teams check no signature."""
    format: NotificationFormat = "json"
    link: str | None = None
    """Where a person decides, with {approval_id}, {session_id} or {call_id} in it."""
    include_arguments: bool = False
    """Whether the redacted arguments of a call are sent."""
    expiring_seconds: float = 300.0
    """How long before its deadline a request is about to expire."""

    def __post_init__(self) -> None:
        _check_url(self.url)
        _check_choices("event", self.events, EVENTS)
        _check_choices("format", (self.format,), FORMATS)
        if not self.events:
            raise UsageError(f"a notification about nothing; name events: {', '.join(EVENTS)}")
        if self.format == "json" and self.secret is None:
            raise UsageError(
                "a notification in JSON needs a secret, so that its receiver can tell it from a "
                "forged one; make one with: openssl rand -base64 32"
            )
        if self.secret is not None and len(self.secret) not in _SECRET_BYTES:
            raise UsageError("the secret of a notification has 24 to 64 bytes; make another one")
        if self.link is not None:
            _check_link(self.link)
        if self.expiring_seconds <= 0:
            raise UsageError("expiring_seconds must be more than 0")

    @property
    def place(self) -> str:
        """The host of the URL, to name the webhook in a log."""
        from urllib.parse import urlsplit

        return urlsplit(self.url).hostname or "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSource:
    """A notification as a file or a command line describes it: secrets by their places."""

    url: str | None = field(default=None, repr=False)
    url_env: str | None = None
    url_file: Path | None = None
    events: Sequence[NotificationEvent] = EVENTS
    secret_env: str | None = None
    secret_file: Path | None = None
    format: NotificationFormat = "json"
    link: str | None = None
    include_arguments: bool = False
    expiring_seconds: float = 300.0

    def read(self, environ: Mapping[str, str] | None = None) -> NotificationOptions:
        """Read the URL and the secret from their places. Raises `UsageError`."""
        environ = os.environ if environ is None else environ
        places = (self.url, self.url_env, self.url_file)
        if sum(place is not None for place in places) != 1:
            raise UsageError("a notification has one of url, url_env and url_file")
        if self.secret_env is not None and self.secret_file is not None:
            raise UsageError("a notification has secret_env or secret_file, not both")
        url = self.url or _value("url", self.url_env, self.url_file, environ)
        secret = None
        if self.secret_env is not None or self.secret_file is not None:
            secret = read_secret(_value("secret", self.secret_env, self.secret_file, environ))
        return NotificationOptions(
            url=url,
            events=self.events,
            secret=secret,
            format=self.format,
            link=self.link,
            include_arguments=self.include_arguments,
            expiring_seconds=self.expiring_seconds,
        )


def read_secret(text: str) -> bytes:
    """The bytes of a secret in base64, with or without `whsec_` before it. Raises `UsageError`."""
    import base64
    import binascii

    try:
        return base64.b64decode(text.strip().removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(
            "the secret of a notification is not base64; make one with: openssl rand -base64 32"
        ) from None


def _value(what: str, variable: str | None, file: Path | None, environ: Mapping[str, str]) -> str:
    if variable is not None:
        value = environ.get(variable, "")
        place = f"the variable {variable}"
    else:
        assert file is not None, "one of the places is set"
        place = str(file)
        try:
            value = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise UsageError(f"{what} of a notification: {file} cannot be read: {reason}") from None
    if not value.strip():
        raise UsageError(f"{what} of a notification: {place} is empty or not set")
    return value.strip()


def _check_url(url: str) -> None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        parts, is_valid = None, False
    if parts is None or not is_valid:
        raise UsageError("the url of a notification is no http or https address")
    if "@" in parts.netloc:
        raise UsageError(
            "the url of a notification has a user or a password before the host, which would not "
            "be sent; leave it out, since the signature says who sends"
        )


def _check_choices(what: str, values: Sequence[str], choices: Sequence[str]) -> None:
    for value in values:
        if value not in choices:
            raise UsageError(
                f"{what} {value!r} of a notification is unknown; choose from {', '.join(choices)}"
            )


def _check_link(link: str) -> None:
    if not link.startswith(("http://", "https://")):
        raise UsageError("the link of a notification must start with https:// or http://")
    unknown = set(re.findall(r"{([^}]*)}", link)) - _PLACES
    if unknown:
        names = ", ".join(sorted(unknown))
        raise UsageError(
            f"the link of a notification knows no {{{names}}}; it knows {{approval_id}}, "
            "{session_id} and {call_id}"
        )

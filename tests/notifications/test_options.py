"""Options of notifications: what is refused, where secrets come from, and that none is shown."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from toolcrib.errors import UsageError
from toolcrib.notifications import NotificationOptions, NotificationSource
from toolcrib.notifications.options import read_secret

SECRET = bytes(range(32))
TEXT = base64.b64encode(SECRET).decode()
URL = "https://hooks.example/services/T000/very-secret-path"


def test_json_needs_a_secret() -> None:
    """A receiver could not tell an unsigned notification from a forged one."""
    with pytest.raises(UsageError, match="needs a secret"):
        NotificationOptions(url=URL)

    assert NotificationOptions(url=URL, format="slack").secret is None


def test_nothing_secret_is_shown() -> None:
    """The URL of a Slack webhook is a credential; so is the key."""
    options = NotificationOptions(url=URL, secret=SECRET)

    assert "very-secret" not in repr(options)
    assert "secret=" not in repr(options)
    assert options.place == "hooks.example"
    assert "very-secret" not in repr(NotificationSource(url=URL))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"url": "ftp://a.example"}, "no http or https"),
        ({"url": "https://"}, "no http or https"),
        ({"url": "https://a.example:port"}, "no http or https"),
        ({"url": "https://user:word@a.example"}, "a user or a password"),
        ({"events": ("waitng",)}, "choose from waiting"),
        ({"events": ()}, "about nothing"),
        ({"format": "mail"}, "choose from json"),
        ({"secret": b"short"}, "24 to 64 bytes"),
        ({"link": "javascript:alert(1)"}, "must start with https"),
        ({"link": "https://a.example/{aproval}"}, "knows no {aproval}"),
        ({"expiring_seconds": 0}, "more than 0"),
    ],
)
def test_a_fault_is_told(changes: dict[str, object], fault: str) -> None:
    """Every fault is found when the options are made, not when a call waits."""
    with pytest.raises(UsageError, match=fault):
        NotificationOptions(**{"url": URL, "secret": SECRET, **changes})  # pyright: ignore[reportArgumentType]


def test_secrets_come_from_places(tmp_path: Path) -> None:
    """A variable or a file holds the URL and the secret, in base64, with or without whsec_."""
    file = tmp_path / "secret"
    file.write_text(f"whsec_{TEXT}\n")
    source = NotificationSource(url_env="HOOK", secret_file=file)

    options = source.read({"HOOK": f"{URL}\n"})

    assert (options.url, options.secret) == (URL, SECRET)
    assert read_secret(TEXT) == SECRET


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (NotificationSource(), "one of url, url_env and url_file"),
        (NotificationSource(url=URL, url_env="A"), "one of url"),
        (NotificationSource(url_env="MISSING"), "MISSING is empty or not set"),
        (NotificationSource(url=URL, secret_file=Path("/nowhere")), "/nowhere cannot be read"),
        (NotificationSource(url=URL, secret_env="A", secret_file=Path("/b")), "not both"),
        (NotificationSource(url=URL, secret_env="BAD"), "is not base64"),
    ],
)
def test_a_missing_place_is_told(source: NotificationSource, fault: str) -> None:
    """The message names the place and repeats no secret."""
    with pytest.raises(UsageError, match=fault) as raised:
        source.read({"BAD": "not base64 at all!"})

    assert "not base64 at all" not in str(raised.value)

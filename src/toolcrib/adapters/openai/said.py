"""What went wrong, in the provider's words."""

from __future__ import annotations

from typing import Any

from toolcrib.adapters.items import plain, text_of
from toolcrib.adapters.openai.retry import asked_pause


def said(error: Exception, client: Any) -> str:
    """What an error of the SDK says, without the client's key: servers between us and the provider
    may repeat what they were sent.
    """
    key = getattr(client, "api_key", None)
    text = _told(error)
    return text.replace(key, "[secret]") if isinstance(key, str) and key else text


def is_expired_container(status: int | None, message: str) -> bool:
    """Whether an error says that a container has expired. There is no code for it, only words."""
    lower = message.lower()
    return status in (400, 404) and "container" in lower and "expired" in lower


def _told(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    body = plain(getattr(error, "body", None))
    text = text_of(body, "message") or str(error) or type(error).__name__
    text = ": ".join(filter(None, (text_of(body, "code"), text)))
    if is_expired_container(status, text):
        text += (
            " The container is gone and so are its files; use a new one (AutoContainer, or "
            "create_container), and drop replayed calls that ran in it."
        )
    asked = asked_pause(error)
    if asked:
        text += f" It asks to wait {asked:g} seconds."
    return f"HTTP {status}: {text}" if status else text

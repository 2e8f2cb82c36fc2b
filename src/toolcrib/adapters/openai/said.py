"""What went wrong, in the provider's words."""

from __future__ import annotations

import re
from typing import Any, Final

from toolcrib.adapters.items import plain, text_of
from toolcrib.adapters.openai.retry import asked_pause

WHAT_TO_DO: Final = (
    " The container is gone and so are its files; use a new one (AutoContainer, create_container "
    "or renew_container). What ran in it can only be replayed as text: an adapter with "
    "history='client' does so."
)
_GONE: Final = re.compile(r"\bcontainer\b[^.{}]{0,120}\b(?:expired|not found)\b", re.IGNORECASE)


def said(error: Exception, client: Any) -> str:
    """What an error of the SDK says, without the client's key: servers between us and the provider
    may repeat what they were sent.
    """
    key = getattr(client, "api_key", None)
    text = _told(error)
    return text.replace(key, "[secret]") if isinstance(key, str) and key else text


def is_container_gone(error: Exception) -> bool:
    """Whether an error says that a container is no more. There is no code for it, only words."""
    is_refusal = getattr(error, "status_code", None) in (400, 404)
    return is_refusal and _GONE.search(str(error)) is not None


def _told(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    body = plain(getattr(error, "body", None))
    text = text_of(body, "message") or str(error) or type(error).__name__
    text = ": ".join(filter(None, (text_of(body, "code"), text)))
    if is_container_gone(error):
        text += WHAT_TO_DO
    asked = asked_pause(error)
    if asked:
        text += f" It asks to wait {asked:g} seconds."
    return f"HTTP {status}: {text}" if status else text

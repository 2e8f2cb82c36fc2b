"""What may be the id of a session."""

from __future__ import annotations

from toolcrib.errors import UsageError


def check_session_id(session_id: str) -> str:
    """Refuse ids that could be mistaken for something else on a wire or in a head."""
    if (
        not session_id
        or len(session_id) > 128
        or not all(char.isascii() and (char.isalnum() or char in "_.:-") for char in session_id)
    ):
        raise UsageError(
            f"{session_id!r} is not a session id; use 1 to 128 letters, digits, '_', '.', ':', '-'"
        )
    return session_id

"""What goes wrong on the way to a model, and whether it is worth another try."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_HTTP_LIBRARIES: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "grpc"})
_PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})
# By name, because older versions of pydantic-ai have fewer of them.
_FINAL: Final = frozenset(
    {"ContentFilterError", "ModelQuotaExceededError", "ModelRequestRejectedError"}
)
_REQUEST_IDS: Final = ("request-id", "x-request-id", "x-amzn-requestid", "apim-request-id")


class ReplyBroken(Exception):
    """The reply ended too soon. Never leaves the adapter."""


def is_passing(error: Exception) -> bool:
    """Whether the same request may well be answered next time."""
    # Of models that take each other's place, one that recovers is enough.
    return any(_is_passing(each) for each in _each(error))


def asked_pause(error: Exception) -> float | None:
    """The seconds that the provider asks to wait; None when it does not say."""
    asked = [getattr(each, "retry_after", None) for each in _each(error)]
    return max((each for each in asked if isinstance(each, int | float)), default=None)


def request_id_of(error: Exception) -> str | None:
    """The provider's id of the request that failed; None when it is not told."""
    for each in _each(error):
        headers: Any = getattr(each, "headers", None) or {}
        ids: list[Any] = [headers.get(name) for name in _REQUEST_IDS]
        ids.append(getattr(each.__cause__, "request_id", None))
        for found in ids:
            if isinstance(found, str) and found:
                return found
    return None


def explained(error: Exception) -> str:
    """What went wrong, in the words of whoever noticed."""
    told = "; ".join(dict.fromkeys(_said(each) for each in _each(error)))
    asked = asked_pause(error)
    return f"{told} It asks to wait {asked:g} seconds." if asked else told


def is_unsent(error: Exception) -> bool:
    """Whether pydantic-ai refused to make the request: nothing was sent."""
    from pydantic_ai.exceptions import UserError

    return isinstance(error, UserError | NotImplementedError)


def _said(error: Exception) -> str:
    from pydantic_ai.exceptions import AgentRunError

    if isinstance(error, ReplyBroken):
        return str(error)
    if is_unsent(error):
        return f"the model cannot be asked this: {error}"
    if isinstance(error, AgentRunError) or _is_of_http(error):
        return f"the provider did not answer: {str(error) or type(error).__name__}"
    # Whatever this is, pydantic-ai did not foresee it.
    return (
        f"the request could not be made, or the reply not be read: {type(error).__name__}: {error}"
    )


def _is_passing(error: Exception) -> bool:
    hint = getattr(error, "provider_retry_hint", None)
    if isinstance(hint, bool):
        return hint
    if _is_final(error):
        return False
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in _PASSING_STATUSES or status >= 500
    # Of what comes in a stream only the code says more; one that nobody knows would come again.
    if getattr(error, "provider_error_code", None) and type(error).__name__ == "ModelAPIError":
        return False
    return isinstance(error, ReplyBroken) or _is_lost(error)


def _is_final(error: Exception) -> bool:
    """Whether the provider, or pydantic-ai in its place, would say the same again."""
    return not _FINAL.isdisjoint(each.__name__ for each in type(error).__mro__)


def _is_lost(error: Exception) -> bool:
    """Whether there was no reply, or none that could be read. A line that is lost in the middle of
    a stream may come up as the HTTP library's own error.
    """
    from pydantic_ai import exceptions

    unread = (exceptions.ModelAPIError, exceptions.UnexpectedModelBehavior)
    return isinstance(error, unread) or _is_of_http(error)


def _is_of_http(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in _HTTP_LIBRARIES


def _each(error: Exception) -> Iterator[Exception]:
    """An error; of several together, every one."""
    members: tuple[Exception, ...] | None = getattr(error, "exceptions", None)
    if members is None:
        yield error
        return
    for each in members:
        yield from _each(each)

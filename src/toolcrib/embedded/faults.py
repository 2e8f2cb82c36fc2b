"""What the provider answers when it will not do something."""

from __future__ import annotations

from typing import Any


class ApiFault(Exception):
    """An error in the form that clients of the Responses API expect."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.code = code
        self.param = param

    @property
    def body(self) -> dict[str, Any]:
        """The answer's JSON."""
        error = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }
        return {"error": error}


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiFault:
    """The request cannot be done as it is."""
    return ApiFault(400, message, param=param, code=code)


def missing(what: str, found: str, param: str | None = None) -> ApiFault:
    """There is nothing of this id."""
    return ApiFault(404, f"{what} with id '{found[:80]}' not found.", param=param)

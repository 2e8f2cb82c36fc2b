"""Facts to and from the JSON that a database keeps."""

from __future__ import annotations

import base64
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import from_json, to_json

from toolcrib.approval.decision import ApprovalRequest, Approve, Ballot, Decided
from toolcrib.errors import StoreError
from toolcrib.store.store import OpenCall

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from toolcrib.approval.grant import Grant

T = TypeVar("T")


@cache
def _adapter(fact: type[Any]) -> TypeAdapter[Any]:
    # Imported on first use: most programs in memory never read a stored fact.
    from pydantic import TypeAdapter

    return TypeAdapter(fact)


def _decode(fact: type[T], data: bytes) -> T:
    try:
        return _adapter(fact).validate_json(data)
    except ValueError:
        # What pydantic says quotes the data, and the data may hold a secret.
        raise StoreError(
            f"a stored {fact.__name__} cannot be read; the file is damaged or a newer version of "
            "Toolcrib wrote it"
        ) from None


def encode(fact: ApprovalRequest | Ballot | Decided | Grant | OpenCall) -> bytes:
    """A fact as JSON."""
    return _adapter(type(fact)).dump_json(fact)


def decode_request(data: bytes) -> ApprovalRequest:
    """Read a request back."""
    return _decode(ApprovalRequest, data)


def decode_decided(data: bytes) -> Decided:
    """Read a decision back."""
    return _decode(Decided, data)


def take_out_edit(decided: Decided) -> tuple[Decided, bytes | None]:
    """A decision whose edited arguments are emptied, and those arguments; None when unedited."""
    match decided.decision:
        case Approve(arguments=dict(edited)):
            emptied = replace(decided, decision=replace(decided.decision, arguments={}))
            return emptied, to_json(edited)
        case _:
            return decided, None


def put_back_edit(decided: Decided, edited: bytes) -> Decided:
    """Undo `take_out_edit`."""
    return replace(decided, decision=Approve(from_json(edited)))


def decode_ballot(data: bytes) -> Ballot:
    """Read votes back."""
    return _decode(Ballot, data)


def take_out_vote(ballot: Ballot) -> tuple[Ballot, bytes | None]:
    """A ballot whose edited arguments are emptied, and those arguments; None when unedited."""
    edited = ballot.approval.arguments
    if edited is None:
        return ballot, None
    return replace(ballot, approval=Approve({})), to_json(edited)


def put_back_vote(ballot: Ballot, edited: bytes) -> Ballot:
    """Undo `take_out_vote`."""
    return replace(ballot, approval=Approve(from_json(edited)))


def decode_grant(data: bytes) -> Grant:
    """Read a grant back."""
    from toolcrib.approval.grant import Grant

    return _decode(Grant, data)


def decode_open_call(data: bytes) -> OpenCall:
    """Read an open call back."""
    return _decode(OpenCall, data)


def encode_settings(settings: dict[str, Any]) -> bytes:
    """A session's settings as JSON."""
    return to_json(settings)


def decode_settings(data: bytes) -> dict[str, Any]:
    """Read settings back."""
    return _decode(dict[str, Any], data)


_LEAST_PACKED = 16_384


def packed_artifact(text: str) -> str | bytes:
    """An artifact as its row has it: a long base64 text, such as a picture, as the bytes that it
    stands for.
    """
    if len(text) < _LEAST_PACKED or not text.isascii():
        return text
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return text
    return data if unpacked_artifact(data) == text else text


def unpacked_artifact(row: str | bytes) -> str:
    """The artifact of a row."""
    return row if isinstance(row, str) else base64.b64encode(row).decode()

"""Edited arguments: whether they may stand in the place of the frozen ones.

An approver sees `[secret]` where a secret is. A secret typed into an edit would enter the record
of the decision, so secrets stay as shown and the real ones are put back when the call runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json

from toolcrib.errors import InvalidDecision
from toolcrib.tools.secrets import SECRET

if TYPE_CHECKING:
    from toolcrib.approval.request import ApprovalRequest
    from toolcrib.calls.failure import Fault


def check_edit(request: ApprovalRequest, edited: dict[str, Any]) -> None:
    """Raise `InvalidDecision` unless `edited` fits the tool's schema and leaves secrets alone."""
    shown = set(_secret_pointers(request.arguments))
    kept = set(_secret_pointers(edited))
    if not kept <= shown or any(_is_given(edited, at) for at in shown - kept):
        raise InvalidDecision(
            "an edit may not change a secret; leave it as '[secret]' where it is, or deny the call"
        )
    faults = [fault for fault in _faults(request, edited) if fault.pointer not in kept]
    if faults:
        lines = "; ".join(f"{fault.pointer or '/'}: {fault.message}" for fault in faults)
        raise InvalidDecision(
            f"the edited arguments of {request.tool.name!r} are not valid: {lines}"
        )


def restore_secrets(edited: Any, original: Any) -> Any:
    """`edited` with the real secrets in the places that show `[secret]`."""
    if isinstance(edited, str):
        return original if edited == SECRET else edited
    if isinstance(edited, dict) and isinstance(original, dict):
        known = cast("dict[str, Any]", original)
        members = cast("dict[str, Any]", edited).items()
        return {key: restore_secrets(value, known.get(key)) for key, value in members}
    if isinstance(edited, list) and isinstance(original, list):
        pairs = zip(cast("list[Any]", edited), _padded(cast("list[Any]", original)), strict=False)
        return [restore_secrets(value, known) for value, known in pairs]
    return cast("Any", edited)


def _padded(values: list[Any]) -> Iterator[Any]:
    yield from values
    while True:
        yield None


def _faults(request: ApprovalRequest, edited: dict[str, Any]) -> tuple[Fault, ...]:
    from toolcrib.tools.params import params_of_schema

    params = params_of_schema(request.tool.name, request.parameters)
    try:
        params.parse(to_json(edited))
    except ValueError as error:
        return params.faults(error)
    return ()


def _secret_pointers(value: Any, at: str = "") -> Iterator[str]:
    if value == SECRET:
        yield at
    elif isinstance(value, dict):
        for key, member in cast("dict[str, Any]", value).items():
            escaped = key.replace("~", "~0").replace("/", "~1")
            yield from _secret_pointers(member, f"{at}/{escaped}")
    elif isinstance(value, list):
        for index, element in enumerate(cast("list[Any]", value)):
            yield from _secret_pointers(element, f"{at}/{index}")


def _is_given(arguments: Any, pointer: str) -> bool:
    """Whether there is anything at `pointer`; leaving an optional secret out is no change to it."""
    found = arguments
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = cast("dict[str, Any]", found)[key]
        elif isinstance(found, list) and key.isdigit() and int(key) < len(cast("list[Any]", found)):
            found = cast("list[Any]", found)[int(key)]
        else:
            return False
    return True

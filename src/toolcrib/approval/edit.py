"""Edited arguments: whether they may stand in the place of the frozen ones.

An approver sees `[secret]` where a secret is. A secret typed into an edit would enter the record
of the decision, so secrets stay as shown and the real ones are put back when the call runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json

from toolcrib.errors import InvalidDecision, InvalidTool
from toolcrib.tools.argument_names import ArgumentNames
from toolcrib.tools.faults import pointer_of
from toolcrib.tools.redaction import redactor_of
from toolcrib.tools.secrets import SECRET

if TYPE_CHECKING:
    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.failures import Fault


def check_edit(request: ApprovalRequest, edited: dict[str, Any]) -> None:
    """Raise `InvalidDecision` unless `edited` fits the tool's schema and changes no secret."""
    if request.argument_names:
        names = ArgumentNames(request.parameters, request.argument_names)
        edited = names.respell(edited, names.shape)
    if not _keeps_secrets(request.arguments, edited):
        raise _secret_changed()
    secret_pointers = set(_secret_pointers(edited))
    faults = [fault for fault in _faults(request, edited) if fault.pointer not in secret_pointers]
    if faults:
        lines = "; ".join(f"{fault.pointer or '/'}: {fault.message}" for fault in faults)
        invalid = InvalidDecision(
            f"the edited arguments of {request.tool.name!r} are not valid: {lines}"
        )
        invalid.faults = tuple(faults)
        raise invalid
    redactor = redactor_of(request.parameters)
    if redactor is not None and redactor.redact(edited) != edited:
        raise _secret_changed()


def _secret_changed() -> InvalidDecision:
    return InvalidDecision(
        "an edit may neither change nor add a secret, nor a list that holds one; leave '[secret]' "
        "where it is, or deny the call"
    )


def _keeps_secrets(shown: Any, edited: Any) -> bool:
    """Whether every `[secret]` in `edited` is where it was shown, and none was replaced.

    Omitting an optional argument does not change it. In a list only the position identifies a
    secret, so a list that contains one must stay unchanged.
    """
    if isinstance(shown, dict) and isinstance(edited, dict):
        known = cast("dict[str, Any]", shown)
        members = cast("dict[str, Any]", edited).items()
        return all(_keeps_secrets(known.get(key), member) for key, member in members)
    return shown == edited or not (_holds_secret(shown) or _holds_secret(edited))


def restore_secrets(edited: Any, original: Any) -> Any:
    """Return `edited`, which `check_edit` accepted, with the real secrets put back."""
    if isinstance(edited, str):
        return original if edited == SECRET else edited
    if isinstance(edited, dict) and isinstance(original, dict):
        known = cast("dict[str, Any]", original)
        members = cast("dict[str, Any]", edited).items()
        return {key: restore_secrets(value, known.get(key)) for key, value in members}
    if isinstance(edited, list) and isinstance(original, list) and _holds_secret(edited):
        pairs = zip(cast("list[Any]", edited), cast("list[Any]", original), strict=True)
        return [restore_secrets(value, known) for value, known in pairs]
    return cast("Any", edited)


def changed_unseen(shown: Any, edited: Any, result: Any, at: str = "") -> str | None:
    """Return where validation of an edit changed what the approver had left as shown, if it did."""
    if to_json(shown) == to_json(edited):
        return None if to_json(result) == to_json(shown) else at or "/"
    pairs: Iterable[tuple[Any, Any, Any, Any]] = ()
    match shown, edited, result:
        case {**before}, {**after}, {**final}:
            both = [key for key in before if key in after]
            pairs = ((key, before[key], after[key], final.get(key)) for key in both)
        case [*before], [*after], [*final] if len(before) == len(after) == len(final):
            pairs = zip(range(len(before)), before, after, final, strict=True)
        case _:
            pass
    changed = (changed_unseen(*values, at=f"{at}{pointer_of([key])}") for key, *values in pairs)
    return next((pointer for pointer in changed if pointer is not None), None)


def _faults(request: ApprovalRequest, edited: dict[str, Any]) -> tuple[Fault, ...]:
    from toolcrib.tools.params import params_of_schema

    name, schema = request.tool.name, request.parameters
    try:
        params = params_of_schema(name, schema, is_foreign=True)
    except InvalidTool:
        # Only a schema of the host is taken without a bound.
        params = params_of_schema(name, schema)
    try:
        params.parse(to_json(edited))
    except ValueError as error:
        return params.faults(error)
    return ()


def _holds_secret(value: Any) -> bool:
    return next(_secret_pointers(value), None) is not None


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

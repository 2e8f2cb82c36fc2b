"""The mark for an argument that must never be written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

SECRET = "[secret]"
"""What stands in a record where a secret was."""


class Secret:
    """Marks an argument as secret: `token: Annotated[str, Secret()]`.

    The handler gets the value; ledger, events, logs and approval requests get `[secret]`. In the
    JSON Schema it is `writeOnly`, which is also how a host tool marks a secret of its own.
    """

    __slots__ = ()

    # A class method, so that `Annotated[str, Secret]` without the call is not silently ignored.
    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "writeOnly": True}

    def __repr__(self) -> str:
        return "Secret()"


def is_secret(schema: Any) -> bool:
    """Whether a JSON Schema says that its value is secret."""
    if not isinstance(schema, dict):
        return False
    node = cast("dict[str, Any]", schema)
    return node.get("writeOnly") is True or node.get("format") == "password"

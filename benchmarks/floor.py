"""The least that a validated call can cost: pydantic-core in, await, pydantic-core out."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NotRequired

from harness import Call, Variant
from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict
from workload import Filter, Reply, search


class SearchArguments(TypedDict):
    """The arguments of the tool, by hand."""

    query: str
    limit: int
    tags: list[str]
    filter: Filter
    threshold: NotRequired[float]


_validate_json = TypeAdapter(SearchArguments).validator.validate_json
_to_json = TypeAdapter(Reply).serializer.to_json


async def _call(payload: bytes) -> str:
    arguments: SearchArguments = _validate_json(payload)
    return _to_json(await search(**arguments)).decode()


def call_of(function: Callable[..., Awaitable[Reply]]) -> Call:
    """The floor of another function with the same arguments."""

    async def call(payload: bytes) -> str:
        arguments: SearchArguments = _validate_json(payload)
        return _to_json(await function(**arguments)).decode()

    return call


async def _pre(arguments: SearchArguments) -> SearchArguments:
    return arguments


async def _post(reply: Reply) -> Reply:
    return reply


async def _hooked_call(payload: bytes) -> str:
    arguments = await _pre(_validate_json(payload))
    return _to_json(await _post(await search(**arguments))).decode()


FLOOR = Variant("floor", "validate_json, await, to_json", _call, governed=False)
HOOKED_FLOOR = Variant("floor", "the same and two async hooks", _hooked_call, governed=False)


def register(functions: list[Callable[..., Awaitable[Any]]]) -> int:
    """Build the validator and the JSON Schema of each function by hand; how many were built."""
    return len([_schema(function) for function in functions])


def _schema(function: Callable[..., Awaitable[Any]]) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    hints = function.__annotations__
    fields: dict[str, Any] = {name: hints[name] for name in ("query", "limit", "tags", "filter")}
    fields["threshold"] = NotRequired[Annotated[float, Field(default=0.5)]]
    arguments: Any = TypedDict(function.__name__, fields)  # pyright: ignore[reportArgumentType]
    arguments.__pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    adapter: TypeAdapter[Any] = TypeAdapter(arguments)
    return adapter, adapter.json_schema()

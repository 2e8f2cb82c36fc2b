"""The program that calls one handler in a sandbox, with JSON in and out.

It runs as a file of its own and imports nothing of this package, which may not be readable there.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from importlib.machinery import ModuleSpec

# Imports that are not always needed are local: every call waits for this program to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any, NoReturn

ANSWER = ".toolcrib-answer"


class Context:
    """The context of a sandboxed handler: facts about its call, no access to the program."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.session_id: str = facts["session_id"]
        self.call_id = self.tool_call_id = facts["call_id"]
        self.tool_name: str = facts["tool_name"]
        self.idempotency_key: str = facts["idempotency_key"]
        self.tool_call_approved: bool = facts["tool_call_approved"]
        self.turn: int = facts["turn"]
        self.cwd = os.getcwd()
        self.environment = dict(os.environ)
        self.metadata: dict[str, Any] = {}
        self.deadline = self.deps = self.session = self.bus = None

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("a sandboxed handler cannot call tools or emit events")

    call_tool = progress = output = emit = _refuse


class ModuleFinder:
    """Finds the modules of the request, whose folders may not be listed."""

    def __init__(self, modules: dict[str, str]) -> None:
        self._modules = modules

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._modules.get(name)
        if file is None:
            return None
        if os.path.isdir(file):
            namespace = ModuleSpec(name, None, is_package=True)
            namespace.submodule_search_locations = [file]
            return namespace
        is_package = os.path.basename(file) == "__init__.py"
        folders = [os.path.dirname(file)] if is_package else None
        return importlib.util.spec_from_file_location(
            name, file, submodule_search_locations=folders
        )


def main() -> None:
    """Read a call from stdin and write its answer to a file: stdout is the handler's."""
    request: dict[str, Any] = json.load(sys.stdin)
    place = os.path.join(os.getcwd(), ANSWER)
    sys.path[:] = [*sys.path[1:], *request["path"]]
    sys.meta_path.append(ModuleFinder(request["modules"]))
    try:
        answer = json.dumps(_call(request), default=_plain)
    except BaseException as error:
        answer = json.dumps({"error": _describe(error)})
    # A handler may have created a link there; it is not followed.
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(answer)
    # Without waiting for threads and exit functions that the handler left.
    os._exit(0)


def _call(request: dict[str, Any]) -> dict[str, Any]:
    handler: Any = importlib.import_module(request["module"])
    for part in request["function"].split("."):
        handler = getattr(handler, part)
    value = handler(request["input"], Context(request["context"]))
    if hasattr(value, "__await__"):
        import asyncio

        value = asyncio.run(_awaited(value))
    if type(value).__module__ == "toolcrib.tools.result":
        result = {name: getattr(value, name) for name in ("value", "message", "success")}
        return {"result": {**result, "metadata": dict(value.metadata)}}
    return {"value": value}


async def _awaited(value: Any) -> Any:
    return await value


def _plain(value: Any) -> Any:
    """A value that is not JSON, in the form that the program itself would give it."""
    plain: Any = importlib.import_module("pydantic_core").to_jsonable_python
    return plain(value)


def _describe(error: BaseException) -> dict[str, str]:
    import traceback

    return {
        "type": type(error).__name__,
        "module": type(error).__module__,
        "message": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }


if __name__ == "__main__":
    main()

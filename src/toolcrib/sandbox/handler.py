"""A handler that runs in a confined process of its own, once for each call.

Which function a confined process calls, and which files it needs to find it.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import InvalidTool, ModelRetry, SandboxedToolFailed, ToolTimeout
from toolcrib.sandbox.command import Command
from toolcrib.sandbox.detection import find_sandbox
from toolcrib.sandbox.python import find_python, library_folders
from toolcrib.sandbox.work_directory import WorkDirectory

if TYPE_CHECKING:
    from toolcrib.sandbox.command import BackendName, CommandResult, SandboxOptions
    from toolcrib.tools.context import ToolContext


@dataclass(frozen=True, slots=True)
class HandlerTarget:
    """A function by its address. `modules` are the files (or folders without one) of modules by
    name, outside of where libraries are installed.
    """

    module: str
    function: str
    modules: dict[str, str]

    @property
    def readable(self) -> tuple[Path, ...]:
        """What has to be seen of the machine to import it: a module, or a package as a whole."""
        files = [Path(file) for file in self.modules.values() if os.path.isfile(file)]
        return tuple(file.parent if file.name == "__init__.py" else file for file in files)


def target_of(handler: Callable[..., Any], tool: str) -> HandlerTarget:
    """The address of a handler. Raises `InvalidTool` for one that another process cannot import."""
    module: str = getattr(handler, "__module__", "") or ""
    function: str = getattr(handler, "__qualname__", "") or ""
    if module in ("", "__main__") or not function or _at(module, function) is not handler:
        raise InvalidTool(
            f"tool {tool!r}: a handler in a sandbox must be a function of a module, so that "
            "another process can import it; move it to the top of a module"
        )
    return HandlerTarget(module, function, {**_outside(module), **_outside("toolcrib")})


def _at(module: str, function: str) -> object:
    found: Any = sys.modules.get(module)
    for part in function.split("."):
        found = getattr(found, part, None)
    return found


def _outside(module: str) -> dict[str, str]:
    """The files to find a module by, when it is not among the installed libraries: its topmost
    package, and the bare folders above that.
    """
    found: dict[str, str] = {}
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        spec = importlib.util.find_spec(name)
        if spec is None:
            return found
        if spec.origin is None and spec.submodule_search_locations:
            found[name] = next(iter(spec.submodule_search_locations))
        elif spec.origin and os.path.isfile(spec.origin) and not _is_installed(Path(spec.origin)):
            return {**found, name: spec.origin}
        else:
            return {}
    return found


def _is_installed(file: Path) -> bool:
    return any(file.is_relative_to(folder) for folder in library_folders())


_CHILD: Final = Path(__file__).with_name("child.py")
_ANSWER: Final = ".toolcrib-answer"

_WHY: Final = {
    "memory": "it used more memory than the {memory_bytes} bytes that it may",
    "output": "it printed more than the {output_bytes} bytes that it may",
    "disk": "it wrote more than the {work_bytes} bytes that it may",
    "closed": "it was stopped",
}


class SandboxedHandler:
    """Stands for a handler `module:function` that takes the input and a context. Each call is a
    new process, which ends with the call.
    """

    place: Final = "sandbox"

    def __init__(self, handler: Callable[..., Any], options: SandboxOptions, tool: str) -> None:
        self.options = options
        self._tool = tool
        self._target = target_of(handler, tool)
        self.__doc__ = handler.__doc__

    async def __call__(self, input: dict[str, Any], context: ToolContext) -> Any:
        """Run the function elsewhere and give what it gave."""
        sandbox = await find_sandbox(allow_unconfined=self.options.allow_unconfined)
        if context.binding is not None:
            context.emit(f"tool.{self._tool}.confined", {"backend": sandbox.backend})
        with WorkDirectory.temporary() as work:
            command = self._command(sandbox.backend, work)
            request = json.dumps(self._request(input, context)).encode()
            finished = await sandbox.run(command, stdin=request, work=work)
            return self._value(finished, _answer(work, self.options.limits.output_bytes))

    def _command(self, backend: BackendName, work: WorkDirectory) -> Command:
        python = find_python()
        given = (_CHILD, *library_folders(), *self._target.readable, *self.options.readable)
        return Command(
            argv=(python.executable, "-I", "-S", str(_CHILD)),
            env={"HOME": str(work.path), "LANG": "C.UTF-8", **self.options.env},
            readable=(*python.readable(backend), *given),
            network=self.options.network,
            limits=self.options.limits,
        )

    def _request(self, input: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        facts = ("session_id", "call_id", "tool_name", "idempotency_key", "tool_call_approved")
        folders = [str(path) for path in self.options.readable if path.is_dir()]
        return {
            "module": self._target.module,
            "function": self._target.function,
            "modules": self._target.modules,
            "path": [*map(str, library_folders()), *folders],
            "input": input,
            "context": {**{name: getattr(context, name) for name in facts}, "turn": context.turn},
        }

    def _value(self, finished: CommandResult, answer: dict[str, Any] | None) -> Any:
        limits = self.options.limits
        if finished.timed_out:
            spent = limits.seconds if finished.killed_by == "wall_clock" else limits.cpu_seconds
            raise ToolTimeout(f"`{self._tool}` did not finish within {spent:g} seconds.")
        if finished.killed_by is not None:
            texts = {name: getattr(limits, name) for name in limits.__slots__}
            why = _WHY[finished.killed_by].format(**texts)
            raise self._failed(f"was ended: {why}", finished)
        match answer:
            case {"value": value}:
                return value
            case {
                "result": {
                    "value": value,
                    "message": str(message),
                    "success": bool(success),
                    "metadata": {**metadata},
                }
            }:
                from toolcrib.tools.result import ToolResult

                return ToolResult(value=value, message=message, success=success, metadata=metadata)
            case {"error": {**error}}:
                raise _raised(error)
            case _:
                how = f"ended with exit code {finished.exit_code} before it gave a result"
                raise self._failed(how, finished)

    def _failed(self, how: str, finished: CommandResult) -> SandboxedToolFailed:
        error = SandboxedToolFailed(f"The process of `{self._tool}` {how}.")
        error.add_note(f"In the sandbox:\n{finished.stderr.decode(errors='replace')[-2000:]}")
        return error


def _answer(work: WorkDirectory, limit: int) -> dict[str, Any] | None:
    """What the process left; None for nothing, or something else than it should leave."""
    try:
        answer = json.loads(work.read(_ANSWER, limit))
    except OSError as error:
        if error.errno != errno.EFBIG:
            return None
        told = f"the result has more than {limit} bytes"
        return {"error": {"type": SandboxedToolFailed.__name__, "message": told}}
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _raised(error: dict[str, Any]) -> Exception:
    """The exception of the other process, under its own name."""
    name, message = str(error.get("type"))[:100], str(error.get("message"))
    if (error.get("module"), name) == (ModelRetry.__module__, ModelRetry.__name__):
        return ModelRetry(message)
    kind = type(name, (SandboxedToolFailed,), {"__module__": "builtins"})
    found: Exception = kind(message)
    if "traceback" in error:
        found.add_note(f"In the sandbox:\n{error['traceback']}")
    return found

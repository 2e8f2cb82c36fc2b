"""A handler that runs each call in a sandboxed process of its own.

`HandlerTarget` names the function that the process imports, and the files that it needs for that.
"""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import CallEnded, InvalidTool, ModelRetry, SandboxedToolFailed, ToolTimeout
from toolcrib.sandbox.command import Command
from toolcrib.sandbox.detection import find_sandbox
from toolcrib.sandbox.python import find_python, library_folders
from toolcrib.sandbox.work_directory import WorkDirectory
from toolcrib.tools.identity import HandlerIdentity

if TYPE_CHECKING:
    from toolcrib.sandbox.command import BackendName, CommandResult, SandboxOptions
    from toolcrib.tools.context import ToolContext


@dataclass(frozen=True, slots=True)
class HandlerTarget:
    """A function by module and name. `modules` maps modules outside of the installed libraries to
    their files, or namespace packages to their folders.
    """

    module: str
    function: str
    modules: dict[str, str]

    @property
    def readable(self) -> tuple[Path, ...]:
        """The files that are needed to import it: modules, and packages as a whole."""
        files = [Path(file) for file in self.modules.values() if os.path.isfile(file)]
        return tuple(file.parent if file.name == "__init__.py" else file for file in files)


def target_of(handler: Callable[..., Any], tool: str) -> HandlerTarget:
    """The target of a handler. Raises `InvalidTool` for one that another process cannot import."""
    module: str = getattr(handler, "__module__", "") or ""
    function: str = getattr(handler, "__qualname__", "") or ""
    if module in ("", "__main__") or not function or _at(module, function) is not handler:
        raise InvalidTool(
            f"tool {tool!r}: a sandboxed handler must be a function of a module, so that another "
            "process can import it; move it to the top level of a module"
        )
    return HandlerTarget(module, function, {**_outside(module), **_outside("toolcrib")})


def _digest_of(file: str | None) -> str | None:
    """The digest of the file that the process loads the function from; None without one."""
    try:
        return None if file is None else sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return None


def _at(module: str, function: str) -> object:
    value: Any = sys.modules.get(module)
    for part in function.split("."):
        value = getattr(value, part, None)
    return value


def _outside(module: str) -> dict[str, str]:
    """The files of a module that is not among the installed libraries: its topmost package, and the
    namespace packages above that.
    """
    files: dict[str, str] = {}
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        spec = importlib.util.find_spec(name)
        if spec is None:
            return files
        if spec.origin is None and spec.submodule_search_locations:
            files[name] = next(iter(spec.submodule_search_locations))
        elif spec.origin and os.path.isfile(spec.origin) and not _is_installed(Path(spec.origin)):
            return {**files, name: spec.origin}
        else:
            return {}
    return files


def _is_installed(file: Path) -> bool:
    return any(file.is_relative_to(folder) for folder in library_folders())


_CHILD: Final = Path(__file__).with_name("child.py")
_ANSWER: Final = ".toolcrib-answer"

_KILL_REASONS: Final = {
    "memory": "it used more than the limit of {memory_bytes} bytes of memory",
    "output": "it printed more than the limit of {output_bytes} bytes",
    "disk": "it wrote more than the limit of {work_bytes} bytes",
    "closed": "it was stopped",
}


class SandboxedHandler:
    """Runs the handler `module:function` in a sandbox. Each call is a new process, which ends with
    the call.
    """

    place: Final = "sandbox"

    def __init__(self, handler: Callable[..., Any], options: SandboxOptions, tool: str) -> None:
        self.options = options
        self._tool = tool
        self._target = target_of(handler, tool)
        self._handler = handler
        self._file = getattr(sys.modules.get(self._target.module), "__file__", None)
        self._source = _digest_of(self._file)
        self.__doc__ = handler.__doc__

    def handler_identity(self) -> HandlerIdentity:
        """The function that runs in the sandbox, and what it may use there."""
        return HandlerIdentity({"sandbox": True, "sandbox_options": self.options}, self._handler)

    async def __call__(self, input: dict[str, Any], context: ToolContext) -> Any:
        """Run the function in a sandboxed process and return its result. Raises `CallEnded`
        (unavailable) when its source was edited: the process would load what nobody has seen.
        """
        if await asyncio.to_thread(_digest_of, self._file) != self._source:
            raise CallEnded(
                "unavailable",
                f"The source of `{self._tool}` has changed since it was loaded; the host has to "
                "load it again.",
            )
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
        files = (_CHILD, *library_folders(), *self._target.readable, *self.options.readable)
        return Command(
            argv=(python.executable, "-I", "-S", str(_CHILD)),
            env={"HOME": str(work.path), "LANG": "C.UTF-8", **self.options.env},
            readable=(*python.readable(backend), *files),
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
            reason = _KILL_REASONS[finished.killed_by].format(**texts)
            raise self._failed(f"was killed: {reason}", finished)
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
                raise _exception(error)
            case _:
                how = f"ended with exit code {finished.exit_code} before it returned a result"
                raise self._failed(how, finished)

    def _failed(self, how: str, finished: CommandResult) -> SandboxedToolFailed:
        error = SandboxedToolFailed(f"The process of `{self._tool}` {how}.")
        error.add_note(f"In the sandbox:\n{finished.stderr.decode(errors='replace')[-2000:]}")
        return error


def _answer(work: WorkDirectory, limit: int) -> dict[str, Any] | None:
    """The answer that the process wrote; None when there is none, or it is invalid."""
    try:
        answer = json.loads(work.read(_ANSWER, limit))
    except OSError as error:
        if error.errno != errno.EFBIG:
            return None
        message = f"the result has more than {limit} bytes"
        return {"error": {"type": SandboxedToolFailed.__name__, "message": message}}
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _exception(error: dict[str, Any]) -> Exception:
    """The exception of the sandboxed process, under its own name."""
    name, message = str(error.get("type"))[:100], str(error.get("message"))
    if (error.get("module"), name) == (ModelRetry.__module__, ModelRetry.__name__):
        return ModelRetry(message)
    kind = type(name, (SandboxedToolFailed,), {"__module__": "builtins"})
    exception: Exception = kind(message)
    if "traceback" in error:
        exception.add_note(f"In the sandbox:\n{error['traceback']}")
    return exception

"""The hooks of one tool, and the two stages that run them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from types import CoroutineType
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from toolcrib.approval.decision import Answer
from toolcrib.calls.call import Call
from toolcrib.calls.validate import take
from toolcrib.errors import ApprovalRequired, CallEnded, ControlFlow, HookFailed, ToolTimeout

AnyHook = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Refuse:
    """Returned by a hook that comes before something: it does not happen, for this reason. The
    model reads the reason of a refused call.
    """

    reason: str


class HookStep(NamedTuple):
    """One hook of a chain. `is_named` when it gets the tool's name; `timeout` is in seconds."""

    function: AnyHook
    is_named: bool
    timeout: float | None


class HookChain:
    """The hooks around one tool, in the order they run."""

    __slots__ = ("has_post", "has_pre", "post", "pre")

    def __init__(self, pre: tuple[HookStep, ...], post: tuple[HookStep, ...]) -> None:
        self.pre = pre
        self.post = post
        self.has_pre = bool(pre)
        self.has_post = bool(post)

    def around(self, inner: HookChain) -> HookChain:
        """Both chains as one."""
        return HookChain(self.pre + inner.pre, inner.post + self.post)


_COROUTINE: type[object] = CoroutineType


async def run_pre_hooks(call: Call, chain: HookChain) -> None:
    """Let the pre hooks rewrite, answer or refuse. Rewritten arguments are validated again.

    An exception of a hook becomes the call's result: the tool does not run and the post hooks see
    it.
    """
    raw_arguments, context, name = call.arguments, call.context, call.name
    try:
        for hook, is_named, timeout in chain.pre:
            # A copy for each: a hook that keeps it cannot change what the next one sees.
            shown = from_json(call.arguments)
            before = to_json(shown)
            try:
                begun = hook(context, name, shown) if is_named else hook(context, shown)
                # Nearly always a coroutine, which is its own awaitable when nothing limits it.
                if timeout is not None or type(begun) is not _COROUTINE:
                    begun = bounded(timeout, begun, hook)
                reply = await begun
            except ApprovalRequired as needed:
                # The hook asks and changes nothing. Later hooks still run, and what earlier ones
                # rewrote stays: the approver must see exactly what will run.
                call.approval_metadata = needed.metadata or call.approval_metadata or {}
            else:
                _accept(call, before, reply, hook)
            if call.is_settled:
                return
    except ControlFlow:
        raise
    except Exception as error:
        call.fail(error)
        return
    if call.arguments is not raw_arguments:
        take(call, call.arguments, after=" after its pre hooks")


def _accept(call: Call, before: bytes, reply: object, hook: object) -> None:
    match reply:
        case dict():
            try:
                # At once: a hook that keeps the dict cannot change the call later. And compared as
                # bytes: to Python, True equals 1.
                after = to_json(reply)
            except ValueError as error:
                raise HookFailed(
                    f"pre hook {hook_name(hook)} of {call.name!r} returned arguments that are not "
                    f"JSON: {error}"
                ) from None
            if after != before:
                call.arguments = after
        case Answer(value=value):
            call.succeed(value)
        case Refuse(reason=reason):
            raise CallEnded("not_permitted", reason or "A hook refused the call.")
        case _:
            raise HookFailed(
                f"pre hook {hook_name(hook)} of {call.name!r} returned {type(reply).__name__}; "
                "return the arguments (a dict), Answer(value) or Refuse(reason)"
            )


async def run_post_hooks(call: Call, chain: HookChain) -> None:
    """Let the post hooks see and replace the value or the exception."""
    context, name = call.context, call.name
    for hook, is_named, timeout in chain.post:
        shown = call.value if call.error is None else call.error
        try:
            begun = hook(context, name, shown) if is_named else hook(context, shown)
            if timeout is not None or type(begun) is not _COROUTINE:
                begun = bounded(timeout, begun, hook)
            reply = await begun
        except ApprovalRequired:
            _fail(
                call,
                HookFailed(
                    f"post hook {hook_name(hook)} of {call.name!r} asked for approval when the "
                    "tool had run already; ask in a pre hook"
                ),
            )
        except ControlFlow:
            raise
        except Exception as error:
            _fail(call, error)
        else:
            # Unchanged: an exception that was raised stays raised, one that was returned as a plain
            # value stays a value.
            if reply is not shown:
                _replace(call, reply)


def _replace(call: Call, reply: object) -> None:
    if isinstance(reply, Exception):
        _fail(call, reply)
    else:
        call.succeed(reply)


def _fail(call: Call, error: Exception) -> None:
    # Nobody gets to see what a hook that failed may have been there to hide.
    call.value = None
    call.fail(error)


def bounded(timeout: float | None, reply: object, hook: object) -> Awaitable[Any]:
    """What a hook returned, to be awaited for no longer than the hook may take."""
    if not isawaitable(reply):
        raise HookFailed(
            f"hook {hook_name(hook)} returned {type(reply).__name__} without being awaited; "
            "hooks are async functions: write `async def`"
        )
    return reply if timeout is None else _within(timeout, reply, hook)


async def _within(seconds: float, awaitable: Awaitable[Any], hook: object) -> Any:
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    scope = asyncio.timeout_at(ends_at)
    late = ToolTimeout(f"hook {hook_name(hook)} took longer than {seconds:g} s")
    try:
        async with scope:
            result = await awaitable
    except TimeoutError:
        if not scope.expired():
            raise
        raise late from None
    if scope.expired() or loop.time() >= ends_at:
        # It swallowed its cancellation, or blocked the loop; a late reply is not a reply.
        raise late
    return result


def hook_name(hook: object) -> str:
    """How messages name a hook."""
    return getattr(hook, "__qualname__", type(hook).__qualname__)

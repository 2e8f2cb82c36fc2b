"""Hooks around a call, and the two stages that run them.

The order is always: global pre, the tool's pre, the tool, the tool's post, global post.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from types import CoroutineType
from typing import Any, cast

from pydantic_core import from_json, to_json

from toolcrib.approval.decision import Answer
from toolcrib.calls.call import Call
from toolcrib.calls.validate import take
from toolcrib.errors import (
    ApprovalRequired,
    CallEnded,
    ControlFlow,
    HookFailed,
    InvalidHooks,
    ToolTimeout,
)


@dataclass(frozen=True, slots=True)
class Refuse:
    """Returned by a pre hook: do not run the tool; the model reads the reason."""

    reason: str


PreReply = dict[str, Any] | Answer | Refuse
PreHook = Callable[[Any, dict[str, Any]], Awaitable[PreReply]]
PostHook = Callable[[Any, Any], Awaitable[Any]]
GlobalPreHook = Callable[[Any, str, dict[str, Any]], Awaitable[PreReply]]
GlobalPostHook = Callable[[Any, str, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class GlobalHooks:
    """Hooks that run around every tool."""

    pre: GlobalPreHook | None = None
    post: GlobalPostHook | None = None


@dataclass(frozen=True, slots=True)
class Hooks:
    """All hooks of an executor. `pre` and `post` are by tool name.

    `timeout` bounds each hook, in seconds. A pre hook that fails or takes too long means that the
    tool does not run.
    """

    global_pre: GlobalPreHook | None = None
    global_post: GlobalPostHook | None = None
    pre: Mapping[str, PreHook] = field(default_factory=dict[str, PreHook])
    post: Mapping[str, PostHook] = field(default_factory=dict[str, PostHook])
    timeout: float | None = None
    inner: Mapping[str, Hooks] = field(default_factory=dict[str, "Hooks"])
    """By tool name, hooks that came with the tool: they run nearest to it, after these before the
    call and before these after it."""

    def check(self, known: Mapping[str, Any]) -> None:
        """Raise `InvalidHooks` for hooks that could never run."""
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise InvalidHooks(
                f"the hooks' timeout must be a finite number of seconds above 0, "
                f"not {self.timeout!r}; for no limit pass None"
            )
        for when, hooks in (("pre", self.pre), ("post", self.post)):
            for name, hook in hooks.items():
                if name not in known:
                    raise InvalidHooks(
                        f"{when} hook for unknown tool {name!r}; the tools are: "
                        + (", ".join(sorted(known)) or "none")
                    )
                _check_callable(f"the {when} hook of {name!r}", hook)
        _check_callable("the global pre hook", self.global_pre)
        _check_callable("the global post hook", self.global_post)

    @staticmethod
    def combined(listed: Sequence[Hooks]) -> Hooks:
        """These hooks as one, in this order: the first is the outermost, so that its post hooks
        are the last. Each keeps its own time limit.
        """
        one = Hooks()
        for hooks in reversed(listed):
            one = _around(hooks, one)
        return one

    def only(self, names: Mapping[str, Any]) -> Hooks:
        """These hooks without those of tools that are not in `names`."""
        return replace(
            self,
            pre={name: hook for name, hook in self.pre.items() if name in names},
            post={name: hook for name, hook in self.post.items() if name in names},
            inner={name: hooks for name, hooks in self.inner.items() if name in names},
        )

    def chain(self, name: str) -> HookChain | None:
        """The hooks that run around the tool `name`, or None when there are none."""
        hooks = self.inner.get(name)
        inner = None if hooks is None else hooks.chain(name)
        chain = HookChain(
            _present((self.global_pre, True), (self.pre.get(name), False)),
            _present((self.post.get(name), False), (self.global_post, True)),
            self.timeout,
        )
        if inner is not None:
            chain = chain.around(inner)
        return chain if chain.has_pre or chain.has_post else None


def _around(outer: Hooks, inner: Hooks) -> Hooks:
    first, last = outer.timeout, inner.timeout
    return Hooks(
        _pre_in_turn(_limited(outer.global_pre, first), _limited(inner.global_pre, last)),
        _post_in_turn(_limited(inner.global_post, last), _limited(outer.global_post, first)),
        {
            name: _pre_in_turn(
                _limited(outer.pre.get(name), first), _limited(inner.pre.get(name), last)
            )
            for name in {**outer.pre, **inner.pre}
        },
        {
            name: _post_in_turn(
                _limited(inner.post.get(name), last), _limited(outer.post.get(name), first)
            )
            for name in {**inner.post, **outer.post}
        },
    )


def _limited(hook: Any, seconds: float | None) -> Any:
    if hook is None or seconds is None:
        return hook

    async def within_its_time(*arguments: Any) -> Any:
        return await _within(seconds, hook(*arguments), hook)

    return within_its_time


def _pre_in_turn(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return first or second

    async def both(context: Any, *rest: Any) -> PreReply:
        *name, arguments = rest
        before, needed = to_json(arguments), None
        for hook in (first, second):
            try:
                reply = await hook(context, *name, arguments)
            except ApprovalRequired as error:
                # As in one set of hooks: the other hook still runs.
                needed = needed or error
                continue
            if not isinstance(reply, dict):
                return reply
            arguments = cast("dict[str, Any]", reply)
        if needed is None:
            return arguments
        if to_json(arguments) != before:
            raise HookFailed(
                "one pre hook asks for approval and another one rewrites the arguments; do both in "
                "one set of hooks, so that the approver sees what will run"
            )
        raise needed

    return both


def _post_in_turn(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return first or second

    async def both(context: Any, *rest: Any) -> Any:
        *name, value = rest
        try:
            value = await first(context, *name, value)
        except ControlFlow:
            raise
        except Exception as error:
            # As in one set of hooks: the next hook sees what the tool's result is now.
            value = error
        return await second(context, *name, value)

    return both


def _check_callable(what: str, hook: object) -> None:
    if hook is not None and not callable(hook):
        raise InvalidHooks(f"{what} is not callable: {type(hook).__name__}; give an async function")


AnyHook = Callable[..., Awaitable[Any]]
NamedHooks = tuple[tuple[AnyHook, bool], ...]


class HookChain:
    """The hooks of one tool, in the order they run; each with whether it gets the tool's name."""

    __slots__ = ("has_post", "has_pre", "post", "pre", "timeout")

    def __init__(self, pre: NamedHooks, post: NamedHooks, timeout: float | None) -> None:
        self.pre = pre
        self.post = post
        self.timeout = timeout
        self.has_pre = bool(self.pre)
        self.has_post = bool(self.post)

    def around(self, inner: HookChain) -> HookChain:
        """Both chains as one, under the shorter of their time limits."""
        limits = [limit for limit in (self.timeout, inner.timeout) if limit is not None]
        return HookChain(
            self.pre + inner.pre, inner.post + self.post, min(limits) if limits else None
        )


def _present(*hooks: tuple[AnyHook | None, bool]) -> NamedHooks:
    # Not by truth: a hook may be an object that is callable and empty.
    return tuple((hook, is_global) for hook, is_global in hooks if hook is not None)


_COROUTINE: type[object] = CoroutineType


async def run_pre_hooks(call: Call, chain: HookChain) -> None:
    """Let the pre hooks rewrite, answer or refuse. Rewritten arguments are validated again.

    An exception of a hook becomes the call's result: the tool does not run and the post hooks see
    it.
    """
    raw_arguments, context, name = call.arguments, call.context, call.name
    try:
        for hook, is_global in chain.pre:
            # A copy for each: a hook that keeps it cannot change what the next one sees.
            shown = from_json(call.arguments)
            before = to_json(shown)
            try:
                begun = hook(context, name, shown) if is_global else hook(context, shown)
                # Nearly always a coroutine, which is its own awaitable when nothing limits it.
                if chain.timeout is not None or type(begun) is not _COROUTINE:
                    begun = _bounded(chain, begun, hook)
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
                    f"pre hook {_name(hook)} of {call.name!r} returned arguments that are not "
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
                f"pre hook {_name(hook)} of {call.name!r} returned {type(reply).__name__}; "
                "return the arguments (a dict), Answer(value) or Refuse(reason)"
            )


async def run_post_hooks(call: Call, chain: HookChain) -> None:
    """Let the post hooks see and replace the value or the exception."""
    context, name = call.context, call.name
    for hook, is_global in chain.post:
        shown = call.value if call.error is None else call.error
        try:
            begun = hook(context, name, shown) if is_global else hook(context, shown)
            if chain.timeout is not None or type(begun) is not _COROUTINE:
                begun = _bounded(chain, begun, hook)
            reply = await begun
        except ApprovalRequired:
            _fail(
                call,
                HookFailed(
                    f"post hook {_name(hook)} of {call.name!r} asked for approval when the tool "
                    "had run already; ask in a pre hook"
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


def _bounded(chain: HookChain, reply: object, hook: object) -> Awaitable[Any]:
    """What a hook returned, to be awaited for no longer than hooks may take."""
    if not isawaitable(reply):
        raise HookFailed(
            f"hook {_name(hook)} returned {type(reply).__name__} without being awaited; "
            "hooks are async functions: write `async def`"
        )
    return reply if chain.timeout is None else _within(chain.timeout, reply, hook)


async def _within(seconds: float, awaitable: Awaitable[Any], hook: object) -> Any:
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    scope = asyncio.timeout_at(ends_at)
    late = ToolTimeout(f"hook {_name(hook)} took longer than {seconds:g} s")
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


def _name(hook: object) -> str:
    return getattr(hook, "__qualname__", type(hook).__qualname__)

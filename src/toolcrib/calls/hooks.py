"""Hooks: which functions run around calls, requests, prompts, turns and sessions.

The first hook is the outermost one: before a call it runs first, after the call last.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, overload

from toolcrib.approval.decision import Answer
from toolcrib.calls.hook_chain import AnyHook, HookChain, HookStep, Refuse
from toolcrib.errors import InvalidHooks

if TYPE_CHECKING:
    from toolcrib.tools.identity import Place
    from toolcrib.tools.prepared_tool import PreparedTool

PreReply = dict[str, Any] | Answer | Refuse
PreHook = Callable[[Any, dict[str, Any]], Awaitable[PreReply]]
PostHook = Callable[[Any, Any], Awaitable[Any]]
GlobalPreHook = Callable[[Any, str, dict[str, Any]], Awaitable[PreReply]]
GlobalPostHook = Callable[[Any, str, Any], Awaitable[Any]]

HookEvent = Literal[
    "before_call",
    "after_call",
    "before_request",
    "after_request",
    "prompt_submitted",
    "turn_started",
    "turn_ended",
    "session_opened",
    "session_closed",
]
"""When a hook runs."""

CALL_EVENTS: Final[frozenset[HookEvent]] = frozenset({"before_call", "after_call"})
PROMPT_EVENTS: Final[frozenset[HookEvent]] = frozenset(
    {"before_request", "after_request", "prompt_submitted", "turn_started", "turn_ended"}
)

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
Globs = str | Sequence[str]

_PLACES: Final = ("local", "sandbox", "client", "provider")


@dataclass(frozen=True, slots=True)
class GlobalHooks:
    """Hooks that run around every tool."""

    pre: GlobalPreHook | None = None
    post: GlobalPostHook | None = None


@dataclass(frozen=True, slots=True)
class Hook:
    """A function and when it runs. The filters are globs, of which those of `names` are a choice;
    hooks that are not about calls have none. `timeout` is in seconds.
    """

    event: HookEvent
    function: AnyHook
    names: tuple[str, ...] = ("*",)
    source: str = "*"
    place: Place | None = None
    kind: str = "*"
    timeout: float | None = None

    @property
    def is_for_all(self) -> bool:
        """Whether it runs around every call."""
        return "*" in self.names and (self.source, self.place, self.kind) == ("*", None, "*")

    @property
    def may_match_elsewhere(self) -> bool:
        """Whether it is about tools that the provider runs, which no executor has."""
        return self.place == "provider" or self.kind != "*"

    def matches(self, tool: PreparedTool) -> bool:
        """Whether it runs around the calls of this tool."""
        from toolcrib.approval.globs import name_matches

        ref = tool.ref
        return (
            any(name_matches(glob, ref.name) for glob in self.names)
            and name_matches(self.source, ref.source)
            and self.place in (None, ref.place)
            and (self.kind == "*" or self._is_of_kind(tool))
        )

    def _is_of_kind(self, tool: PreparedTool) -> bool:
        from toolcrib.approval.globs import name_matches
        from toolcrib.tools.provider_tools import kind_of

        kind = kind_of(tool.tool)
        return kind is not None and name_matches(self.kind, kind)

    def described(self) -> str:
        """Its filters, for messages."""
        filters = {
            "name": ", ".join(self.names),
            "source": self.source,
            "place": self.place or "*",
            "kind": self.kind,
        }
        return ", ".join(f"{key} {glob!r}" for key, glob in filters.items() if glob != "*")


@dataclass(slots=True)
class Hooks:
    """Hooks of an executor, a toolset or a runtime. `pre` and `post` are by tool name; further
    ones are added with the decorators (`@hooks.before_call("fs_*")`), before the hooks are used.

    Before a call: `global_pre`, those of `before_call` in their order, `pre` of the tool, then the
    same of each of `parts` and of `inner`. After it the other way round. `timeout` bounds each
    hook that has no limit of its own, in seconds. A hook before a call that fails or takes too
    long means that the tool does not run.
    """

    global_pre: GlobalPreHook | None = None
    global_post: GlobalPostHook | None = None
    pre: Mapping[str, PreHook] = field(default_factory=dict[str, PreHook])
    post: Mapping[str, PostHook] = field(default_factory=dict[str, PostHook])
    timeout: float | None = None
    inner: Mapping[str, Hooks] = field(default_factory=dict[str, "Hooks"])
    """By tool name, hooks that came with the tool: they run nearest to it."""
    listed: list[Hook] = field(default_factory=list[Hook])
    """What the decorators added."""
    parts: tuple[Hooks, ...] = ()
    """Further hooks, from the outermost to the innermost; each with its own time limit."""
    more_tools_may_come: bool = False
    """Whether hooks may name tools that are not there yet."""
    is_used: bool = field(default=False, init=False, compare=False)

    @overload
    def before_call(self, name: F, /) -> F: ...

    @overload
    def before_call(
        self,
        name: Globs = "*",
        *,
        source: str = "*",
        place: Place | None = None,
        kind: str = "*",
        timeout: float | None = None,
    ) -> Callable[[F], F]: ...

    def before_call(self, name: Any = "*", **filters: Any) -> Any:
        """Add a hook before calls: `async def hook(ctx, tool_name, args)`. It returns arguments,
        `Answer` or `Refuse`. All filters have to match; they are globs.
        """
        return self._adder("before_call", name, filters)

    @overload
    def after_call(self, name: F, /) -> F: ...

    @overload
    def after_call(
        self,
        name: Globs = "*",
        *,
        source: str = "*",
        place: Place | None = None,
        kind: str = "*",
        timeout: float | None = None,
    ) -> Callable[[F], F]: ...

    def after_call(self, name: Any = "*", **filters: Any) -> Any:
        """Add a hook after calls: `async def hook(ctx, tool_name, result)`. It returns a result."""
        return self._adder("after_call", name, filters)

    def on(self, event: HookEvent, *, timeout: float | None = None) -> Callable[[F], F]:
        """Add a hook for something other than a call: `async def hook(facts)`. Those that come
        before something may return `Refuse`.
        """
        if event in ("before_call", "after_call"):
            raise InvalidHooks(f"write @hooks.{event}(...) for hooks around calls")
        return self._adder(event, "*", {"timeout": timeout})

    def _adder(self, event: HookEvent, name: Any, filters: dict[str, Any]) -> Any:
        if callable(name):
            return self._adder(event, "*", {})(name)
        names = (name,) if isinstance(name, str) else tuple(cast("Iterable[str]", name))

        def add(function: F) -> F:
            if self.is_used:
                raise InvalidHooks(
                    f"the {event} hook {_called(function)} comes too late: these hooks are in use; "
                    "add it before they are given to an executor, a toolset or a runtime"
                )
            self.listed.append(_checked(Hook(event, function, names, **filters)))
            return function

        return add

    @staticmethod
    def combined(listed: Sequence[Hooks]) -> Hooks:
        """These hooks as one, in this order: the first is the outermost, so that its post hooks
        are the last. Each keeps its own time limit.
        """
        for hooks in listed:
            hooks.is_used = True
        return Hooks(parts=tuple(listed))

    def check_events(self, where: str, events: Collection[HookEvent]) -> None:
        """Raise `InvalidHooks` for a hook of an event that never comes `where` they are given."""
        for hook in self.listed:
            if hook.event not in events:
                raise InvalidHooks(
                    f"the {hook.event} hook {_called(hook.function)} never runs in {where}, which "
                    f"has: {', '.join(sorted(events))}; docs/hooks.md says where it runs"
                )
        for part in self.parts:
            part.check_events(where, events)

    def check(self, known: Mapping[str, PreparedTool]) -> None:
        """Raise `InvalidHooks` for hooks that could never run."""
        _check_timeout("the hooks' timeout", self.timeout)
        _check_callable("the global pre hook", self.global_pre)
        _check_callable("the global post hook", self.global_post)
        for when, hooks in (("pre", self.pre), ("post", self.post)):
            for name, hook in hooks.items():
                if name not in known and not self.more_tools_may_come:
                    raise InvalidHooks(
                        f"{when} hook for unknown tool {name!r}; the tools are: " + _named(known)
                    )
                _check_callable(f"the {when} hook of {name!r}", hook)
        for hook in () if self.more_tools_may_come else self.listed:
            is_of_call = hook.event in ("before_call", "after_call")
            if not is_of_call or hook.is_for_all or hook.may_match_elsewhere:
                continue
            if not any(hook.matches(tool) for tool in known.values()):
                raise InvalidHooks(
                    f"the {hook.event} hook {_called(hook.function)} for {hook.described()} "
                    f"matches no tool; the tools are: {_named(known)}"
                )
        for part in self.parts:
            part.lenient(self.more_tools_may_come).check(known)

    def lenient(self, is_lenient: bool = True) -> Hooks:
        """These hooks, with names of tools that are not there yet allowed."""
        if not is_lenient or self.more_tools_may_come:
            return self
        self.is_used = True
        return replace(self, more_tools_may_come=True)

    def only(self, names: Mapping[str, Any]) -> Hooks:
        """These hooks without those of tools that are not in `names`."""
        return replace(
            self,
            pre={name: hook for name, hook in self.pre.items() if name in names},
            post={name: hook for name, hook in self.post.items() if name in names},
            inner={name: hooks for name, hooks in self.inner.items() if name in names},
            parts=tuple(part.only(names) for part in self.parts),
            more_tools_may_come=True,
        )

    def names(self) -> set[str]:
        """The names and globs of tools in all these hooks; not those that match every tool."""
        listed = {name for hook in self.listed for name in hook.names if name != "*"}
        names = {*self.pre, *self.post, *listed}
        return names.union(*(part.names() for part in self.parts))

    def exact_names(self) -> set[str]:
        """Those of them that name one tool."""
        from toolcrib.approval.globs import has_wildcard

        return {name for name in self.names() if not has_wildcard(name)}

    def chain(self, tool: PreparedTool) -> HookChain | None:
        """The hooks that run around a tool, or None when there are none."""
        self.is_used = True
        chain = self._own_chain(tool)
        for inside in (*self.parts, self.inner.get(tool.ref.name)):
            inner = None if inside is None else inside.chain(tool)
            if inner is not None:
                chain = chain.around(inner)
        return chain if chain.has_pre or chain.has_post else None

    def of(self, event: HookEvent) -> tuple[Hook, ...]:
        """The hooks of an event that is no call, in their order, those of all parts included."""
        self.is_used = True
        own = (
            hook if hook.timeout is not None else replace(hook, timeout=self.timeout)
            for hook in self.listed
            if hook.event == event
        )
        return (*own, *(hook for part in self.parts for hook in part.of(event)))

    def mapped(self, pre: Callable[[Any], Any], post: Callable[[Any], Any]) -> Hooks:
        """The same hooks, with the functions around calls replaced by what `pre` and `post` make of
        them.
        """
        self.is_used = True
        wrap = {"before_call": pre, "after_call": post}
        return replace(
            self,
            global_pre=pre(self.global_pre),
            global_post=post(self.global_post),
            pre={name: pre(hook) for name, hook in self.pre.items()},
            post={name: post(hook) for name, hook in self.post.items()},
            inner={name: hooks.mapped(pre, post) for name, hooks in self.inner.items()},
            listed=[
                replace(hook, function=wrap[hook.event](hook.function))
                if hook.event in wrap
                else hook
                for hook in self.listed
            ],
            parts=tuple(part.mapped(pre, post) for part in self.parts),
        )

    def _own_chain(self, tool: PreparedTool) -> HookChain:
        name = tool.ref.name
        matching = [hook for hook in self.listed if _is_around(hook, tool)]
        return HookChain(
            (
                *self._steps(self.global_pre, is_named=True),
                *self._listed_steps(matching, "before_call"),
                *self._steps(self.pre.get(name), is_named=False),
            ),
            (
                *self._steps(self.post.get(name), is_named=False),
                *self._listed_steps(matching[::-1], "after_call"),
                *self._steps(self.global_post, is_named=True),
            ),
        )

    def _steps(self, hook: AnyHook | None, *, is_named: bool) -> tuple[HookStep, ...]:
        # Not by truth: a hook may be an object that is callable and empty.
        return () if hook is None else (HookStep(hook, is_named, self.timeout),)

    def _listed_steps(self, hooks: list[Hook], event: HookEvent) -> tuple[HookStep, ...]:
        return tuple(
            HookStep(hook.function, True, self.timeout if hook.timeout is None else hook.timeout)
            for hook in hooks
            if hook.event == event
        )


def _is_around(hook: Hook, tool: PreparedTool) -> bool:
    return hook.event in ("before_call", "after_call") and hook.matches(tool)


def _checked(hook: Hook) -> Hook:
    what = f"the {hook.event} hook"
    _check_callable(what, hook.function)
    _check_timeout(f"the timeout of {what} {_called(hook.function)}", hook.timeout)
    if hook.place is not None and hook.place not in _PLACES:
        raise InvalidHooks(f"{what}: place is one of {', '.join(_PLACES)}, not {hook.place!r}")
    if not hook.names or "" in (*hook.names, hook.source, hook.kind):
        raise InvalidHooks(f"{what} has an empty filter, which matches nothing; leave it out")
    return hook


def _check_timeout(what: str, seconds: float | None) -> None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise InvalidHooks(
            f"{what} must be a finite number of seconds above 0, not {seconds!r}; for no limit "
            "pass None"
        )


def _check_callable(what: str, hook: object) -> None:
    if hook is not None and not callable(hook):
        raise InvalidHooks(f"{what} is not callable: {type(hook).__name__}; give an async function")


def _named(known: Iterable[str]) -> str:
    return ", ".join(sorted(known)) or "none"


def _called(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)

"""The way of an operation to its route, past the general router."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class _Way:
    """A route whose path has these parts; those in braces are named, and may be anything."""

    fixed: tuple[str, ...]
    pick_fixed: Callable[[list[str]], tuple[str, ...]]
    named: tuple[tuple[str, int], ...]
    app: ASGIApp

    def params(self, parts: list[str]) -> dict[str, str] | None:
        """What the path holds in its braces; None when it is another path."""
        if self.pick_fixed(parts) != self.fixed:
            return None
        found: dict[str, str] = {}
        for name, index in self.named:
            if not parts[index]:
                return None
            found[name] = parts[index]
        return found


class Shortcut:
    """Answers requests of these routes at once; whatever else comes is for the application behind.

    The general router takes as long to find a route as a tool takes to be called. `routes` are
    verbs, paths and applications; of two that match, the first is taken, as there.
    """

    def __init__(self, app: ASGIApp, *, routes: Iterable[tuple[str, str, ASGIApp]]) -> None:
        self._app = app
        self._ways: dict[tuple[str, int], list[_Way]] = {}
        for verb, path, target in routes:
            parts = path.split("/")
            self._ways.setdefault((verb, len(parts)), []).append(_way(parts, target))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # Below a path of somebody else's, the router knows which part of it is ours.
        if scope["type"] == "http" and not scope.get("root_path"):
            parts = scope["path"].split("/")
            for way in self._ways.get((scope["method"], len(parts)), ()):
                params = way.params(parts)
                if params is not None:
                    scope["path_params"] = params
                    await way.app(scope, receive, send)
                    return
        await self._app(scope, receive, send)


def _way(parts: list[str], app: ASGIApp) -> _Way:
    named = [(part[1:-1], index) for index, part in enumerate(parts) if part.startswith("{")]
    # A path begins with a slash, before which there is nothing: that part is never in braces, and
    # with another one the picked parts are a tuple.
    places = [index for index, part in enumerate(parts) if not part.startswith("{")]
    return _Way(tuple(parts[each] for each in places), itemgetter(*places), tuple(named), app)

"""The way of an operation to its route, past the general router."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class _Way:
    fixed: tuple[tuple[int, str], ...]
    named: tuple[tuple[int, str], ...]
    app: ASGIApp

    def params(self, parts: list[str]) -> dict[str, str] | None:
        """What the path holds in its braces; None when it is another path."""
        for index, text in self.fixed:
            if parts[index] != text:
                return None
        found = {name: parts[index] for index, name in self.named}
        return found if all(found.values()) else None


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
    named = [(index, part[1:-1]) for index, part in enumerate(parts) if part.startswith("{")]
    places = {index for index, _ in named}
    fixed = [(index, part) for index, part in enumerate(parts) if index not in places]
    return _Way(tuple(fixed), tuple(named), app)

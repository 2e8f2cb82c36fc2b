"""The resources and prompts of a runtime: the application's own and those of mounted servers, in
one list, and where each is read.

A URI is kept as it is. Where two have the same one, the application's comes first, then the servers
in the order of the file; the others are listed under `toolcrib://servers/NAME/URI`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from toolcrib.approval.rule import Subject
from toolcrib.calls.tool_table import is_visible
from toolcrib.errors import CallEnded
from toolcrib.features.arguments import ArgumentCompletion
from toolcrib.features.declaration import (
    GET_PROMPT,
    OWN_SOURCE,
    READ_RESOURCE,
    ServedPrompt,
    missing_feature,
)
from toolcrib.features.registry import FeatureChange
from toolcrib.mcp_client.remote_features import FEATURE_LISTS
from toolcrib.tools.identity import ToolRef

if TYPE_CHECKING:
    from mcp.shared.uri_template import UriTemplate

    from toolcrib.approval.policy import Policy
    from toolcrib.features.registry import FeatureRegistry
    from toolcrib.mcp_client.remote_features import RemoteFeature, RemoteFeatures
    from toolcrib.runtime.mounted_servers import MountedServers
    from toolcrib.runtime.principal import Principal
    from toolcrib.tools.tool import Tool

logger = logging.getLogger(__name__)

_MOST_LISTINGS: Final = 64

SERVERS: Final = "toolcrib://servers/"
"""The prefix of a URI that names its server: `toolcrib://servers/NAME/URI`."""

Entry: TypeAlias = Mapping[str, Any]
"""An entry of a list as MCP writes it."""


@dataclass(frozen=True, slots=True)
class RemoteRoute:
    """A resource or a prompt of a mounted server, by its URI or name there."""

    server: RemoteFeatures
    key: str


@dataclass(frozen=True, slots=True)
class FeatureListing:
    """What a session can read, in order, and where each is. Templates have the route of their
    server.
    """

    resources: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    templates: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    prompts: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    routes: Mapping[str, RemoteRoute] = field(default_factory=dict[str, RemoteRoute])
    """Of mounted resources by URI here."""
    template_routes: Mapping[str, RemoteRoute] = field(default_factory=dict[str, RemoteRoute])
    prompt_routes: Mapping[str, RemoteRoute] = field(default_factory=dict[str, RemoteRoute])


@dataclass(frozen=True, slots=True)
class FeatureRead:
    """A read that was asked for: the tool behind it, and its arguments there."""

    tool: Tool[Any, Any]
    arguments: Mapping[str, Any] = field(hash=False)


class Features:
    """Lists and finds resources and prompts for sessions."""

    def __init__(
        self,
        registry: FeatureRegistry,
        servers: MountedServers,
        policy: Callable[[], Policy | None],
    ) -> None:
        self._registry = registry
        self._servers = servers
        self._policy = policy
        self._listings: dict[tuple[RemoteFeatures, ...], tuple[object, FeatureListing]] = {}
        self._subscribed: Counter[tuple[str, RemoteRoute]] = Counter()
        """How many subscribers each URI here has at a server."""

    def servers(self, session_id: str | None) -> list[RemoteFeatures]:
        """The features of the servers that a session has, in order."""
        if session_id is None:
            return [server.features for server in self._servers.shared]
        return [server.features for server in self._servers.of_session(session_id)]

    def may_have(self, kind: str) -> bool:
        """Whether there are `resources`, `prompts` or `completions`, or a mounted server may bring
        some.
        """
        match kind:
            case "resources":
                own: Sequence[object] = self._registry.resources
            case "prompts":
                own = self._registry.prompts
            case _:
                own = [each for each in self._registry.all if each.arguments.can_complete]
        if own or self._servers.personal:
            return True
        return any(server.may_have(kind) for server in self.servers(None))

    async def listing(self, session_id: str) -> FeatureListing:
        """What a session can read, whoever asks."""
        servers = self.servers(session_id)
        lists = await asyncio.gather(*(_lists(server) for server in servers))
        key, state = tuple(servers), (self._registry.state, *(each.state for each in servers))
        kept = self._listings.get(key)
        if kept is not None and kept[0] == state:
            return kept[1]
        listing = self._merged(list(zip(servers, lists, strict=True)))
        if len(self._listings) >= _MOST_LISTINGS:
            self._listings.clear()
        self._listings[key] = state, listing
        return listing

    async def visible(self, session_id: str, who: Principal) -> FeatureListing:
        """What a principal may read: without what the policy denies or is not shown to it."""
        listing = await self.listing(session_id)
        servers = self.servers(session_id)
        if self._policy() is None and not any(server.has_audience for server in servers):
            return listing

        def allowed(entries: Mapping[str, Entry], name: str) -> dict[str, Entry]:
            return {
                each: entry
                for each, entry in entries.items()
                if not self._is_denied(self._find(listing, name, each, session_id), who)
            }

        return replace(
            listing,
            resources=allowed(listing.resources, READ_RESOURCE),
            templates=allowed(listing.templates, READ_RESOURCE),
            prompts=allowed(listing.prompts, GET_PROMPT),
        )

    async def find(
        self, session_id: str, name: str, arguments: Mapping[str, Any] | None
    ) -> FeatureRead:
        """The tool behind a read; one that fails as `not_found` when there is nothing to read."""
        given = arguments or {}
        key = given.get("uri" if name == READ_RESOURCE else "name")
        if not isinstance(key, str):
            return FeatureRead(missing_feature(name), given)
        # What the application has itself is read without asking any server.
        found = self._find_own(name, key)
        if found is None:
            found = self._find(await self.listing(session_id), name, key, session_id)
        return replace(found, arguments={**given, **found.arguments})

    async def knows(self, session_id: str, uri: str) -> bool:
        """Whether somebody here has a resource at this URI."""
        read = self._find(await self.listing(session_id), READ_RESOURCE, uri, session_id)
        return read.tool is not missing_feature(READ_RESOURCE)

    async def complete(
        self,
        session_id: str,
        who: Principal,
        ref: Mapping[str, str],
        argument: Mapping[str, str],
        known: Mapping[str, str],
    ) -> ArgumentCompletion | None:
        """Complete an argument of a prompt (`ref` has its name) or of a template (its `uri`); None
        when there is no such prompt or template, or the policy denies it to the principal.
        """
        name = GET_PROMPT if "name" in ref else READ_RESOURCE
        key = ref.get("name") or ref.get("uri") or ""
        listing = await self.listing(session_id)
        read = self._find(listing, name, key, session_id)
        if self._is_denied(read, who):
            return None
        route = (listing.prompt_routes if name == GET_PROMPT else listing.template_routes).get(key)
        if route is not None:
            own = {"name": route.key} if name == GET_PROMPT else {"uri": route.key}
            return await route.server.complete(own, argument, known)
        for feature in self._registry.all:
            own_key = feature.name if isinstance(feature, ServedPrompt) else feature.uri
            if own_key == key and isinstance(feature, ServedPrompt) == (name == GET_PROMPT):
                return await feature.arguments.complete(
                    argument["name"], argument.get("value", ""), known
                )
        return ArgumentCompletion() if key in listing.resources else None

    async def subscribe(
        self, session_id: str, who: Principal, uri: str
    ) -> Callable[[], Awaitable[None]]:
        """Have the server of a resource tell of updates; returns what ends that. Raises
        `CallEnded`.
        """
        listing = await self.listing(session_id)
        read = self._find(listing, READ_RESOURCE, uri, session_id)
        if self._is_denied(read, who):
            raise CallEnded("not_permitted", f"{uri!r} is not for this client to read.")
        if read.tool is missing_feature(READ_RESOURCE):
            raise CallEnded("not_found", f"There is no resource {uri!r}.")
        route = self._route(listing, uri, session_id)
        is_own = read.tool.source == OWN_SOURCE

        async def end() -> None:
            if route is None or is_own:
                return
            key = uri, route
            self._subscribed[key] -= 1
            if self._subscribed[key] <= 0:
                del self._subscribed[key]
            await route.server.subscriptions.discard(route.key)

        if route is not None and not is_own:
            await route.server.subscriptions.add(route.key)
            self._subscribed[uri, route] += 1
        return end

    def follow(self, listener: Callable[[FeatureChange], None]) -> Callable[[], None]:
        """Call `listener` on every change, here or at a server, with the URIs that clients know;
        returns the function that ends it.
        """

        def hear(server: RemoteFeatures, change: FeatureChange) -> None:
            if change.kind != "updated":
                listener(change)
                return
            for uri, route in list(self._subscribed):
                if route.server is server and _is_at_or_below(change.uri or "", route.key):
                    listener(FeatureChange("updated", uri))

        end_own = self._registry.subscribe(listener)
        end_servers = self._servers.follow_features(hear)

        def end() -> None:
            end_own()
            end_servers()

        return end

    def _merged(
        self, servers: Sequence[tuple[RemoteFeatures, tuple[Sequence[RemoteFeature], ...]]]
    ) -> FeatureListing:
        own = self._registry.resources
        resources: dict[str, Entry] = {
            each.uri: each.as_mcp() for each in own if not each.is_template
        }
        templates: dict[str, Entry] = {each.uri: each.as_mcp() for each in own if each.is_template}
        prompts: dict[str, Entry] = {each.name: each.as_mcp() for each in self._registry.prompts}
        listing = FeatureListing(resources, templates, prompts, {}, {}, {})
        for server, (listed, listed_templates, listed_prompts) in servers:
            _add(resources, listing.routes, server, listed, "uri")
            _add(templates, listing.template_routes, server, listed_templates, "uriTemplate")
            for prompt in listed_prompts:
                name = f"{server.prefix}{prompt.entry['name']}"
                if name in prompts:
                    logger.warning("the prompt %r of %r is not listed", name, server.source)
                    continue
                prompts[name] = {**prompt.entry, "name": name}
                _put(listing.prompt_routes, name, RemoteRoute(server, prompt.key))
        return listing

    def _find(self, listing: FeatureListing, name: str, key: str, session_id: str) -> FeatureRead:
        own = self._find_own(name, key)
        if own is not None:
            return own
        if name == GET_PROMPT:
            route = listing.prompt_routes.get(key)
            tool = None if route is None else route.server.tool(GET_PROMPT)
            return FeatureRead(tool or missing_feature(GET_PROMPT), {"name": key})
        route = self._route(listing, key, session_id)
        tool = None if route is None else route.server.tool(READ_RESOURCE)
        if route is None or tool is None:
            return FeatureRead(missing_feature(READ_RESOURCE), {"uri": key})
        return FeatureRead(tool, {"uri": route.key})

    def _find_own(self, name: str, key: str) -> FeatureRead | None:
        if name == GET_PROMPT:
            prompts = (each for each in self._registry.prompts if each.name == key)
            return next((FeatureRead(each.tool, {"name": key}) for each in prompts), None)
        for resource in self._registry.resources:
            if resource.uri == key or resource.template.match(key) is not None:
                return FeatureRead(resource.tool, {"uri": key})
        return None

    def _route(self, listing: FeatureListing, uri: str, session_id: str) -> RemoteRoute | None:
        """Where a resource is: listed, named by a result of the session, of a template, with the
        name of its server, or of the one server that has resources at all.
        """
        if uri in listing.routes or uri in listing.template_routes:
            return listing.routes.get(uri) or listing.template_routes[uri]
        servers = self.servers(session_id)
        for server in servers:
            own = server.linked(session_id, uri)
            if own is not None:
                return RemoteRoute(server, own)
        for template, route in listing.template_routes.items():
            if _matches(template, uri):
                return RemoteRoute(route.server, _without_server(uri)[1])
        named, own_uri = _without_server(uri)
        if named is not None:
            return next((RemoteRoute(s, own_uri) for s in servers if s.name == named), None)
        with_resources = [each for each in servers if each.may_have("resources")]
        if len(with_resources) == 1 and _is_uri(uri):
            return RemoteRoute(with_resources[0], uri)
        return None

    def _is_denied(self, read: FeatureRead, who: Principal) -> bool:
        tool, policy = read.tool, self._policy()
        if not is_visible(tool, who.caller()):
            return True
        if policy is None:
            return False
        subject = Subject(
            # Rules know a tool by its name and source; of its identity a list needs nothing.
            tool=ToolRef(tool.name, tool.source, tool.version, "", tool.place),
            arguments=dict(read.arguments),
            is_read_only=True,
            requires_approval=tool.requires_approval,
            caller=who.caller(),
        )
        return policy.judge(subject).effect == "deny"


async def _lists(server: RemoteFeatures) -> tuple[Sequence[RemoteFeature], ...]:
    return tuple(await asyncio.gather(*(server.listed(name) for name in FEATURE_LISTS)))


def _add(
    entries: dict[str, Entry],
    routes: Mapping[str, RemoteRoute],
    server: RemoteFeatures,
    listed: Sequence[RemoteFeature],
    key: str,
) -> None:
    for feature in listed:
        uri = str(feature.entry[key])
        here = uri if uri not in entries else f"{SERVERS}{server.name}/{uri}"
        if here in entries:
            continue
        entries[here] = feature.entry if here == uri else {**feature.entry, key: here}
        _put(routes, here, RemoteRoute(server, feature.key))


def _put(routes: Mapping[str, RemoteRoute], key: str, route: RemoteRoute) -> None:
    assert isinstance(routes, dict)
    routes[key] = route


def _without_server(uri: str) -> tuple[str | None, str]:
    """The name of the server in a URI, and the URI there."""
    if not uri.startswith(SERVERS):
        return None, uri
    name, _, own = uri.removeprefix(SERVERS).partition("/")
    return name, own


def _matches(template: str, uri: str) -> bool:
    parsed = _parsed(template)
    return parsed is not None and parsed.match(uri) is not None


@lru_cache(maxsize=2_048)
def _parsed(template: str) -> UriTemplate | None:
    """A template of a server; None for one that is none."""
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

    try:
        return UriTemplate.parse(template)
    except InvalidUriTemplate:
        return None


def _is_uri(uri: str) -> bool:
    return ":" in uri and uri.isprintable()


def _is_at_or_below(uri: str, subscribed: str) -> bool:
    return uri == subscribed or uri.startswith(subscribed.rstrip("/") + "/")

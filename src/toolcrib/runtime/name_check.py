"""Names of tools in the configuration of a runtime and in the requests of its clients.

A hook, a rule or a denial for a name that no tool has would guard nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from toolcrib.approval.policy_lint import rules_of_one_tool
from toolcrib.approval.tool_names import check_names
from toolcrib.errors import Refused, UsageError
from toolcrib.features.declaration import FEATURE_TOOLS

if TYPE_CHECKING:
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.messages import CreateSession


class NameCheck:
    """Checks the names of a runtime: at its start where all tools are known, otherwise once, with
    the first session after its servers have connected.
    """

    def __init__(self, config: RuntimeConfig) -> None:
        self._config = config
        self._is_done = False

    def at_start(self, known: Collection[str]) -> None:
        """Raise `UsageError` for an unknown name, unless servers may bring the tool."""
        if not self._config.mcp_servers:
            self._check(known)
            self._is_done = True

    def at_session(self, known: Collection[str]) -> None:
        """Log a warning for every name that is still unknown."""
        if not self._is_done:
            self._check(known)
            self._is_done = True

    def session_params(self, params: CreateSession, known: Collection[str]) -> None:
        """Raise `Refused` (invalid) for an unknown name in the tools that a client allows or
        denies.
        """
        known = {*known, *FEATURE_TOOLS}
        for setting, names in (
            ("denied_tools", params.denied_tools),
            ("allowed_tools", params.allowed_tools or ()),
        ):
            try:
                check_names(
                    setting,
                    names,
                    known,
                    expected=(*self._config.expected_tools, *params.expected_tools),
                    more_may_come=bool(self._config.mcp_servers),
                )
            except UsageError as error:
                raise Refused("invalid", f"session.create: {error}") from None

    def _check(self, known: Collection[str]) -> None:
        config, known = self._config, {*known, *FEATURE_TOOLS}
        for setting, names in _settings(config):
            check_names(
                setting,
                names,
                known,
                expected=config.expected_tools,
                more_may_come=bool(config.mcp_servers),
            )


def _settings(config: RuntimeConfig) -> Iterator[tuple[str, Collection[str]]]:
    if config.hooks is not None:
        yield "a hook", config.hooks.names()
    if config.policy is not None:
        for rule in rules_of_one_tool(config.policy):
            yield f'rule "{rule.id}"', (rule.tool,)

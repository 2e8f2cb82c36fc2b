"""A kind that pydantic-ai offers nowhere: it is known, so the error can say more than that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

from toolcrib.adapters.support import check, options_of
from toolcrib.errors import UnsupportedOption
from toolcrib.tools.hosted import HostedTool


class RefusedCodec:
    """Refuses to declare a tool, for the reason that the support matrix gives."""

    call_types: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, provider: str, kind: str) -> None:
        self.provider = provider
        self.kind = kind

    def serialize(self, tool: HostedTool[Any]) -> NoReturn:
        """Always raises `UnsupportedOption`."""
        check(self.provider, self.kind, options_of(tool.config))
        raise UnsupportedOption(self.kind, "anything", self.provider, "no codec speaks for it")

    def parse_output(self, response_items: Sequence[Any], tool: HostedTool[Any]) -> None:
        """Nothing: what is not offered is not run."""

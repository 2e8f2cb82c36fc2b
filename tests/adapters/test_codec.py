"""What every codec has from its base."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from toolcrib.adapters.codec import Codec, HostedToolCodec, Invocation, RawItem
from toolcrib.errors import UnsupportedOption, UsageError
from toolcrib.tools.provider_tools import HostedTool


@dataclass(frozen=True, slots=True)
class TidesConfig:
    harbour: str


class TidesCodec(Codec[TidesConfig, tuple[str, ...]]):
    """A capability that the package knows nothing of."""

    kind = "tides"
    call_types: ClassVar[frozenset[str]] = frozenset({"tides_call", "tides_retry"})
    include: ClassVar[tuple[str, ...]] = ("tides_call.heights",)

    def serialize(self, tool: HostedTool[TidesConfig]) -> dict[str, Any]:
        return {"type": "tides_2031", "harbour": tool.config.harbour}

    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[TidesConfig]
    ) -> Invocation:
        told = f"{tool.config.harbour} {item['id']} of {len(items)}"
        return Invocation(item["id"], self.kind, None, told, told, True, None, item)

    def parse_output(
        self, response_items: Sequence[Any], tool: HostedTool[TidesConfig]
    ) -> tuple[str, ...] | None:
        found = self.invocations(response_items, tool)
        return tuple(each.message for each in found) or None


TOOL = HostedTool[TidesConfig](
    kind="tides", name="tides", description="Tells the tides.", config=TidesConfig("Dover")
)


def test_a_new_kind_needs_nothing_but_its_codec() -> None:
    """H3, H29, H41: config, codec and tool are all there is to it."""
    codec: HostedToolCodec[TidesConfig, tuple[str, ...]] = TidesCodec()

    assert codec.serialize(TOOL) == {"type": "tides_2031", "harbour": "Dover"}
    assert codec.parse_output([{"type": "tides_call", "id": "1"}], TOOL) == ("Dover 1 of 1",)


def test_a_contribution_has_the_entry_and_the_includes() -> None:
    """H32, H39: one entry is not enough, results may have to be asked for."""
    contribution = TidesCodec().contribute(TOOL)

    assert contribution.tools == ({"type": "tides_2031", "harbour": "Dover"},)
    assert (contribution.include, contribution.body) == (("tides_call.heights",), {})


def test_a_tool_is_chosen_by_its_wire_type() -> None:
    """N18: without its options."""
    assert TidesCodec().choice(TOOL) == {"type": "tides_2031"}


def test_calls_are_found_by_type_in_order() -> None:
    """N24, N26, E4: whatever else is among the items, even what has no sane type."""
    items: list[dict[str, Any]] = [
        {"type": "tides_call", "id": "1"},
        {"type": "message", "id": "2"},
        {"id": "3"},
        {"type": ["tides_call"], "id": "4"},
        {"type": "tides_retry", "id": "5"},
    ]

    found = TidesCodec().invocations(items, TOOL)

    assert [each.message for each in found] == ["Dover 1 of 5", "Dover 5 of 5"]


def test_an_option_that_cannot_be_honoured_is_named() -> None:
    """H17: kind, option and provider, for people and for programs."""
    with pytest.raises(UsageError, match="openai cannot do harbour of tides: it is inland") as got:
        raise UnsupportedOption("tides", "harbour", "openai", "it is inland")

    assert isinstance(got.value, UnsupportedOption)
    assert (got.value.kind, got.value.option, got.value.provider) == ("tides", "harbour", "openai")

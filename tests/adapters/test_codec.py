"""What every codec has from its base.

How a provider's failures are told.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from toolcrib.adapters.codec import Codec, HostedToolCodec, Invocation, RawItem, failure_of
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


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"status": "failed"}, "x_call failed"),
        ({"status": "incomplete"}, "x_call incomplete"),
        ({"status": "cancelled"}, "x_call cancelled"),
        ({"status": "failed", "error": "timed out"}, "x_call failed: timed out"),
        (
            {"status": "failed", "error": {"code": "rate_limit", "message": "slow down"}},
            "x_call failed: rate_limit: slow down",
        ),
        ({"status": "failed", "error": {"type": "http_error"}}, "x_call failed: http_error"),
        ({"error": {"code": 404, "message": "gone"}}, "x_call failed: 404: gone"),
    ],
)
def test_a_failure_names_status_code_and_message(item: dict[str, Any], told: str) -> None:
    """N17, E5: what the provider says of a failure is passed on, its code first."""
    assert failure_of({"type": "x_call", **item}) == told


@pytest.mark.parametrize("status", ["completed", "searching", "never_seen", None, ["failed"], 3])
def test_nothing_else_is_a_failure(status: Any) -> None:
    """E4: statuses are open, and may be missing."""
    assert failure_of({"type": "x_call", "status": status, "error": None}) is None


def test_an_error_counts_whatever_the_status_says() -> None:
    """N17: a call that completed with an error did not succeed."""
    item = {"type": "x_call", "status": "completed", "error": {"message": "no such tool"}}

    assert failure_of(item) == "x_call failed: no such tool"

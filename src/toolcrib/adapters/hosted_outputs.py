"""The typed outputs of provider-run tools, derived from the list of calls of a turn.

The output of a tool is made of the values of its calls, and of what the answer adds to all of them
together: its text and citations. An output hook's value counts like any other.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib.adapters.codec import Codec, RawItem
from toolcrib.adapters.items import readable
from toolcrib.adapters.type_fit import cast_value

if TYPE_CHECKING:
    from toolcrib.adapters.hosted_calls import HostedInvocation
    from toolcrib.adapters.tool_declarations import AnyCodec, HostedDeclaration
    from toolcrib.tools.tool import Tool

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class HostedOutputs:
    """Outputs by the name of their tool: over all runs, and of each run."""

    whole: dict[str, Any] = field(default_factory=dict[str, Any])
    by_run: dict[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])


@dataclass(frozen=True, slots=True)
class ToolRuns:
    """A declared tool, its calls of the turn, and the items that its output may draw on."""

    declaration: HostedDeclaration
    tool: Tool[Any, Any]
    """As the prompt declares it, perhaps with types of its own."""
    calls: Sequence[HostedInvocation]
    items: Sequence[RawItem]

    def whole(self) -> Any:
        """The output over all runs; None when there was none. May raise what a codec raises."""
        values = [call.invocation.value for call in self.calls]
        if any(call.is_replaced for call in self.calls) and not self._are_own(values):
            return values[-1]
        output = self._combined(values)
        if output is None:
            self._warn_of_nothing()
        return self._declared(output)

    def by_run(self) -> tuple[Any, ...]:
        """The output of each run that gave something."""
        values = [call.invocation.value for call in self.calls]
        codec, tool = _combining(self.declaration.codec), self.declaration.tool
        if codec is not None and self._are_own(values):
            values = [codec.combine([value], [], tool) for value in values]
        return tuple(value for value in values if value is not None)

    def _combined(self, values: Sequence[Any]) -> Any:
        tool, codec = self.declaration.tool, _combining(self.declaration.codec)
        if codec is None:
            items = [readable(item) for item in self.items]
            return self.declaration.codec.parse_output(items, tool)
        # Values in the tool's own types say the same as the codec's.
        own = values if self._are_own(values) else [call.reading.value for call in self.calls]
        return codec.combine(own, self.items, tool)

    def _are_own(self, values: Sequence[Any]) -> bool:
        """Whether the codec's types are left as they are."""
        own: type[Any] | None = getattr(self.declaration.codec, "result_type", None)
        return own is not None and all(isinstance(value, own) for value in values)

    def _declared(self, output: Any) -> Any:
        """The output in the tool's own type. Where that can hold one run only, it is the last."""
        wanted = self.tool.result_type
        if wanted is None or output is None or isinstance(output, wanted):
            return output
        values = [call.invocation.value for call in self.calls]
        last = values[-1] if values else output
        own: type[Any] | None = getattr(self.declaration.codec, "result_type", None)
        if own is not None and not isinstance(output, own):
            return last
        raw: RawItem = self.calls[-1].invocation.raw if self.calls else {}
        declared = cast_value(wanted, output, raw)
        return declared if isinstance(declared, wanted) else last

    def _warn_of_nothing(self) -> None:
        """A codec that finds nothing in a call of its own kind reads it wrongly."""
        if any(call.invocation.success for call in self.calls):
            logger.warning(
                "the codec of %s (%s) gave no output although the provider ran %r %d times; "
                "see that its parse_output finds the items of this kind",
                self.declaration.tool.kind,
                type(self.declaration.codec).__name__,
                self.declaration.tool.name,
                len(self.calls),
            )


def _combining(codec: AnyCodec) -> Codec[Any, Any] | None:
    """The codec, if it makes outputs from the values of calls; None if it reads the items again."""
    base: Any = Codec
    is_combining = getattr(type(codec), "parse_output", None) is base.parse_output
    return codec if isinstance(codec, Codec) and is_combining else None

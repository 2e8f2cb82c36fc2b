"""The rules that every declaration of a tool obeys. Each error says what to change."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, cast, get_args

from toolcrib.errors import InvalidTool

if TYPE_CHECKING:
    from toolcrib.tools.function_options import FunctionOptions

Cut = Literal["head", "tail", "middle"]
"""The part of an overlong result that the model sees."""

PYTHON = "python"
"""The source of a tool declared in Python code; tools of other sources may have wider names."""

LONGEST_DESCRIPTION = 1024
LONGEST_FOREIGN_DESCRIPTION = 16_384

_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_FOREIGN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_NUMBER = r"(?:0|[1-9][0-9]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


_NOT_AT_THE_PROVIDER: Final[Mapping[str, str]] = {
    "timeout": "bound the prompt instead, with Budget(seconds=...)",
    "max_result_chars": "the provider decides what the model sees; use an option of the kind",
    "cut": "the provider decides what the model sees; use an option of the kind",
    "one_at_a_time": "ask the provider, with settings={'parallel_tool_calls': False}",
    "uses": "it has no handler that could call other tools; leave it out",
    "requires": "no client runs it; offer it with available_when, or in a section with enabled=",
    "deprecated": "the provider tells the model nothing of it; say it in the section's text",
    "output_schema": "the provider defines the result; name a dataclass as result_type",
    "json_schema": "the provider defines the arguments; leave it out",
    "function_options": "the model calls no function of it; leave it out",
    "argument_transform": "the provider defines the arguments; leave it out",
    "visible_to": "no principal calls it; withhold it with a rule of the policy",
    "approval_metadata": "nobody is asked before its calls; requires_approval withholds it",
}
"""Rules that only a handler obeys, and what to do instead where the provider runs a tool."""


class ToolRules(TypedDict, total=False):
    """The fields that any tool accepts besides name, description, types and handler."""

    accepts_overrides: bool
    timeout: float | None
    requires_approval: bool
    is_idempotent: bool
    is_read_only: bool
    one_at_a_time: bool
    version: str
    category: str | None
    max_result_chars: int | None
    cut: Cut
    uses: tuple[str, ...]
    deprecated: str | None
    source: str
    approval_metadata: Callable[[], Mapping[str, Any] | None] | None
    requires: tuple[str, ...]
    function_options: FunctionOptions | None


def check_provider_run(tool: Any) -> None:
    """Refuse rules that mean nothing for a tool that the provider runs: a rule that nobody obeys
    would be taken for one that holds.
    """
    for field in fields(tool):
        advice = _NOT_AT_THE_PROVIDER.get(field.name)
        if field.name == "uses" and getattr(tool, "handle_provider_output", None) is not None:
            # Its output hook may call them.
            continue
        if advice is not None and getattr(tool, field.name) != field.default:
            raise InvalidTool(
                f"tool {tool.name!r}: the provider runs it, so {field.name} has no effect; {advice}"
            )


def check_name(name: object, source: str) -> None:
    """Refuse an invalid name. Python tools need a name that every provider accepts."""
    pattern = _NAME if source == PYTHON else _FOREIGN_NAME
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise InvalidTool(f"a tool's name must match {pattern.pattern}; {_shown(name)} does not")


RESERVED_NAMES: Final = frozenset({"resources.read", "prompts.get"})
"""The tools behind reads of resources and prompts; rules and records know them by these names."""


def check_free(name: str) -> None:
    """Refuse the name of a tool that Toolcrib has itself."""
    if name in RESERVED_NAMES:
        raise InvalidTool(
            f"tool {name!r}: the name is reserved for reads of resources and prompts; choose "
            "another one"
        )


def check_description(name: str, description: object, source: str) -> None:
    """Refuse a description that a model cannot read."""
    longest = LONGEST_DESCRIPTION if source == PYTHON else LONGEST_FOREIGN_DESCRIPTION
    if not isinstance(description, str) or not description.strip():
        raise InvalidTool(f"tool {name!r} has no description; say what it does and when to use it")
    if len(description) > longest:
        raise InvalidTool(
            f"tool {name!r}: the description has {len(description)} characters; "
            f"shorten it to {longest}"
        )
    if not description.replace("\n", "").replace("\t", "").isprintable():
        raise InvalidTool(
            f"tool {name!r}: the description has characters that cannot be printed; remove them"
        )


def check_timeout(name: str, timeout: object) -> None:
    """Refuse a timeout that is no finite number of seconds above 0; no limit is `None`."""
    if timeout is None:
        return
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 0 < cast("float", timeout) < math.inf:
        raise InvalidTool(
            f"tool {name!r}: timeout must be a finite number of seconds above 0, not {timeout!r}; "
            "for no limit pass None"
        )


def check_version(name: str, version: object) -> None:
    """Refuse a version that is not a semantic version."""
    if not isinstance(version, str) or not _SEMVER.fullmatch(version):
        raise InvalidTool(
            f"tool {name!r}: version must be a semantic version like '1.2.0', not {_shown(version)}"
        )


def check_names(name: str, field: str, values: object) -> None:
    """Refuse anything but a tuple of names; a single string is a common mistake."""
    if not isinstance(values, tuple) or not _are_names(cast("tuple[object, ...]", values)):
        raise InvalidTool(f"tool {name!r}: {field} must be a tuple of names, not {values!r}")


def check_result_limit(name: str, limit: object, cut: object) -> None:
    """Refuse an invalid limit on the part of a result that the model sees."""
    is_count = isinstance(limit, int) and not isinstance(limit, bool) and limit > 0
    if limit is not None and not is_count:
        raise InvalidTool(
            f"tool {name!r}: max_result_chars must be a whole number above 0, not {limit!r}"
        )
    if cut not in get_args(Cut):
        raise InvalidTool(f"tool {name!r}: cut must be one of {get_args(Cut)}, not {_shown(cut)}")


def check_text(name: str, field: str, text: object) -> None:
    """Refuse a blank note."""
    if text is not None and (not isinstance(text, str) or not text.strip()):
        raise InvalidTool(f"tool {name!r}: {field} must be None or a text, not {_shown(text)}")


def check_callable(name: str, field: str, function: object) -> None:
    """Refuse an optional function that is not callable."""
    if function is not None and not callable(function):
        raise InvalidTool(f"tool {name!r}: {field} must be callable, not {_shown(function)}")


def _are_names(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) and value for value in values)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."

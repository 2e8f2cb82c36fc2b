"""OpenAI's code interpreter, bound to that provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from toolcrib.errors import InvalidTool
from toolcrib.tools.code_interpreter import (
    DESCRIPTION,
    AutoContainer,
    CodeInterpreterConfig,
    CodeInterpreterResult,
    Container,
)
from toolcrib.tools.openai_container import check_mounts, read_container, read_mounts
from toolcrib.tools.provider import OutputHook, ProviderTool
from toolcrib.tools.rules import ToolRules
from toolcrib.vfs import HostMount

if TYPE_CHECKING:
    from toolcrib.tools.example import ToolExample

PROVIDER: Final = "openai"


class _Fields(ToolRules, total=False):
    """What `dataclasses.replace` passes on besides the rules; none of it can be chosen."""

    handler: None
    params_type: None
    result_type: type[CodeInterpreterResult] | None
    calling: Any
    json_schema: None
    provider: str


@dataclass(frozen=True, slots=True, init=False)
class OpenAICodeInterpreterTool(ProviderTool[None, CodeInterpreterResult, CodeInterpreterConfig]):
    """Python in an OpenAI container. It takes no arguments: the model writes the code.

    `container` is an `AutoContainer`, an `ExistingContainer`, or a dict in the words of OpenAI's
    API. `host_mounts` are files of the host that the adapter uploads before the first request.
    """

    host_mounts: tuple[HostMount, ...] = field(default=())

    def __init__(
        self,
        *,
        name: str = "code_interpreter",
        description: str = DESCRIPTION,
        container: Container | Mapping[str, Any] | None = None,
        config: CodeInterpreterConfig | None = None,
        host_mounts: tuple[HostMount, ...] = (),
        handle_provider_output: OutputHook[CodeInterpreterResult] | None = None,
        examples: tuple[ToolExample[None, CodeInterpreterResult], ...] = (),
        **fields: Unpack[_Fields],
    ) -> None:
        if container is not None and config is not None:
            raise InvalidTool(f"tool {name!r}: pass container= or config=, not both")
        if fields.get("provider", PROVIDER) != PROVIDER or fields.get("handler") is not None:
            raise InvalidTool(
                f"tool {name!r}: OpenAI runs this tool, so it takes no handler and no other "
                "provider; declare a ProviderTool of your own for that"
            )
        host_mounts = check_mounts(name, host_mounts)
        if isinstance(container, Mapping):
            host_mounts += read_mounts(name, container)
            container = read_container(name, container)
        chosen = config or CodeInterpreterConfig(container or AutoContainer())
        object.__setattr__(self, "host_mounts", host_mounts)
        others = cast("dict[str, Any]", {"result_type": CodeInterpreterResult, **fields})
        super(OpenAICodeInterpreterTool, self).__init__(
            name=name,
            description=description,
            provider=others.pop("provider", PROVIDER),
            config=chosen,
            handle_provider_output=handle_provider_output,
            examples=examples,
            **others,
        )

    @property
    def container(self) -> Container:
        """Where the code runs."""
        return self.config.container

"""`adapter.describe(tool)`: the wire entry of a tool, without a request."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from openai import OpenAI

from tests.adapters.openai.loopback_adapter import KEY
from tests.adapters.openai.scripted_provider import Provider, message, response
from toolcrib import (
    HostedTool,
    MarkdownSection,
    NativeTool,
    Prompt,
    PromptEvaluationError,
    Session,
    tool,
)
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.errors import InvalidTool, UsageError
from toolcrib.tools import OpenAICodeInterpreterTool
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    DomainSecret,
    NetworkPolicy,
    code_interpreter_tool,
)
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.web_search import GeoHint, WebSearchConfig, web_search_tool

SECRET = "value-0123456789"


@pytest.fixture
def adapter() -> OpenAIAdapter:
    return OpenAIAdapter(model="gpt-5.4", api_key=KEY)


def prompt(*tools: Any) -> Prompt[str]:
    section = MarkdownSection[None](title="T", key="t", template="x", tools=tools)
    return Prompt(ns="a", key="b", sections=[section])


def test_a_hosted_tool_is_described_as_it_is_sent(adapter: OpenAIAdapter) -> None:
    """Finding 12: there is a public way from a tool to its wire entry."""
    searching = web_search_tool(WebSearchConfig(geo_hint=GeoHint(city="London")))

    assert adapter.describe(searching) == {
        "type": "web_search",
        "user_location": {"type": "approximate", "city": "London"},
    }
    native = NativeTool[None, Described](name="web_search", description="Search.")
    assert adapter.describe(native) == {"type": "web_search"}


@dataclass(frozen=True, slots=True)
class Described:
    text: str = ""


def test_a_function_is_described_too(adapter: OpenAIAdapter) -> None:
    """Any tool can be looked at, in the form of its provider."""

    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    entry = adapter.describe(add)
    assert (entry["type"], entry["name"], entry["strict"]) == ("function", "add", False)
    assert set(entry["parameters"]["properties"]) == {"a", "b"}


def test_secrets_are_hidden_unless_asked_for(adapter: OpenAIAdapter) -> None:
    """A description may be printed, so it holds no credential by default."""
    policy = NetworkPolicy(("a.com",), (DomainSecret("a.com", "K", SECRET),))
    container = AutoContainer(network_policy=policy)
    described = code_interpreter_tool(CodeInterpreterConfig(container))
    server = mcp_tool(
        McpConfig(server_label="s", server_url="https://a.org/", authorization=SECRET)
    )

    for each in (described, server):
        assert SECRET not in json.dumps(adapter.describe(each))
        assert SECRET in json.dumps(adapter.describe(each, show_secrets=True))
    shown = adapter.describe(described, show_secrets=True)["container"]["network_policy"]
    assert shown["domain_secrets"] == [{"domain": "a.com", "name": "K", "value": SECRET}]


def test_what_a_provider_lacks_is_refused_by_name(adapter: OpenAIAdapter) -> None:
    """Nothing is described that could not be sent."""
    with pytest.raises(UsageError, match="Unsupported hosted tool kind 'teleport'"):
        adapter.describe(
            HostedTool(kind="teleport", name="t", description="T.", config=Described())
        )


def test_extra_fields_are_merged_into_the_entry(adapter: OpenAIAdapter) -> None:
    """A field that is newer than this package reaches the wire, inside objects too."""
    newer = code_interpreter_tool(extra={"language": "r", "container": {"gpu": True}})

    assert adapter.describe(newer) == {
        "type": "code_interpreter",
        "container": {"type": "auto", "memory_limit": "1g", "gpu": True},
        "language": "r",
    }
    bound = OpenAICodeInterpreterTool(extra={"language": "r"})
    assert adapter.describe(bound)["language"] == "r"


@pytest.mark.parametrize("extra", [{"container": "cntr_1"}, {"container": {"memory_limit": "64g"}}])
def test_extra_never_overrides_a_typed_option(
    adapter: OpenAIAdapter, extra: dict[str, Any]
) -> None:
    """What the options write is refused in extra, before anything is sent."""
    overriding = code_interpreter_tool(extra=extra)

    with pytest.raises(UsageError, match=r"extra has 'container.*set it in config"):
        adapter.describe(overriding)
    with pytest.raises(PromptEvaluationError, match="set it in config") as caught:
        adapter.evaluate(prompt(overriding))
    assert caught.value.phase == "render"


def test_approvals_of_a_server_cannot_be_switched_off_by_extra(adapter: OpenAIAdapter) -> None:
    """The entry always says whether it asks, so extra cannot."""
    server = mcp_tool(
        McpConfig(server_label="s", server_url="https://a.org/"),
        extra={"require_approval": "never"},
    )
    with pytest.raises(UsageError, match="require_approval"):
        adapter.describe(server)


def test_pydantic_ai_refuses_fields_it_does_not_know() -> None:
    """The library in between would drop them in silence."""
    from pydantic_ai.models.test import TestModel

    adapter = PydanticAIAdapter(TestModel(), provider="openai-responses")
    assert adapter.describe(web_search_tool()) == {"type": "web_search"}
    with pytest.raises(PromptEvaluationError, match="cannot declare 'web_search'"):
        adapter.evaluate(prompt(web_search_tool(extra={"newer": 1})))


def test_the_container_of_document_c_goes_into_a_call_of_the_sdk() -> None:
    """Finding 12: `tools=[{"container": tool.container}]` works with OpenAI's own client."""
    interpreter = OpenAICodeInterpreterTool(
        name="openai_python",
        container={"type": "auto", "memory_limit": "4g", "file_ids": ["file_csv_upload"]},
    )
    container_config: Any = interpreter.container
    with Provider(response(message("done"))) as provider:
        client = OpenAI(base_url=provider.url, api_key=KEY)
        answer = client.responses.create(
            model="gpt-4.1",
            tools=[{"type": "code_interpreter", "container": container_config}],
            tool_choice="required",
            input="Load the file.",
        )
        client.close()

    assert answer.output_text == "done"
    assert provider.bodies[0]["tools"] == [
        {
            "type": "code_interpreter",
            "container": {
                "type": "auto",
                "memory_limit": "4g",
                "file_ids": ["file_csv_upload"],
            },
        }
    ]


def test_domain_secrets_of_a_dict_reach_the_wire_and_nothing_else() -> None:
    """Finding 6: they are sent, and are in no event and no record."""
    interpreter = OpenAICodeInterpreterTool(
        container={
            "type": "auto",
            "network_policy": {
                "type": "allowlist",
                "allowed_domains": ["a.com"],
                "domain_secrets": [{"domain": "a.com", "name": "K", "value": SECRET}],
            },
        }
    )
    session = Session()
    with Provider(response(message(f"the key is {SECRET}"))) as provider:
        adapter = OpenAIAdapter(model="gpt-5.4", base_url=provider.url, api_key=KEY)
        adapter.evaluate(prompt(interpreter), session=session)
        adapter.close()

    sent = provider.bodies[0]["tools"][0]["container"]["network_policy"]["domain_secrets"]
    assert sent == [{"domain": "a.com", "name": "K", "value": SECRET}]
    assert SECRET not in repr(session.records())
    assert SECRET not in repr(interpreter)


@pytest.mark.parametrize(
    "policy",
    [
        {"type": "disabled", "colour": SECRET},
        {"type": "allowlist", "allowed_domains": ["a.com"], "colour": SECRET},
        {"type": "allowlist", "allowed_domains": ["a.com"], "domain_secrets": SECRET},
        {"type": "allowlist", "allowed_domains": ["a.com"], "domain_secrets": [{"value": SECRET}]},
        {"type": "open", "secret": SECRET},
    ],
)
def test_unknown_keys_of_a_network_policy_are_refused(policy: dict[str, Any]) -> None:
    """Finding 6: no key is dropped, and no error shows a value."""
    with pytest.raises(InvalidTool, match="network_policy") as caught:
        OpenAICodeInterpreterTool(container={"type": "auto", "network_policy": policy})
    assert SECRET not in str(caught.value)


def test_the_options_of_a_search_reach_the_wire(adapter: OpenAIAdapter) -> None:
    """The size of the context is OpenAI's; the number of uses is refused by name."""
    searching = web_search_tool(WebSearchConfig(search_context_size="high"))

    assert adapter.describe(searching) == {"type": "web_search", "search_context_size": "high"}
    with pytest.raises(UsageError, match=r"max_uses.*max_tool_calls"):
        adapter.describe(web_search_tool(WebSearchConfig(max_uses=2)))


@pytest.mark.parametrize(
    "options",
    [{"search_context_size": "huge"}, {"max_uses": 0}, {"max_uses": True}],
)
def test_wrong_options_of_a_search_are_refused(options: dict[str, Any]) -> None:
    """Each error names the option and what it takes."""
    with pytest.raises(InvalidTool, match=next(iter(options))):
        WebSearchConfig(**options)


@pytest.mark.parametrize("callers", [(), ("nobody",), ("direct", "direct"), ["direct"], "direct"])
def test_callers_are_a_tuple_of_known_words(callers: Any) -> None:
    """Who may call a tool is nothing to guess about."""
    with pytest.raises(InvalidTool, match="allowed_callers"):
        CodeInterpreterConfig(allowed_callers=callers)

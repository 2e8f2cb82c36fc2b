"""Provider-run tools in sections: one store, two ways in, and an override point."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.prompt.samples import hosted, local, look_up, names, native, prompt, section
from toolcrib import HostedTool, MarkdownSection, Tool
from toolcrib.errors import InvalidPrompt
from toolcrib.tools import OpenAICodeInterpreterTool, ProviderTool
from toolcrib.tools.web_search import (
    DomainFilter,
    WebSearchConfig,
    WebSearchSection,
    web_search_tool,
)

ANYWHERE = WebSearchConfig()


@dataclass(frozen=True)
class EmptyParams: ...


class SearchSection(MarkdownSection[EmptyParams]):
    """A section as the document on hosted tools writes it: the tool first, then the section."""

    def __init__(self, config: WebSearchConfig = ANYWHERE, *, key: str = "web_search") -> None:
        self._tool = web_search_tool(config)
        super().__init__(title="Web Search", key=key, template="Search the web.")

    def hosted_tools(self) -> tuple[HostedTool[WebSearchConfig], ...]:
        return (self._tool,)


@pytest.mark.parametrize("made", [SearchSection, WebSearchSection])
def test_the_override_point_offers_its_tools(made: Any) -> None:
    """H24, H26: what `hosted_tools()` returns is offered, with the options of the section."""
    config = WebSearchConfig(domain_filter=DomainFilter(allowed=("www.who.int",)))
    rendered = prompt(section(), made(config)).render()

    assert rendered.hosted_tools == (web_search_tool(config),)
    assert rendered.tools == ()


def test_the_web_search_section_has_its_own_text() -> None:
    """H26: title, key and template are there without being asked for."""
    made = WebSearchSection(key="search")

    assert (made.title, made.key) == ("Web Search", "search")
    assert prompt(made).render().text.startswith("## Web Search\n\nYou can search the web.")


def test_a_section_offers_no_hosted_tools_by_default() -> None:
    """H24: the override point returns nothing unless somebody says so."""
    assert section().hosted_tools() == ()
    assert section(tools=[local(), look_up]).hosted_tools() == ()


def test_hosted_tools_are_taken_inline() -> None:
    """H25: `MarkdownSection(hosted_tools=(...))` needs no class of one's own."""
    made = section(template="Find $topic", hosted_tools=(hosted("cached_search"),))

    assert names(prompt(made).bind(topic="bees").render().hosted_tools) == ["cached_search"]


@pytest.mark.parametrize("argument", ["tools", "hosted_tools"])
@pytest.mark.parametrize("tool", [hosted("it"), native("it"), OpenAICodeInterpreterTool(name="it")])
def test_both_arguments_take_every_tool_of_the_provider(argument: str, tool: Any) -> None:
    """X7, N1: one store; where a tool runs decides which view shows it, not how it got in."""
    options: dict[str, Any] = {argument: [tool]}
    made = section(**options)

    assert made.tools() == made.hosted_tools() == (tool,)
    rendered = prompt(made).render()
    assert (rendered.tools, rendered.hosted_tools) == ((), (tool,))


def test_a_provider_tool_with_a_handler_is_a_tool_of_ours() -> None:
    """X7: the views go by place, and this one runs here."""
    patch = ProviderTool[None, str, None](
        name="patch", description="Patch.", provider="openai", config=None, handler=lambda _: "ok"
    )
    rendered = prompt(section(tools=[patch])).render()

    assert (rendered.tools, rendered.hosted_tools) == ((patch,), ())


@pytest.mark.parametrize("tool", [local("mine"), look_up, Tool(name="mine", description="M.")])
def test_hosted_tools_takes_no_tool_of_ours(tool: Any) -> None:
    """X7: a tool that runs elsewhere is refused, and the error says where it belongs."""
    with pytest.raises(InvalidPrompt, match=r"section 'task': the provider does not run .*tools"):
        section(hosted_tools=[tool])


class Choosy(MarkdownSection[Any]):
    """Offers what its maker chose, instead of what it was given."""

    def __init__(self, chosen: tuple[Any, ...] | None, **options: Any) -> None:
        super().__init__(title="Choosy", key="choosy", template="Choose.", **options)
        self.chosen = chosen

    def hosted_tools(self) -> tuple[Any, ...]:
        return super().hosted_tools() if self.chosen is None else self.chosen


def test_the_override_point_has_the_last_word() -> None:
    """X7: a provider-run tool that `hosted_tools()` leaves out is not offered."""
    made = Choosy((), tools=[local(), native()], hosted_tools=[hosted()])

    assert names(prompt(made).render().declared) == ["local"]


def test_the_override_point_can_add_to_what_was_given() -> None:
    """H24, X7: given and computed tools stand side by side, each once, in order."""
    given, extra = hosted("given"), hosted("extra")
    made = Choosy((extra, given), tools=[local(), given])

    assert names(made.tools()) == ["local", "given", "extra"]
    assert names(Choosy(None, tools=[given, local()]).tools()) == ["given", "local"]


@pytest.mark.parametrize("wrong", [local("mine"), "web_search"])
def test_the_override_point_is_checked_too(wrong: Any) -> None:
    """X7: what is no tool of the provider is refused at rendering, with its place."""
    with pytest.raises(InvalidPrompt, match=r"^prompt 'tests:sample': section 'choosy': "):
        prompt(Choosy((wrong,))).render()


def test_hosted_tools_follow_the_flags_of_their_section() -> None:
    """H4, N29: what the override point computes is withheld with its section."""
    off = SearchSection().clone(enabled=lambda _: False)
    short = SearchSection().clone(visibility="summary", summary="Search is off.")

    assert prompt(off).render().declared == ()
    assert prompt(short).render().declared == ()
    assert prompt(section(children=[short])).render().text.endswith("Search is off.")

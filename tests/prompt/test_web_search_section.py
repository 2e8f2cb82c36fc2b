"""The section that comes with web search."""

import pytest

import toolcrib.tools.web_search
from toolcrib.prompt.prompt import Prompt
from toolcrib.prompt.section import MarkdownSection
from toolcrib.tools.web_search import (
    DomainFilter,
    WebSearchConfig,
    WebSearchSection,
    web_search_tool,
)

NEWS_ONLY = WebSearchConfig(domain_filter=DomainFilter(allowed=("news.example",)))


def test_a_section_offers_a_search() -> None:
    """H24, H26: without options it is the default search, under the title everyone expects."""
    section = WebSearchSection()

    assert (section.key, section.title) == ("web_search", "Web Search")
    assert section.hosted_tools() == (web_search_tool(),)
    assert section.tools() == section.hosted_tools()


def test_a_section_takes_config_and_key() -> None:
    """H26: the config reaches the tool."""
    section = WebSearchSection(config=NEWS_ONLY, key="news")

    assert section.key == "news"
    assert [tool.config for tool in section.hosted_tools()] == [NEWS_ONLY]


def test_a_prompt_with_the_section_offers_the_tool_once() -> None:
    """H27, H28: text and tool arrive in the rendered prompt."""
    task = MarkdownSection[None](title="Task", key="task", template="Answer: $question")
    prompt = Prompt[str](ns="research", key="lookup", sections=(task, WebSearchSection()))

    rendered = prompt.bind(question="Why?").render()

    assert "## Web Search\n\nYou can search the web." in rendered.text
    assert rendered.hosted_tools == (web_search_tool(),)
    assert rendered.tools == ()


def test_a_section_can_be_cloned() -> None:
    """H26: a clone under another key offers the same search."""
    cloned = WebSearchSection(NEWS_ONLY).clone(key="news")

    assert (cloned.key, cloned.title) == ("news", "Web Search")
    assert [tool.config for tool in cloned.hosted_tools()] == [NEWS_ONLY]


def test_a_misspelt_name_is_an_attribute_error() -> None:
    """The section is loaded on demand; nothing else is."""
    with pytest.raises(AttributeError, match="no attribute 'WebSearchSektion'"):
        _ = toolcrib.tools.web_search.WebSearchSektion  # pyright: ignore

"""Examples of tools: shown in the text of their section, because no provider takes them."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field

from tests.prompt.samples import Found, Question, hosted, local, native, prompt, section
from toolcrib import NativeTool, Tool, ToolExample
from toolcrib.tools.prepared_tool import prepare

SEARCH = ToolExample(
    description="Look for\n  recent news.",
    input=Question("news?"),
    output=Found(("a", "b")),
)


@dataclass
class Page:
    text: str

    def render(self) -> str:
        return self.text


class Aliased(BaseModel):
    query: Annotated[str, Field(alias="q")]


def rendered(*tools: Tool[Any, Any], **options: Any) -> str:
    return prompt(section(tools=tools, **options)).render().text


def test_examples_follow_the_text_of_their_section() -> None:
    """N13: what the tool is for, its arguments and its result, for tools of every place."""
    text = rendered(local(examples=(SEARCH,)), native(examples=(SEARCH, SEARCH)), hosted())

    shown = (
        '- Look for recent news.\n  - input: {"question":"news?"}\n  - output: {"pages":["a","b"]}'
    )
    assert text == (
        f"## Task\n\nDo it.\n\nExamples of `local`:\n\n{shown}\n\n"
        f"Examples of `native`:\n\n{shown}\n{shown}"
    )


def test_a_result_is_shown_as_the_model_would_read_it() -> None:
    """N13: text as text, a rendering result as it renders itself, within the list."""
    page = NativeTool[None, Page](
        name="page",
        description="Open.",
        examples=(ToolExample(description="Open it.", input=None, output=Page("one\ntwo")),),
    )
    word = Tool[Question, str](
        name="word",
        description="Say.",
        examples=(ToolExample(description="Say it.", input=Question("?"), output="yes"),),
    )

    text = rendered(page, word)

    assert "- Open it.\n  - output: one\n    two" in text
    assert "  - output: yes" in text


def test_the_input_of_an_example_is_one_that_the_tool_takes() -> None:
    """N13: the model sees the names that it must write."""
    bees = Aliased.model_validate({"q": "bees"})
    tool = Tool[Aliased, Found](
        name="find",
        description="Find.",
        examples=(ToolExample(description="Find it.", input=bees, output=Found()),),
    )

    line = next(line for line in rendered(tool).splitlines() if "input: " in line)

    assert prepare(tool).parse(line.partition("input: ")[2]) == bees


def test_examples_go_with_their_tools() -> None:
    """H4, N13: a section that offers no tools shows no examples of them."""
    text = rendered(local(examples=(SEARCH,)), visibility="summary", summary="Short.")

    assert text == "## Task\n\nShort."


def test_examples_stay_when_a_text_is_empty() -> None:
    """N13: a section may consist of its tools alone."""
    assert rendered(local(examples=(SEARCH,)), template="").startswith("## Task\n\nExamples of")


def test_only_what_there_is_is_shown() -> None:
    """N13: a tool without a result has an example without one."""
    tool = Tool[Question, None](
        name="note",
        description="Note.",
        examples=(ToolExample(description="Note it.", input=Question("?"), output=None),),
    )

    assert rendered(tool).endswith('- Note it.\n  - input: {"question":"?"}')


def test_a_value_that_json_cannot_hold_is_shown_as_text() -> None:
    """N13: an example never keeps a prompt from being rendered."""

    class Odd:
        def __str__(self) -> str:
            return "odd one"

    tool = Tool[Question, object](
        name="odd",
        description="Odd.",
        examples=(
            ToolExample(description="One.", input=Question("?"), output=Odd()),
            ToolExample(description="Two.", input=Question("?"), output={"raw": b"\xff"}),
        ),
    )

    assert '"odd one"' in rendered(tool)
    assert '{"raw":"_w=="}' in rendered(tool)

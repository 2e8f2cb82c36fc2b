"""Functions of ours as OpenAI takes them: deferred, in groups, for programs, as free text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, call, message, response
from toolcrib import Approve, Deny, PromptEvaluationError, Session, ToolInvoked, tool
from toolcrib.adapters.openai import Governance
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.approval import CallbackApprover
from toolcrib.errors import InvalidTool
from toolcrib.tools.function_options import FreeForm, FunctionOptions, Namespace
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.program import ProgramResult, program_tool
from toolcrib.tools.tool_search import tool_search_tool

ANSWER = response(message("Fine."))
CRM = Namespace("crm", "Customers and their orders.")
LATER = FunctionOptions(defer_loading=True, namespace=CRM)
PROGRAMS = FunctionOptions(allowed_callers=("programmatic",))


@tool(function_options=LATER)
def find_customer(name: str) -> str:
    """Find a customer."""
    return f"{name}: 7"


@tool(function_options=LATER)
def list_orders(customer: int) -> str:
    """List the orders of a customer."""
    return "none"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(function_options=PROGRAMS)
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def entries(*tools: Any, hosted: Any = ()) -> list[Json]:
    with bench(ANSWER) as (adapter, provider):
        adapter.evaluate(ask(*tools, hosted=hosted))
    return provider.bodies[0]["tools"]


def refused(*tools: Any, hosted: Any = ()) -> str:
    with bench() as (adapter, provider), pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(ask(*tools, hosted=hosted))
    assert provider.requests == []
    assert caught.value.phase == "render"
    return str(caught.value)


def test_deferred_functions_wait_in_their_namespace() -> None:
    """A model with many tools reads the groups, and searches for what it needs."""
    group, plain, search = entries(find_customer, add, list_orders, hosted=[tool_search_tool()])

    assert (group["type"], group["name"], group["description"]) == (
        "namespace", "crm", "Customers and their orders.",
    )  # fmt: skip
    assert [each["name"] for each in group["tools"]] == ["find_customer", "list_orders"]
    assert all(each["defer_loading"] for each in group["tools"])
    assert plain["name"] == "add"
    assert "defer_loading" not in plain
    assert search == {"type": "tool_search", "execution": "server"}


def test_a_function_that_was_found_is_called_like_any_other() -> None:
    """The executor runs it, and the ledger has it."""
    asking = {**call("find_customer", {"name": "ann"}), "namespace": "crm"}
    session = Session()
    with bench(response(asking), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(find_customer, hosted=[tool_search_tool()]), session=session)

    assert provider.bodies[1]["input"][0]["output"] == "ann: 7"
    (event,) = happened(session, ToolInvoked)
    assert (event.name, event.success) == ("find_customer", True)


def test_a_tool_that_nobody_could_find_is_refused() -> None:
    """Deferred without a search, it would be out of reach for ever."""
    assert "add tool_search_tool()" in refused(find_customer)


def test_programs_call_our_functions_through_the_executor() -> None:
    """Programmatic calling: the program is recorded with its result, and each of its calls with its
    own; the answer names the program that asked.
    """
    program = {"type": "program", "id": "cm_1", "call_id": "call_p", "code": "double(21)",
               "fingerprint": "f"}  # fmt: skip
    caller = {"type": "program", "caller_id": "call_p"}
    asking = {**call("double", {"number": 21}, "call_1"), "caller": caller}
    ended = {"type": "program_output", "id": "cmo_1", "call_id": "call_p", "result": "42",
             "status": "completed"}  # fmt: skip
    session = Session()
    programs = program_tool()
    with bench(response(program, asking), response(ended, message("42"))) as (adapter, provider):
        answer = adapter.evaluate(ask(double, hosted=[programs]), session=session)

    assert provider.bodies[0]["tools"][0]["allowed_callers"] == ["programmatic"]
    assert provider.bodies[0]["tools"][1] == {"type": "programmatic_tool_calling"}
    (output,) = provider.bodies[1]["input"]
    assert (output["output"], output["caller"]) == ("42", caller)
    ran, whole = happened(session, ToolInvoked)
    assert (ran.name, ran.origin, whole.name, whole.success) == ("double", "local", "program", True)
    assert answer.output_of(programs) == ProgramResult("double(21)", "42")
    assert dict(answer.skipped) == {}


def test_calls_of_a_program_pass_the_gate() -> None:
    """Code that a model wrote is no reason to run something that a person must approve."""

    @tool(function_options=PROGRAMS, requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError("it must not run")

    program = {"type": "program", "id": "cm_1", "call_id": "call_p", "code": "pay(1)"}
    asking = {**call("pay", {"amount": 1}), "caller": {"type": "program", "caller_id": "call_p"}}
    governance = Governance(approver=CallbackApprover(lambda request: Deny("no")))
    with bench(response(program, asking), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(pay, hosted=[program_tool()]), governance=governance)

    assert "no" in provider.bodies[1]["input"][0]["output"]


def test_a_tool_for_programs_needs_programs() -> None:
    """Only a program could call it, and there would be none."""
    assert "add program_tool()" in refused(double)


def test_the_result_of_a_function_is_described_to_programs() -> None:
    """Code must know what it gets."""
    from toolcrib import Tool

    def count(arguments: Any, context: Any) -> Any:
        return {"count": 1}

    counting = Tool[Any, Any](
        name="count", description="Count.", handler=count, calling="input",
        json_schema={"type": "object"}, output_schema={"type": "object"}, function_options=PROGRAMS,
    )  # fmt: skip

    assert entries(counting, hosted=[program_tool()])[0]["output_schema"] == {"type": "object"}


@tool(function_options=FunctionOptions(free_form=FreeForm("regex", "[a-z]+")))
def shout(word: str) -> str:
    """Say it loudly."""
    return word.upper()


@tool(function_options=FunctionOptions(free_form=FreeForm()))
def note(text: str) -> str:
    """Write a note."""
    return text


def test_free_form_tools_take_plain_text() -> None:
    """Custom tools: no JSON around what the model writes; a grammar binds it."""
    asking = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_1", "name": "shout",
              "input": 'say "hi"'}  # fmt: skip
    session = Session()
    with bench(response(asking), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(shout, note), session=session, tool_choice="shout")

    custom, plain = provider.bodies[0]["tools"]
    grammar = {"type": "grammar", "syntax": "regex", "definition": "[a-z]+"}
    assert (custom["type"], custom["name"], custom["format"]) == ("custom", "shout", grammar)
    assert (plain["type"], plain["format"]) == ("custom", {"type": "text"})
    assert provider.bodies[0]["tool_choice"] == {"type": "custom", "name": "shout"}
    (output,) = provider.bodies[1]["input"]
    assert (output["type"], output["output"]) == ("custom_tool_call_output", 'SAY "HI"')
    (event,) = happened(session, ToolInvoked)
    assert event.name == "shout"


def test_a_free_form_tool_passes_the_gate() -> None:
    """It is a call like any other: a person is asked about the text."""

    @tool(function_options=FunctionOptions(free_form=FreeForm()), requires_approval=True)
    def sql(query: str) -> str:
        """Run a query."""
        return "3 rows"

    seen: list[Any] = []

    def answer(request: Any) -> Approve:
        seen.append(request.arguments)
        return Approve()

    asking = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_1", "name": "sql",
              "input": "select 1"}  # fmt: skip
    with bench(response(asking), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(sql), governance=Governance(approver=CallbackApprover(answer)))

    assert seen == [{"query": "select 1"}]
    assert provider.bodies[1]["input"][0]["output"] == "3 rows"


def test_a_free_form_tool_has_one_argument() -> None:
    """One text has one place to go."""

    @tool(function_options=FunctionOptions(free_form=FreeForm()))
    def both(a: str, b: str) -> str:
        """Two."""
        return a + b

    @tool(function_options=FunctionOptions(free_form=FreeForm()))
    def number(a: int) -> int:
        """One."""
        return a

    for wrong in (both, number):
        with pytest.raises(InvalidTool, match="free_form needs exactly one argument"):
            prepare(wrong)


@pytest.mark.parametrize(
    ("wrong", "option"), [(find_customer, "defer_loading"), (double, "allowed_callers"),
                          (shout, "free_form.definition")],
)  # fmt: skip
def test_other_providers_refuse_what_they_would_drop(wrong: Any, option: str) -> None:
    """Each option is named, and what to do; plain free text is offered as a function."""
    from pydantic_ai.models.test import TestModel

    model = TestModel(call_tools=[], custom_output_text="Fine.")
    adapter = PydanticAIAdapter(model, provider="anthropic")

    with pytest.raises(PromptEvaluationError, match=rf"{option}.*leave it out there"):
        adapter.evaluate(ask(wrong))
    assert adapter.evaluate(ask(note)).text == "Fine."


@pytest.mark.parametrize(
    "make",
    [
        lambda: FunctionOptions(defer_loading="yes"),  # pyright: ignore[reportArgumentType]
        lambda: FunctionOptions(namespace="crm"),  # pyright: ignore[reportArgumentType]
        lambda: FunctionOptions(allowed_callers=("nobody",)),  # pyright: ignore[reportArgumentType]
        lambda: FunctionOptions(free_form="text"),  # pyright: ignore[reportArgumentType]
        lambda: FreeForm("lark"),
        lambda: FreeForm(definition="[a-z]"),
        lambda: FreeForm("bnf", "x"),  # pyright: ignore[reportArgumentType]
        lambda: Namespace("a b", "Spaces."),
        lambda: Namespace("a", " "),
        lambda: tool(function_options={"defer_loading": True})(add.__wrapped__),  # pyright: ignore[reportArgumentType]
    ],
)
def test_wrong_options_are_refused_when_written(make: Any) -> None:
    """Every error names the option."""
    with pytest.raises(InvalidTool, match=r"FunctionOptions|FreeForm|Namespace"):
        make()


def test_a_description_shows_the_form() -> None:
    """`describe` knows the options of functions too."""
    with bench() as (adapter, _):
        entry = adapter.describe(find_customer)

    assert entry["defer_loading"] is True
    assert json.dumps(entry)

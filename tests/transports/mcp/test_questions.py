"""Questions of handlers to the person at an MCP client, in both eras of the protocol."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, InputRequiredResult

from tests.helpers.patience import PATIENCE
from tests.transports.mcp.connected_client import (
    ERAS,
    STATELESS,
    TEXT,
    Person,
    connected,
    facts_of,
    text_of,
)
from toolcrib.approval.question import Question
from toolcrib.host_tools import HostToolDefinition, ToolContext
from toolcrib.ledger.question_events import QuestionAnswered
from toolcrib.tools.identity import ToolRef
from toolcrib.tools.params import strict_type
from toolcrib.transports.question_form import choices_of, form_of

each_era = pytest.mark.parametrize("era", ERAS)


@dataclass
class Trip:
    city: str
    nights: int = 1


def asking(answer: Any = str, *, times: int = 1, **options: Any) -> HostToolDefinition:
    """A tool that asks, and says what it was told."""

    async def ask(given: dict[str, Any], context: ToolContext) -> str:
        answers = [await context.ask(f"Which, {turn}?", answer, **options) for turn in range(times)]
        return f"{given['text']}: {answers}"

    return HostToolDefinition("ask", "To ask.", TEXT, ask)


def accepts(value: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=value)


@each_era
class TestAsking:
    @pytest.mark.parametrize(
        ("answer", "content", "told"),
        [
            (str, {"answer": "main"}, "['main']"),
            (bool, {"answer": True}, "[True]"),
            (Literal["a", "b"], {"answer": "b"}, "['b']"),
            (Trip, {"city": "Bern", "nights": 2}, "[Trip(city='Bern', nights=2)]"),
            (list[Trip], {"answer": '[{"city": "Bern"}]'}, "[[Trip(city='Bern', nights=1)]]"),
        ],
        ids=["str", "bool", "literal", "dataclass", "json"],
    )
    async def test_the_answer_of_the_form_goes_to_the_running_call(
        self, era: str, answer: Any, content: Any, told: str
    ) -> None:
        """The handler asks once, runs once, and goes on with the typed answer."""
        person = Person(accepts(content))
        async with connected(era, asking(answer), elicitation_callback=person) as bench:
            result = await bench.call("ask")
            events = await bench.runtime.ask("session.list", {})
            listed = await bench.runtime.ask(
                "events.list", {"session_id": events.sessions[-1].session_id}
            )

        assert text_of(result).endswith(told)
        answered = [each for each in listed.events if each["kind"] == QuestionAnswered.kind]
        assert answered[0]["data"]["actor"] == {"kind": "person", "name": "ada"}
        assert [each["kind"] for each in listed.events].count("call.started") == 1

    async def test_one_question_after_the_other(self, era: str) -> None:
        """A call may ask more than once."""
        person = Person(accepts({"answer": "a"}), accepts({"answer": "b"}))
        async with connected(era, asking(times=2), elicitation_callback=person) as bench:
            result = await bench.call("ask")

        assert text_of(result) == "hello: ['a', 'b']"
        assert [form.message for form in person.asked] == ["Which, 0?", "Which, 1?"]

    @pytest.mark.parametrize(("action", "kind"), [("decline", "denied"), ("cancel", "cancelled")])
    async def test_declined_and_closed_forms(self, era: str, action: Any, kind: str) -> None:
        """The call fails with the kind that fits."""
        person = Person(ElicitResult(action=action))
        async with connected(era, asking(), elicitation_callback=person) as bench:
            result = await bench.call("ask")

        assert facts_of(result)["failure"]["kind"] == kind

    async def test_a_misfit_is_asked_again_with_the_fault(self, era: str) -> None:
        """Clients that do not check forms get a second one, which says what was wrong."""
        person = Person(accepts({"answer": "three"}), accepts({"answer": 3}))
        async with connected(era, asking(int), elicitation_callback=person) as bench:
            result = await bench.call("ask")

        assert text_of(result) == "hello: [3]"
        assert "integer" in person.asked[1].message

    async def test_a_client_without_forms_is_nobody_to_ask(self, era: str) -> None:
        """Nothing hangs: the call fails at once, and says why."""
        async with connected(era, asking()) as bench:
            async with asyncio.timeout(PATIENCE):
                result = await bench.call("ask")

        assert facts_of(result)["failure"]["kind"] == "unavailable"
        assert "no elicitation capability" in text_of(result)

    async def test_no_form_asks_for_a_secret(self, era: str) -> None:
        """The protocol forbids forms for secrets."""
        person = Person()
        async with connected(era, asking(secret=True), elicitation_callback=person) as bench:
            result = await bench.call("ask")

        assert person.asked == []
        assert facts_of(result)["failure"]["kind"] == "unavailable"


class TestStateless:
    """The call is held while the client is away with its question."""

    async def first(self, bench: Any, text: str = "hello") -> InputRequiredResult:
        shown = await bench.client.session.call_tool(
            "ask", {"text": text}, allow_input_required=True
        )
        assert isinstance(shown, InputRequiredResult)
        return shown

    async def again(self, bench: Any, shown: Any, answer: Any, text: str = "hello") -> Any:
        return await bench.client.session.call_tool(
            "ask",
            {"text": text},
            input_responses=None if answer is None else {"question": answer},
            request_state=shown.request_state,
            allow_input_required=True,
        )

    async def test_the_retried_call_is_the_same_call(self) -> None:
        """The handler that asked goes on; it is not begun again."""
        async with connected(STATELESS, asking(), elicitation_callback=Person()) as bench:
            shown = await self.first(bench)
            (question,) = (await bench.runtime.ask("questions.list", {})).questions
            result = await self.again(bench, shown, accepts({"answer": "x"}))

        assert question.text == "Which, 0?"
        assert facts_of(result)["call_id"] == question.call_id
        assert text_of(result) == "hello: ['x']"

    async def test_an_answer_counts_once(self) -> None:
        """A second request with the same state gets what came of the call, and changes nothing."""
        async with connected(STATELESS, asking(), elicitation_callback=Person()) as bench:
            shown = await self.first(bench)
            await self.again(bench, shown, accepts({"answer": "x"}))
            result = await self.again(bench, shown, accepts({"answer": "y"}))

        assert text_of(result) == "hello: ['x']"

    async def test_without_an_answer_the_form_comes_again(self) -> None:
        """What is no answer leaves the question open."""
        async with connected(STATELESS, asking(), elicitation_callback=Person()) as bench:
            shown = await self.first(bench)
            repeated = await self.again(bench, shown, None)
            result = await self.again(bench, repeated, accepts({"answer": "x"}))

        assert isinstance(repeated, InputRequiredResult)
        assert text_of(result) == "hello: ['x']"

    async def test_the_state_is_of_one_request(self) -> None:
        """With other arguments it leads nowhere, and the question stays open."""
        async with connected(STATELESS, asking(), elicitation_callback=Person()) as bench:
            shown = await self.first(bench)
            with pytest.raises(MCPError):
                await self.again(bench, shown, accepts({"answer": "x"}), text="other")
            (still_open,) = (await bench.runtime.ask("questions.list", {})).questions
            # A runtime that closes would wait for the call as long as it may.
            params = {"question_id": still_open.question_id, "value": "x"}
            await bench.runtime.ask("questions.answer", params)

    async def test_somebody_else_may_answer_meanwhile(self) -> None:
        """An answer through the operations is the answer; the client gets the result."""
        async with connected(STATELESS, asking(), elicitation_callback=Person()) as bench:
            shown = await self.first(bench)
            (question,) = (await bench.runtime.ask("questions.list", {})).questions
            params = {"question_id": question.question_id, "value": "theirs"}
            await bench.runtime.ask("questions.answer", params)
            result = await self.again(bench, shown, accepts({"answer": "mine"}))

        assert text_of(result) == "hello: ['theirs']"


def question_of(answer: Any, **more: Any) -> Question:
    ref = ToolRef("ask", "python", "1.0.0", "digest", "local")
    schema = strict_type("ask", answer).schema
    return Question("qst_1", "s", "c", ref, "Which?", 0.0, schema, **more)


class TestForms:
    def test_fields_that_clients_know_are_kept_and_others_left_out(self) -> None:
        """A form is made of what the protocols allow; the whole schema is checked here."""
        form = form_of(question_of(Trip))

        assert form.is_whole
        assert form.schema == {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "nights": {"type": "integer", "default": 1},
            },
            "required": ["city"],
        }

    def test_an_optional_field_is_a_field(self) -> None:
        """A null among the types is the same as to leave the field out."""

        @dataclass
        class Maybe:
            note: str | None = None

        form = form_of(question_of(Maybe))

        assert form.schema["properties"] == {"note": {"type": "string"}}

    def test_what_is_no_text_that_can_be_shown_is_escaped(self) -> None:
        """A tool cannot hide or turn around what a person reads."""
        form = form_of(replace(question_of(str), text="to\u202eeert"))

        assert "\u202e" not in form.text

    @pytest.mark.parametrize(
        ("answer", "choices"),
        [
            (bool, {"Yes": True, "No": False}),
            (Literal["a", "b"], {"a": "a", "b": "b"}),
            (Literal["a"], {"a": "a"}),
            (str, None),
            (Trip, None),
        ],
        ids=str,
    )
    def test_choices(self, answer: Any, choices: Any) -> None:
        """Answers to choose from can be shown without a form."""
        assert choices_of(question_of(answer).schema) == choices

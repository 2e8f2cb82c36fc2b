"""One form of the arguments: rules, approvers, digests, records and handlers see the same value."""

import datetime
import enum
import pathlib
import uuid
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from typing import Annotated, Any, cast

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SecretStr,
    StringConstraints,
    WithJsonSchema,
    field_serializer,
    model_serializer,
)

from tests.calls.payments import Says, kind_of
from tests.calls.places import history
from toolcrib.approval.decision import Approve
from toolcrib.approval.grant import NewGrant
from toolcrib.approval.pattern import Between, Equals, Glob, Not, Pattern
from toolcrib.approval.policy import Policy, Rule
from toolcrib.calls.executor import Executor
from toolcrib.calls.hooks import Hooks
from toolcrib.calls.outcome import Outcome
from toolcrib.errors import ApprovalRequired, InvalidPolicy, InvalidTool
from toolcrib.ledger.events import ToolInvoked
from toolcrib.session.session import Session
from toolcrib.tools.decorator import tool
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.tool import Tool


class Bench:
    """One tool under test; `ran` holds the params that its handler got."""

    def __init__(self, **options: Any) -> None:
        self.ran: list[Any] = []
        self.session = Session()
        self._options = options

    async def run(self, params: Any) -> str:
        self.ran.append(params)
        return "done"

    async def call(self, declared: Any, arguments: Any, call_id: str = "c1") -> Outcome:
        self.executor = Executor(self.session, [declared], **self._options)
        return await self.executor.call("act", arguments, call_id=call_id)

    async def approve(self, edited: dict[str, Any] | None = None) -> Outcome:
        await self.session.approvals.decide("c1", Approve(edited), by="jo")
        (outcome,) = await self.executor.resume()
        return outcome

    def of(self, params_type: Any) -> Tool[Any, Any]:
        return Tool[Any, Any](
            name="act", description="Act.", params_type=params_type, handler=self.run
        )

    def of_schema(self, schema: dict[str, Any]) -> Tool[Any, Any]:
        async def handler(input: Any, context: Any) -> str:
            return await self.run(input)

        return Tool[Any, Any](
            name="act", description="Act.", calling="input", json_schema=schema, handler=handler
        )

    @property
    def recorded(self) -> Any:
        (end,) = [event for event in history(self.session) if isinstance(event, ToolInvoked)]
        return end.params


def policy(effect: Any, pointer: str, pattern: Pattern) -> Policy:
    return Policy((Rule(effect, "act", arguments={pointer: pattern}),), unmatched="allow")


async def verdict_on(declared: Any, bench: Bench, arguments: Any, rule: Policy) -> str:
    bench._options["policy"] = rule  # pyright: ignore[reportPrivateUsage]
    outcome = await bench.call(declared, arguments)
    if outcome.status == "waiting":
        return "asked"
    return "ran" if outcome.ok else kind_of(outcome)


NOTHING: Any = None
SHADOW = "/etc/shadow"


class Aliased(BaseModel):
    model_config = ConfigDict(extra="ignore")
    path: str = Field(alias="file")


class Nested(BaseModel):
    p: Aliased


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    path: str = Field(alias="file")


class Choices(BaseModel):
    path: str = Field(validation_alias=AliasChoices("file", "target", AliasPath("deep", 0)))


class Pathed(BaseModel):
    path: str = Field(validation_alias=AliasPath("deep", 0))


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    path: str = Field(alias="file")


class TestDefaults:
    @pytest.mark.parametrize(
        ("effect", "pattern", "expected"),
        [
            ("deny", Equals("prod"), "not_permitted"),
            ("ask", Equals("prod"), "asked"),
            ("deny", Not(Equals("test")), "not_permitted"),
        ],
    )
    async def test_a_rule_is_not_dodged_by_leaving_the_argument_out(
        self, effect: Any, pattern: Pattern, expected: str
    ) -> None:
        """Security 1: the default is what runs, so the default is what is judged."""
        bench = Bench()

        @tool(name="act")
        async def drop(env: str = "prod") -> str:
            """Drop."""
            return await bench.run(env)

        assert await verdict_on(drop, bench, {}, policy(effect, "/env", pattern)) == expected
        assert bench.ran == []

    async def test_the_approver_and_the_record_show_the_default(self) -> None:
        """Security 1: whoever approves `{}` sees what it stands for, and so does the auditor."""
        approver = Says(Approve())
        bench = Bench(policy=policy("ask", "/env", Equals("prod")), approver=approver)

        @tool(name="act")
        async def drop(env: str = "prod") -> str:
            """Drop."""
            return await bench.run(env)

        await bench.call(drop, {})

        assert approver.asked[0].arguments == {"env": "prod"}
        assert bench.ran == ["prod"]
        assert bench.recorded == {"env": "prod"}

    async def test_a_default_that_is_made_anew_is_made_once(self) -> None:
        """What was shown is what runs, also when the call is taken up elsewhere."""

        @dataclass
        class Order:
            key: uuid.UUID = field(default_factory=uuid.uuid4)

        bench = Bench(policy=policy("ask", "/key", Glob("**")))
        waiting = await bench.call(bench.of(Order), {})
        assert waiting.approval is not None

        assert (await bench.approve()).ok
        assert str(bench.ran[0].key) == waiting.approval.arguments["key"]


class TestNames:
    @pytest.mark.parametrize("pointer", ["/p/path", "/p/file"])
    @pytest.mark.parametrize("effect", ["deny", "ask"])
    async def test_a_rule_may_use_the_field_or_the_alias(self, effect: Any, pointer: str) -> None:
        """Security 1: the schema shows the alias, the code the field; a rule means both."""
        bench = Bench()
        arguments = {"p": {"file": SHADOW}}
        rule = policy(effect, pointer, Glob("/etc/**"))

        expected = "not_permitted" if effect == "deny" else "asked"
        assert await verdict_on(bench.of(Nested), bench, arguments, rule) == expected

    @pytest.mark.parametrize("pointer", ["/path", "/file"])
    @pytest.mark.parametrize("sent", ["path", "file"])
    async def test_either_name_that_a_model_accepts_is_judged(
        self, pointer: str, sent: str
    ) -> None:
        """`populate_by_name` takes two spellings; neither passes a rule on the other."""
        bench = Bench()
        rule = policy("deny", pointer, Equals(SHADOW))

        assert await verdict_on(bench.of(ByName), bench, {sent: SHADOW}, rule) == "not_permitted"

    @pytest.mark.parametrize("pointer", ["/path", "/file", "/target"])
    @pytest.mark.parametrize("sent", [{"file": SHADOW}, {"target": SHADOW}, {"deep": [SHADOW]}])
    async def test_every_choice_of_alias_is_judged(
        self, pointer: str, sent: dict[str, Any]
    ) -> None:
        """One argument has one value, whichever of its aliases carried it."""
        bench = Bench()
        rule = policy("deny", pointer, Equals(SHADOW))

        assert await verdict_on(bench.of(Choices), bench, sent, rule) == "not_permitted"

    async def test_a_path_in_the_arguments_is_judged_by_the_name_in_the_schema(self) -> None:
        """An alias may be a path; the schema shows the field's name, which is also accepted."""
        rule = policy("deny", "/path", Equals(SHADOW))

        for sent in ({"deep": [SHADOW]}, {"path": SHADOW}):
            bench = Bench()
            assert await verdict_on(bench.of(Pathed), bench, sent, rule) == "not_permitted"

    @pytest.mark.parametrize("pointer", ["/path", "/file"])
    @pytest.mark.parametrize("params_type", [Aliased, Open])
    async def test_a_decoy_meets_no_allow_rule(self, params_type: Any, pointer: str) -> None:
        """Found afterwards: a key that the model ignores stood in for the real argument."""
        bench = Bench()
        decoy = {"file": SHADOW, "path": "notes/a.txt"}
        rule = Policy(
            (Rule("allow", "act", arguments={pointer: Glob("notes/**")}),), unmatched="ask"
        )

        assert await verdict_on(bench.of(params_type), bench, decoy, rule) == "asked"
        honest = {"file": "notes/a.txt"}
        assert await verdict_on(bench.of(params_type), Bench(), honest, rule) == "ran"

    async def test_a_decoy_meets_no_grant(self) -> None:
        """Found afterwards: the same for a standing yes."""
        bench = Bench(policy=Policy(unmatched="ask"))
        await bench.call(bench.of(Aliased), {"file": "notes/a.txt"})
        grant = NewGrant("session", arguments={"/path": Glob("notes/**")})
        await bench.session.approvals.decide("c1", Approve(), by="jo", grant=grant)
        await bench.executor.resume()

        covered = await bench.executor.call("act", {"file": "notes/b.txt"})
        decoy = await bench.executor.call("act", {"file": SHADOW, "path": "notes/a.txt"})

        assert (covered.status, decoy.status) == ("completed", "waiting")

    async def test_an_object_in_a_rule_may_use_the_field(self) -> None:
        """A rule that compares whole objects knows the two names as well."""
        bench = Bench()
        rule = policy("deny", "/p", Equals({"path": SHADOW}))

        assert (
            await verdict_on(bench.of(Nested), bench, {"p": {"file": SHADOW}}, rule)
            == "not_permitted"
        )

    async def test_ignored_keys_are_in_no_record(self) -> None:
        """What the handler does not get is not shown as if it had run with it."""
        bench = Bench()
        await bench.call(bench.of(Aliased), {"file": "a", "junk": 1})

        assert bench.recorded == {"file": "a"}


Lower = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]


class TestTransformations:
    @pytest.mark.parametrize(
        "kind",
        [
            Lower,
            Annotated[str, AfterValidator(lambda text: text.strip().lower())],
            Annotated[str, BeforeValidator(lambda text: text.strip().lower())],
            Annotated[str, PlainValidator(lambda text: text.strip().lower())],
        ],
        ids=["constraints", "after", "before", "plain"],
    )
    async def test_a_validator_does_not_change_a_value_past_a_rule(self, kind: Any) -> None:
        """Security 1: the value that the handler gets is the one that is judged."""
        bench = Bench()

        async def read(path: Any) -> str:
            """Read."""
            return await bench.run(path)

        read.__annotations__["path"] = kind
        rule = policy("deny", "/path", Glob("/etc/**"))

        assert await verdict_on(
            tool(name="act")(read), bench, {"path": "  /ETC/shadow "}, rule
        ) == ("not_permitted")

    async def test_values_of_many_types_are_written_as_they_are_read(self) -> None:
        """The record is JSON that the tool would take, with the values that it ran with."""

        class Mood(enum.Enum):
            GOOD = "good"

        @dataclass
        class Many:
            day: datetime.date = datetime.date(2026, 1, 2)
            span: datetime.timedelta = datetime.timedelta(minutes=1)
            mood: Mood = Mood.GOOD
            path: pathlib.Path = pathlib.Path("/a")
            raw: bytes = b"abc"
            tags: frozenset[str] = frozenset({"b", "a", "c"})
            pair: tuple[int, str] = (1, "x")

        bench = Bench()
        await bench.call(bench.of(Many), {})

        assert bench.recorded == {
            "day": "2026-01-02",
            "span": "PT1M",
            "mood": "good",
            "path": "/a",
            "raw": "abc",
            "tags": ["a", "b", "c"],
            "pair": [1, "x"],
        }
        assert prepare(bench.of(Many)).parse(b'{"mood": "good"}') == bench.ran[0]

    @pytest.mark.parametrize("amount", ["150", "150.10", "150.00000000000000000000000001"])
    async def test_a_decimal_does_not_slip_under_a_limit(self, amount: str) -> None:
        """It is judged as the number that it is, whether it was sent as a text or as a number."""

        @dataclass
        class Payment:
            amount: Decimal

        for raw in (f'{{"amount": {amount}}}', f'{{"amount": "{amount}"}}'):
            bench = Bench()
            rule = policy("deny", "/amount", Between(min=100))
            assert await verdict_on(bench.of(Payment), bench, raw, rule) == "not_permitted"

    async def test_a_default_of_another_type_is_shown_as_it_is(self) -> None:
        """Nothing checks defaults; the handler gets them as they are, and so does the record."""
        bench = Bench()

        @tool(name="act")
        async def act(limit: float = 1, name: str = NOTHING, day: Aliased = NOTHING) -> str:
            """Act."""
            return await bench.run((limit, name, day))

        await bench.call(act, {})

        assert bench.recorded == {"limit": 1, "name": None, "day": None}

    async def test_an_object_of_another_class_is_shown_as_what_it_is(self) -> None:
        """A validator or a default may give another class than the field says."""

        class Other(BaseModel):
            other: str = Field(alias="real", serialization_alias="lie")

        class Shifty(BaseModel):
            inner: Annotated[Aliased, AfterValidator(lambda _: Other(real="x"))]
            many: Annotated[list[Aliased], AfterValidator(lambda _: [Other(real="y")])]
            default: Aliased = cast("Any", Other(real="z"))
            made: Aliased = Field(default_factory=lambda: cast("Any", Other(real="w")))

        bench = Bench()
        await bench.call(bench.of(Shifty), {"inner": {"file": "a"}, "many": []})

        assert bench.recorded == {
            "inner": {"real": "x"},
            "many": [{"real": "y"}],
            "default": {"real": "z"},
            "made": {"real": "w"},
        }

    async def test_a_serializer_hides_nothing(self) -> None:
        """A type's own serializers may mask, rename or leave out; what runs is judged all the
        same.
        """

        class Masked(BaseModel):
            path: Annotated[str, PlainSerializer(lambda _: "***")]
            other: str = Field("/etc/passwd", exclude=True)
            third: str = SHADOW

            @field_serializer("third")
            def _third(self, _: str) -> str:
                return "***"

            @model_serializer
            def _all(self) -> dict[str, str]:
                return {"lie": "***"}

        bench = Bench()
        await bench.call(bench.of(Masked), {"path": SHADOW})

        assert bench.recorded == {"path": SHADOW, "other": "/etc/passwd", "third": SHADOW}

    async def test_one_value_has_one_digest(self) -> None:
        """Spaces, escapes and repeated keys are gone: the record holds one value, once."""
        digests: set[str] = set()
        for raw in ('{"x": "A"}', '{"x":"\\u0041"}', '{"x": "B", "x": "A"}'):
            bench = Bench()

            @tool(name="act")
            async def act(x: str) -> None:
                """Act."""

            await bench.call(act, raw)
            (end,) = [e for e in history(bench.session) if isinstance(e, ToolInvoked)]
            digests.add(end.arguments_digest)

        assert len(digests) == 1


class Money:
    def __init__(self, text: str) -> None:
        self.cents = int(text) * 100


Priced = Annotated[
    Money, PlainValidator(lambda text: Money(text)), WithJsonSchema({"type": "string"})
]


class TestUnwritable:
    async def test_a_value_that_json_cannot_hold_does_not_run(self) -> None:
        """Nobody could judge it, so the call ends and says what the author has to do."""

        @dataclass
        class Price:
            price: Priced

        bench = Bench()
        outcome = await bench.call(bench.of(Price), {"price": "7"})

        assert kind_of(outcome) == "invalid_arguments"
        assert "give the type a serializer" in outcome.text
        assert bench.ran == []

    async def test_a_serializer_is_the_way_back(self) -> None:
        """With one, rules see what it writes."""

        @dataclass
        class Price:
            price: Annotated[Priced, PlainSerializer(lambda money: money.cents)]

        bench = Bench()
        rule = policy("deny", "/price", Between(min=500))

        assert await verdict_on(bench.of(Price), bench, {"price": "7"}, rule) == "not_permitted"

    def test_a_field_that_vanishes_is_refused(self) -> None:
        """An InitVar is gone once the object is made: no rule on it could ever match."""

        @dataclass
        class Vanishing:
            path: InitVar[str]

        with pytest.raises(InvalidTool, match="'path' is an InitVar"):
            prepare(Bench().of(Vanishing))


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "env": {"type": "string", "default": "prod"},
        "deep": {"$ref": "#/$defs/Deep"},
        "maybe": {"anyOf": [{"$ref": "#/$defs/Deep"}, {"type": "null"}]},
        "many": {"type": "array", "items": {"$ref": "#/$defs/Deep"}},
        "odd": {"type": "string", "default": None},
    },
    "$defs": {
        "Deep": {
            "type": "object",
            "properties": {"level": {"type": "integer", "default": 9}},
            "additionalProperties": False,
        }
    },
}


ENDLESS: dict[str, Any] = {
    "N": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N", "default": {}}}}
}
DOUBLING: dict[str, Any] = {"N": {"$ref": "#/$defs/N0"}, "N40": {"type": "object"}} | {
    f"N{level}": {
        "type": "object",
        "properties": {
            side: {"$ref": f"#/$defs/N{level + 1}", "default": {}} for side in ("left", "right")
        },
    }
    for level in range(40)
}


class TestSchemaDefaults:
    @pytest.mark.parametrize(
        ("pointer", "value", "sent"),
        [
            ("/env", "prod", {}),
            ("/deep/level", 9, {"deep": {}}),
            ("/maybe/level", 9, {"maybe": {}}),
            ("/many/*/level", 9, {"many": [{"level": 1}, {}]}),
        ],
    )
    async def test_defaults_of_a_schema_count_as_given(
        self, pointer: str, value: Any, sent: Any
    ) -> None:
        """The tool behind the schema uses them, so rules see them, at any depth."""
        bench = Bench()
        rule = policy("deny", pointer, Equals(value))

        assert await verdict_on(bench.of_schema(SCHEMA), bench, sent, rule) == "not_permitted"

    async def test_the_handler_gets_what_was_judged(self) -> None:
        """It does not have to fill in again what rules and approvers saw. A default that the
        schema itself forbids is left out.
        """
        bench = Bench()
        await bench.call(bench.of_schema(SCHEMA), {"deep": {}, "maybe": None})

        expected = {"env": "prod", "deep": {"level": 9}, "maybe": None}
        assert bench.ran == [expected]
        assert bench.recorded == expected

    @pytest.mark.parametrize(
        "defs",
        [
            ENDLESS,
            DOUBLING,
        ],
        ids=["endless", "doubling"],
    )
    def test_defaults_without_end_are_refused(self, defs: dict[str, Any]) -> None:
        """A schema of a few lines may not stand for gigabytes of defaults."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {"n": {"$ref": "#/$defs/N", "default": {}}},
            "$defs": defs,
        }
        with pytest.raises(InvalidTool, match="defaults of its parameters add up to more than"):
            prepare(Bench().of_schema(schema))

    async def test_a_list_does_not_multiply_defaults_without_end(self) -> None:
        """Each element gets its defaults; together they are bounded."""
        item = {"type": "object", "properties": {"text": {"type": "string", "default": "x" * 9000}}}
        schema = {
            "type": "object",
            "properties": {"items": {"type": "array", "items": item}},
        }
        bench = Bench()
        outcome = await bench.call(bench.of_schema(schema), {"items": [{}] * 1000})

        assert kind_of(outcome) == "invalid_arguments"
        assert "defaults add up to more than" in outcome.text

    async def test_branches_within_each_other_are_filled_in_one_visit(self) -> None:
        """A place that several branches describe is not visited once for each: with 60 levels that
        would never end.
        """
        node: dict[str, Any] = {
            "type": "object",
            "properties": {
                "n": {"$ref": "#/$defs/N"},
                "env": {"type": "string", "default": "prod"},
            },
            "anyOf": [{"properties": {"n": {"$ref": "#/$defs/N"}, "x": {"default": 1}}}],
        }
        schema = {
            "type": "object",
            "properties": {"n": {"$ref": "#/$defs/N"}},
            "$defs": {"N": node},
        }
        arguments: dict[str, Any] = {}
        for _ in range(60):
            arguments = {"n": arguments}
        from toolcrib.tools.schema_defaults import filler_of

        fill = filler_of("act", schema)
        assert fill is not None
        assert fill(arguments)
        assert arguments["n"]["n"]["n"]["env"] == "prod"


Once = Annotated[int, AfterValidator(lambda number: number + 1)]


class TestTakenUpAgain:
    async def test_a_validator_that_changes_its_own_result_runs_once(self) -> None:
        """The person saw 2 and the handler gets 2, however often the call is parsed again."""

        @dataclass
        class Count:
            number: Once

        bench = Bench(policy=policy("ask", "/number", Between(min=0)))
        waiting = await bench.call(bench.of(Count), {"number": 1})
        assert waiting.approval is not None
        assert waiting.approval.arguments == {"number": 2}

        state = bench.session.export_state()
        there = Bench(policy=policy("ask", "/number", Between(min=0)))
        there.session = Session().with_state(state)
        there.executor = Executor(there.session, [there.of(Count)], policy=None)
        assert (await there.approve()).ok
        assert there.ran == [Count(2)]

    async def test_arguments_that_cannot_be_made_again_do_not_run(self) -> None:
        """Neither what was sent nor what was frozen gives what was decided: nothing runs unseen."""
        calls: list[int] = []

        def drift(number: int) -> int:
            calls.append(number)
            return number + len(calls)

        @dataclass
        class Count:
            number: Annotated[int, AfterValidator(drift)]

        bench = Bench(policy=policy("ask", "/number", Between(min=0)))
        await bench.call(bench.of(Count), {"number": 1})
        outcome = await bench.approve()

        assert kind_of(outcome) == "unavailable"
        assert bench.ran == []

    async def test_a_handler_that_changes_its_params_and_asks_runs_with_what_was_shown(
        self,
    ) -> None:
        """The approver sees the frozen arguments; the second attempt gets them too."""
        approver = Says(Approve())
        seen: list[list[str]] = []

        @dataclass
        class Batch:
            paths: list[str]

        async def act(params: Batch, context: Any) -> str:
            seen.append(list(params.paths))
            if not context.tool_call_approved:
                params.paths.append(SHADOW)
                raise ApprovalRequired
            return "done"

        declared = Tool[Any, Any](name="act", description="Act.", params_type=Batch, handler=act)
        bench = Bench(approver=approver)
        assert (await bench.call(declared, {"paths": ["a"]})).ok

        assert approver.asked[0].arguments == {"paths": ["a"]}
        assert seen == [["a"], ["a"]]


class TestEdits:
    @pytest.mark.parametrize("name", ["file", "path"])
    async def test_an_edit_may_use_the_field_or_the_alias(self, name: str) -> None:
        """The approver is shown the alias; who knows the code may write the field."""
        bench = Bench(policy=policy("ask", "/file", Glob("**")))
        waiting = await bench.call(bench.of(Aliased), {"file": "a"})
        assert waiting.approval is not None
        assert waiting.approval.arguments == {"file": "a"}

        assert (await bench.approve({name: "b"})).ok
        assert bench.ran == [Aliased(file="b")]
        assert bench.recorded == {"file": "b"}

    async def test_transformations_apply_to_an_edit_before_a_deny_rule(self) -> None:
        """A person cannot write a denied value past the rule in other letters."""
        rules = (
            Rule("ask", "act"),
            Rule("deny", "act", arguments={"/path": Glob("/etc/**")}),
        )

        @dataclass
        class Read:
            path: Lower

        bench = Bench(policy=Policy(rules))
        await bench.call(bench.of(Read), {"path": "a"})

        assert kind_of(await bench.approve({"path": " /ETC/shadow "})) == "not_permitted"
        assert bench.ran == []

    async def test_an_edit_does_not_change_what_it_left_as_shown(self) -> None:
        """Validation runs again on an edit. What it would change unseen does not run."""

        @dataclass
        class Count:
            number: Once
            note: str = ""

        bench = Bench(policy=policy("ask", "/number", Between(min=0)))
        await bench.call(bench.of(Count), {"number": 1})
        outcome = await bench.approve({"number": 2, "note": "hello"})

        assert kind_of(outcome) == "invalid_arguments"
        assert "/number" in outcome.text
        assert bench.ran == []


class TestSecrets:
    async def test_a_secret_under_an_alias_is_kept_and_not_shown(self) -> None:
        """It goes through the frozen form to the handler, and into nothing that anyone reads."""

        class Login(BaseModel):
            model_config = ConfigDict(populate_by_name=True)
            word: SecretStr = Field(alias="password")
            user: str = "ada"

        approver = Says(None)
        bench = Bench(policy=Policy(unmatched="ask"), approver=approver)
        await bench.call(bench.of(Login), {"word": "hunter2hunter2"})
        assert (await bench.approve()).ok

        assert bench.ran[0].word.get_secret_value() == "hunter2hunter2"
        shown = {"password": "[secret]", "user": "ada"}
        assert approver.asked[0].arguments == shown
        assert bench.recorded == shown
        assert "hunter2" not in str([event for event in history(bench.session)])


async def test_hooks_see_the_canonical_form_and_what_they_write_is_made_canonical() -> None:
    """A hook reads defaults like everybody else, and cannot bring back a raw value."""
    seen: list[Any] = []

    async def widen(_: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(arguments))
        return {**arguments, "path": " /ETC/shadow "}

    @dataclass
    class Read:
        path: Lower = "notes"

    bench = Bench(policy=policy("deny", "/path", Glob("/etc/**")), hooks=Hooks(pre={"act": widen}))
    outcome = await bench.call(bench.of(Read), {})

    assert seen == [{"path": "notes"}]
    assert kind_of(outcome) == "not_permitted"


async def test_the_runner_of_another_place_gets_the_canonical_form() -> None:
    """A tool that runs elsewhere gets what was judged, not what was sent."""
    sent: list[bytes] = []

    class Runner:
        async def run(self, call: Any) -> str:
            sent.append(call.arguments)
            return "done"

    class Elsewhere(Tool[Any, Any]):
        __slots__ = ()

        @property
        def place(self) -> Any:
            return "client"

    schema = {"type": "object", "properties": {"env": {"type": "string", "default": "prod"}}}
    declared = Elsewhere(name="act", description="Act.", calling="input", json_schema=schema)
    bench = Bench(runners={"client": Runner()})
    await bench.call(declared, {})

    assert sent == [b'{"env":"prod"}']


class TestRulesOnUnknownArguments:
    RULES = Policy((Rule("deny", "act", arguments={"/pth": Equals("x")}, id="r"),), "allow")

    def test_an_executor_is_not_made_with_a_rule_that_protects_nothing(self) -> None:
        """Found afterwards: the misspelt rule was silent, and the call ran."""
        bench = Bench()
        with pytest.raises(InvalidPolicy, match="'act' has no argument at /pth; did you mean"):
            Executor(bench.session, [bench.of(ByName)], policy=self.RULES)

    async def test_a_tool_that_comes_later_does_not_run_past_such_a_rule(self) -> None:
        """Nothing of that tool runs until the rule is mended; others are not held up."""
        bench = Bench()
        executor = Executor(bench.session, [], policy=self.RULES)
        executor.register(bench.of(ByName))
        outcome = await executor.call("act", {"file": "a"})

        assert kind_of(outcome) == "not_permitted"
        assert "'act' has no argument at /pth" in outcome.text
        assert bench.ran == []

    async def test_a_foreign_schema_stops_its_own_tool_only(self) -> None:
        """A server that renames an argument neither dodges the rule nor stops the host."""

        async def handler(input: Any, context: Any) -> None: ...

        schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
        foreign = Tool[Any, Any](
            name="act",
            description="Act.",
            calling="input",
            json_schema=schema,
            handler=handler,
            is_foreign=True,
        )
        executor = Executor(Session(), [foreign], policy=self.RULES)

        assert kind_of(await executor.call("act", {})) == "not_permitted"

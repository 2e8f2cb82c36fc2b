"""What a front end is shown of a turn is the same, however much of it was heard live."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.approval.question import Question
from toolcrib.failures import Failure
from toolcrib.ledger.events import CallInDoubt, CallStarted, Event, ToolInvoked, ToolOutput
from toolcrib.ledger.prompt_events import (
    ArgumentsDelta,
    HostedToolProgress,
    ModelAsked,
    ModelResponded,
    PartialArguments,
    PartialReply,
    PromptAnswered,
    PromptStarted,
    ReasoningDelta,
    TextDelta,
)
from toolcrib.ledger.question_events import QuestionAsked, QuestionClosed
from toolcrib.tools.citations import (
    Citation,
    ContainerFileCitation,
    FileCitation,
    FilePathCitation,
    cited_source,
)
from toolcrib.tools.identity import ToolRef
from toolcrib.transports.http.frontends.chat_history import PastTurn
from toolcrib.transports.http.frontends.turn_parts import (
    ArgumentsPiece,
    CallOver,
    CallProgress,
    CallReady,
    PictureShown,
    ProsePiece,
    QuestionShown,
    SourceShown,
    StepReset,
    TurnBegun,
    TurnPart,
)
from toolcrib.transports.http.frontends.turn_reader import TurnReader
from toolcrib.transports.http.frontends.ui_history import ui_history

HERE: dict[str, Any] = {"session_id": "s", "at": 0.0}
GREET = ToolRef(source="host", name="greet", version="1", place="local", digest="d")
STARTED = PromptStarted(
    **HERE, turn=1, prompt_name="p", text="hi", digest="d", adapter="a", model="m"
)


def asked(step: int = 1) -> Event:
    return ModelAsked(**HERE, turn=1, step=step)


def text(piece: str, step: int = 1, *, is_restart: bool = False) -> Event:
    return TextDelta(**HERE, turn=1, step=step, text=piece, is_restart=is_restart)


def thought(piece: str, index: int = 0) -> Event:
    return ReasoningDelta(**HERE, turn=1, step=1, index=index, text=piece)


def responded(*items: Any, step: int = 1, status: Any = "completed") -> Event:
    return ModelResponded(
        **HERE,
        turn=1,
        step=step,
        status=status,
        response_id=None,
        request_id=None,
        model=None,
        items=list(items),
        usage={},
    )


def said(whole: str) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": whole}]}


def called(call_id: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "greet", "arguments": arguments}


def invoked(call_id: str, **more: Any) -> Event:
    fields: dict[str, Any] = {"params": {"name": "Ada"}, "message": "Hello", "success": True}
    return ToolInvoked(**HERE, call_id=call_id, name="greet", turn=1, **(fields | more))


def answered(whole: str, **more: Any) -> Event:
    return PromptAnswered(**HERE, turn=1, prompt_name="p", text=whole, **more)


def parts_of(events: Iterable[Event], reader: TurnReader | None = None) -> list[TurnPart]:
    reader = reader or TurnReader()
    return [*(part for event in events for part in reader.read(event)), *reader.end()]


def prose(parts: Sequence[TurnPart], kind: str = "text") -> str:
    return "".join(
        part.text for part in parts if isinstance(part, ProsePiece) and part.kind == kind
    )


def test_a_page_that_joins_in_the_middle_gets_what_is_written() -> None:
    """Of a step whose start it did not hear: the text, the reasoning and the arguments so far, then
    their further pieces, each once.
    """
    call = PartialArguments(call_id="c1", tool="greet", text='{"name"')
    partial = PartialReply(
        **HERE, turn=1, step=1, text="Hel", reasoning=("Hm.", "So."), calls=(call,)
    )
    more = ArgumentsDelta(**HERE, turn=1, step=1, call_id="c1", tool="greet", text=': "Ada"}')
    parts = parts_of(
        [STARTED, partial, text("lo."), more, responded(said("Hello."), called("c1", "{}"))]
    )

    assert prose(parts) == "Hello."
    assert prose(parts, "reasoning") == "Hm.\n\nSo."
    pieces = [part.text for part in parts if isinstance(part, ArgumentsPiece)]
    assert "".join(pieces) == '{"name": "Ada"}'


def test_a_page_that_is_followed_on_at_another_replica_is_shown_nothing_twice() -> None:
    """Of what is written so far it gets what it was not shown; something else begins anew."""
    asked = ModelAsked(**HERE, turn=1, step=1)
    partial = PartialReply(**HERE, turn=1, step=1, text="Hello, A", reasoning=(), calls=())

    assert prose(parts_of([STARTED, asked, text("Hel"), partial, text("da.")])) == "Hello, Ada."
    parts = parts_of([STARTED, asked, text("Good"), partial])
    assert StepReset(1) in parts
    assert prose(parts) == "GoodHello, A"


def test_a_reply_that_another_replica_asks_for_anew_takes_the_place_of_what_was_shown() -> None:
    """The replica that wrote the first one died; its pieces are taken back before the new ones."""
    asked = ModelAsked(**HERE, turn=1, step=1)
    parts = parts_of([STARTED, asked, text("Hel"), asked, text("Hel"), text("lo.")])

    again = parts[parts.index(StepReset(1)) :]
    assert prose(again) == "Hello."


def shown(events: Iterable[Event]) -> Any:
    """The message that a page would have at the end."""
    return ui_history([PastTurn(1, "hi", parts_of(events))])


LIVE: list[Event] = [
    STARTED,
    asked(),
    thought("First."),
    thought("Sec", 1),
    thought("ond.", 1),
    text("I will "),
    text("greet."),
    ArgumentsDelta(**HERE, turn=1, step=1, call_id="c", tool="greet", text='{"name":'),
    ArgumentsDelta(**HERE, turn=1, step=1, call_id="c", tool="greet", text=' "Ada"}'),
    responded(
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "First."}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Second."}]},
        said("I will greet."),
        called("c", '{"name": "Ada"}'),
    ),
    CallStarted(**HERE, call_id="c", tool=GREET, arguments_digest="d"),
    ToolOutput(**HERE, call_id="c", tool="greet", chunk="..."),
    invoked("c", value="Hello, Ada!"),
    asked(2),
    text("Do", step=2),
    text("ne.", step=2),
    responded(said("Done."), step=2),
    answered("Done."),
]
PASSING = (ModelAsked, TextDelta, ReasoningDelta, ArgumentsDelta)


def gist(message: Any) -> list[Any]:
    """The parts of the answer, with the paragraphs of its reasoning in one."""
    found: list[Any] = []
    for part in message["parts"]:
        if found and part["type"] == "reasoning" == found[-1][0]:
            found[-1][1] += "\n\n" + part["text"]
        else:
            found.append([part["type"], part.get("text"), part.get("input"), part.get("output")])
    return found


@given(st.integers(min_value=0, max_value=len(LIVE)))
def test_a_turn_that_is_heard_from_the_middle_shows_the_same(heard_from: int) -> None:
    """What passed before a client came is lost; what is recorded shows it all the same."""
    heard = [e for place, e in enumerate(LIVE) if place >= heard_from or not isinstance(e, PASSING)]

    assert gist(shown(heard)[1]) == gist(shown(LIVE)[1])


def test_pieces_are_shown_as_they_come_and_once() -> None:
    """The whole reply repeats nothing that was streamed."""
    parts = parts_of(LIVE)
    pieces = [part.text for part in parts if isinstance(part, ProsePiece)]

    assert pieces == ["First.", "Sec", "ond.", "I will ", "greet.", "Do", "ne."]
    assert [part for part in parts if isinstance(part, CallReady)] == [
        CallReady("c", "greet", {"name": "Ada"})
    ]


def test_what_a_stream_left_out_is_shown_with_the_whole() -> None:
    """A client that fell behind misses pieces, and gets the rest at the end."""
    reader = TurnReader()
    parts = parts_of([STARTED, asked(), text("All is "), responded(said("All is well."))], reader)

    assert prose(parts) == "All is well."


def test_a_text_with_a_hole_is_shown_anew() -> None:
    """A client that fell so far behind that pieces were dropped reads the whole in the end."""
    events = [STARTED, asked(), text("All "), text("till."), responded(said("All is well, till."))]
    parts = parts_of(events)
    (reset,) = [place for place, part in enumerate(parts) if isinstance(part, StepReset)]

    assert prose(parts[reset:]) == "All is well, till."


def test_a_reply_that_begins_anew_takes_back_its_text() -> None:
    """The request was made again and came out otherwise: nothing is doubled, reasoning stays."""
    events = [STARTED, asked(), thought("Hm."), text("All is"), text("Well", is_restart=True)]
    parts = parts_of([*events, responded(said("Well done."))])
    (reset,) = [place for place, part in enumerate(parts) if isinstance(part, StepReset)]

    assert prose(parts[reset:]) == "Well done."
    assert prose(parts[reset:], "reasoning") == "Hm."


def test_a_reply_that_does_not_count_is_taken_back() -> None:
    """It is asked again; what it said is void."""
    parts = parts_of([STARTED, asked(), text("Half"), responded(said("Half"), status="incomplete")])

    assert any(isinstance(part, StepReset) for part in parts)


def test_a_prompt_of_a_tool_is_not_shown() -> None:
    """A tool may ask a model itself: that text is not the answer, and its calls are its own."""
    inner = PromptStarted(
        **HERE,
        turn=2,
        prompt_name="p",
        text="inner",
        digest="d",
        adapter="a",
        model="m",
        parent_call_id="c",
    )
    other = TextDelta(**HERE, turn=2, step=1, text="a secret thought")
    nested = invoked("n", parent_call_id="c")
    parts = parts_of([STARTED, asked(), inner, other, nested, answered("Done.")])

    assert prose(parts) == "Done."
    assert [part for part in parts if isinstance(part, TurnBegun)] == [TurnBegun("s", 1)]
    assert not any(isinstance(part, CallOver) for part in parts)


@pytest.mark.parametrize(
    ("failure", "ending"),
    [("denied", "denied"), ("tool_error", "failed"), ("not_permitted", "failed")],
)
def test_only_what_a_person_denied_is_denied(failure: Any, ending: str) -> None:
    """A rule that forbids a call is a failure of the call, not somebody's no."""
    event = invoked("c", success=False, failure=Failure(failure, "No."))
    (over,) = [part for part in parts_of([STARTED, event]) if isinstance(part, CallOver)]

    assert (over.ending, over.failure_kind) == (ending, failure)


def test_a_call_in_doubt_is_over() -> None:
    """A page that shows a call of a process that died does not show it as running."""
    started = CallStarted(**HERE, call_id="c", tool=GREET, arguments_digest="d")
    doubt = CallInDoubt(**HERE, call_id="c", tool=GREET)
    parts = parts_of([STARTED, responded(called("c", "{}")), started, doubt])
    (over,) = [part for part in parts if isinstance(part, CallOver)]

    assert (over.ending, over.failure_kind) == ("failed", "in_doubt")


def test_progress_of_a_provider_run_tool_comes_with_its_call() -> None:
    """Code and queries are shown while they run, before the call is recorded."""
    progress = HostedToolProgress(
        **HERE,
        turn=1,
        step=1,
        call_id="ws",
        tool="search",
        capability="web_search",
        status="searching",
        queries=("tills",),
    )
    parts = parts_of([STARTED, asked(), progress])
    (found,) = [part for part in parts if isinstance(part, CallProgress)]

    assert found.facts == {"capability": "web_search", "status": "searching", "queries": ["tills"]}


def test_every_kind_of_citation_is_a_source() -> None:
    """Pages have an address, files a name; one that is cited twice is one source."""
    cited = [
        Citation("https://a.example", "A", (0, 1)),
        Citation("https://a.example", "A", (2, 3)),
        FileCitation("file_1", "notes.txt"),
        ContainerFileCitation("cntr_1", "file_2", "plot.png"),
        FilePathCitation("file_3"),
    ]
    sources = tuple(map(cited_source, cited))
    parts = parts_of([STARTED, answered("A.", sources=sources)])

    assert [part for part in parts if isinstance(part, SourceShown)] == [
        SourceShown("https://a.example", "A", "https://a.example"),
        SourceShown("file_1", "notes.txt", None, "notes.txt"),
        SourceShown("file_2", "plot.png", None, "plot.png"),
        SourceShown("file_3", "file_3", None, "file_3"),
    ]


def test_a_question_is_shown_until_it_is_over() -> None:
    """The person sees what is asked and how to answer, and no longer than it can be answered."""
    question = Question(
        question_id="q", session_id="s", call_id="c", tool=GREET, text="Which Ada?", created_at=0.0
    )
    asking = QuestionAsked(**HERE, call_id="c", question=question)
    over = QuestionClosed(**HERE, call_id="c", question_id="q", why="expired")

    assert [part for part in parts_of([asking, over]) if isinstance(part, QuestionShown)] == [
        QuestionShown("q", "c", "greet", "Which Ada?", {}),
        QuestionShown("q", "c", is_open=False),
    ]


PICTURE = {"base64": "AAAA", "format": "png"}


@pytest.mark.parametrize(
    ("value", "origin", "count"),
    [
        (PICTURE, "provider", 1),
        ({"images": [PICTURE, PICTURE]}, "provider", 2),
        ({"images": [{"base64": "AAAA", "format": "svg"}]}, "provider", 0),
        ({"base64": "toolcrib-artifact:data_0", "format": "png"}, "provider", 0),
        (PICTURE, "local", 0),
    ],
)
def test_only_pictures_of_the_provider_are_files(value: Any, origin: Any, count: int) -> None:
    """No document that a page might run, and nothing that only looks like a reference."""
    parts = parts_of([STARTED, invoked("c", value=value, origin=origin)])

    assert len([part for part in parts if isinstance(part, PictureShown)]) == count

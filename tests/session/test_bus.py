"""The bus: subscribers watch, and cannot break what they watch."""

import pytest

from tests.session.samples import add_up, executor
from toolcrib import EventBus, Session, ToolInvoked
from toolcrib.ledger.events import CallStarted, Event, SessionOpened, ToolOutput
from toolcrib.testing import Recorder


def opened(fence: int = 1) -> SessionOpened:
    return SessionOpened(session_id="s", at=0.0, fence=fence)


class TestDelivery:
    async def test_a_subscriber_hears_the_type_it_asked_for(self) -> None:
        """R38: events come typed, in the order they happen."""
        session = Session()
        heard: list[Event] = []
        session.bus.subscribe(ToolInvoked, heard.append)

        await add_up(session, 2)

        assert [event.kind for event in heard] == ["tool.invoked"] * 2

    async def test_a_subscriber_to_all_hears_all(self) -> None:
        """R38: what is in the ledger was heard, in the same order."""
        session = Session()
        heard = Recorder(session.bus)

        await add_up(session)

        recorded = [record.kind for record in session.records()]
        assert heard.kinds == recorded[1:] == ["call.started", "tool.invoked"]

    async def test_sessions_can_share_a_bus(self) -> None:
        """A bus given to several sessions carries the events of all of them."""
        bus = EventBus()
        heard = Recorder(bus)

        for name in ("a", "b"):
            await add_up(Session(name, bus=bus))

        assert [event.session_id for event in heard.of(ToolInvoked)] == ["a", "b"]

    def test_subscribers_hear_in_the_order_they_subscribed(self) -> None:
        """The order of delivery is the order of subscription."""
        bus = EventBus()
        heard: list[str] = []
        bus.subscribe(SessionOpened, lambda _: heard.append("first"))
        bus.subscribe(SessionOpened, lambda _: heard.append("second"))

        bus.publish(opened())

        assert heard == ["first", "second"]

    def test_other_types_are_not_heard(self) -> None:
        """A subscriber is not bothered with what it did not ask for."""
        bus = EventBus()
        heard: list[Event] = []
        bus.subscribe(ToolOutput, heard.append)
        bus.subscribe(CallStarted, heard.append)

        bus.publish(opened())

        assert heard == []

    def test_another_bus_can_hear_everything(self) -> None:
        """A bus passes its events on to another one, once each, however often it is asked."""
        bus, other = EventBus(), EventBus()
        heard = Recorder(other)
        bus.forward_to(other)
        bus.forward_to(other)
        other.forward_to(other)

        bus.publish(opened())

        assert len(heard.events) == 1


class TestUnsubscribing:
    def test_who_unsubscribes_hears_nothing_more(self) -> None:
        """The function that `subscribe` returns ends it, and may be called twice."""
        bus = EventBus()
        heard: list[Event] = []
        unsubscribe = bus.subscribe(SessionOpened, heard.append)
        bus.publish(opened())

        unsubscribe()
        unsubscribe()
        bus.publish(opened())

        assert len(heard) == 1
        assert bus.subscribers == {}

    def test_a_subscriber_may_leave_while_it_is_called(self) -> None:
        """Leaving during delivery loses no event for the others."""
        bus = EventBus()
        heard: list[str] = []

        def once(_: Event) -> None:
            heard.append("once")
            leave()

        leave = bus.subscribe(SessionOpened, once)
        bus.subscribe(SessionOpened, lambda _: heard.append("always"))

        bus.publish(opened(1))
        bus.publish(opened(2))

        assert heard == ["once", "always", "always"]


class TestFailing:
    async def test_a_failing_subscriber_does_not_break_the_run(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """E11: the call goes on, the others still hear, the error is logged and counted."""
        session = Session()
        heard: list[Event] = []

        def fail(_: Event) -> None:
            raise LookupError("cannot show this")

        session.bus.subscribe(Event, fail)
        session.bus.subscribe(Event, heard.append)

        outcome = await executor(session).call("add", {"a": 1, "b": 2})

        assert outcome.value == 3
        assert [event.kind for event in heard] == ["call.started", "tool.invoked"]
        assert session.bus.failures == 2
        assert "a subscriber failed on tool.invoked" in caplog.text

    def test_an_interrupt_in_a_subscriber_is_not_swallowed(self) -> None:
        """R19: only errors are contained; an interrupt goes on up."""
        bus = EventBus()

        def stop(_: Event) -> None:
            raise KeyboardInterrupt

        bus.subscribe(SessionOpened, stop)

        with pytest.raises(KeyboardInterrupt):
            bus.publish(opened())

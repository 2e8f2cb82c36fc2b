"""What a request goes on from: the conversation before it, and what it adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from toolcrib.local.faults import ApiFault
from toolcrib.local.hosted.tool import Source
from toolcrib.local.responses.citing import Sources
from toolcrib.local.responses.conversation import Conversation
from toolcrib.local.responses.items import KeptItem, whole_item

if TYPE_CHECKING:
    from toolcrib.local.responses.kept import Kept
    from toolcrib.local.responses.request import Item

_SOURCE: TypeAdapter[Source] = TypeAdapter(Source)


@dataclass(frozen=True, slots=True)
class History:
    """A conversation. `before` are the items of earlier responses, `given` those of this request;
    with `is_kept` the earlier ones are kept under their own responses.
    """

    conversation: Conversation
    sources: Sources
    before: Sequence[KeptItem] = ()
    given: Sequence[KeptItem] = ()
    is_kept: bool = True

    @property
    def unkept(self) -> list[KeptItem]:
        """What has to be kept with the response itself."""
        return [*(() if self.is_kept else self.before), *self.given]


class Recent:
    """What one connection may go on from besides what is kept: the last response it has made."""

    def __init__(self) -> None:
        self._last: tuple[str, Sequence[KeptItem]] | None = None

    def chain(self, response_id: str) -> Sequence[KeptItem] | None:
        """The conversation up to this response, if it is the last one."""
        last = self._last
        return last[1] if last is not None and last[0] == response_id else None

    def remember(self, response_id: str, items: Sequence[KeptItem]) -> None:
        """Go on from this one from now on, and from no other."""
        self._last = response_id, items

    def forget(self) -> None:
        """There is nothing to go on from."""
        self._last = None


async def read_history(
    kept: Kept, items: Sequence[Item], previous_id: str | None, recent: Recent | None = None
) -> History:
    """The conversation of a request. Raises `ApiFault`."""
    before = recent.chain(previous_id) if recent and previous_id else None
    is_kept = before is None
    if before is None:
        before = await kept.chain(previous_id) if previous_id else []
    given = [await _resolved(kept, item, f"input[{at}]") for at, item in enumerate(items)]
    answers = {each.id: each.answer for each in (*before, *given) if each.answer}
    conversation = Conversation(answers.get)
    conversation.read((each.body for each in before), "previous_response_id")
    conversation.read(each.body for each in given)
    return History(conversation, _restored(answers), before, given, is_kept)


async def _resolved(kept: Kept, item: Item, param: str) -> KeptItem:
    """An item as it is kept. One that comes back, whole or by its id alone, may be one of ours."""
    item_id = item.get("id")
    known = await kept.item(item_id) if isinstance(item_id, str) else None
    if item.get("type") != "item_reference":
        return KeptItem(whole_item(item), known.answer if known else None)
    if known is None:
        raise ApiFault(404, "Item not found.", param=f"{param}.id")
    return known


def _restored(answers: Mapping[str, Mapping[str, Any] | None]) -> Sources:
    sources = Sources()
    for answer in answers.values():
        for mark, source in (answer or {}).get("sources", {}).items():
            sources.restore(mark, _SOURCE.validate_python(source))
    return sources

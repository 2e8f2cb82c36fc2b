"""A scrubber that learns secrets while it is used: tokens come and go during a connection."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final

from toolcrib.tools.redaction import Scrubber

_MOST: Final = 64
"""So many secrets are known, the newest: a server may still repeat a token that was replaced."""


class LiveScrubber(Scrubber):
    """Replaces every secret that it has learnt, and those that `base` replaces."""

    __slots__ = ("_learnt", "base")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.base: Scrubber | None = None
        self._learnt: OrderedDict[Any, None] = OrderedDict()
        super().__init__([])
        self.learn(*secrets)

    def scrub(self, data: Any) -> Any:
        """As `Scrubber.scrub`."""
        scrubbed = super().scrub(data)
        return scrubbed if self.base is None else self.base.scrub(scrubbed)

    def learn(self, *secrets: str | None) -> None:
        """Replace these from now on."""
        new = [each for each in secrets if each and each not in self._learnt]
        if not new:
            return
        self._learnt.update(dict.fromkeys(new))
        while len(self._learnt) > _MOST:
            self._learnt.popitem(last=False)
        super().__init__(list(self._learnt))

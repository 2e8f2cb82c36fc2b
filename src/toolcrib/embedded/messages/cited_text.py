"""The text of a backend, split at its marks and ended at a stop sequence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolcrib.embedded.messages.citation import Source
    from toolcrib.embedded.messages.writer import TextWriter

_MARKS: Final = re.compile(r"[ \t]*(?:\[S[0-9]{1,6}\][ \t]*)*\[S[0-9]{1,6}\]")
_MARK: Final = re.compile(r"\[(S[0-9]{1,6})\]")
_SENTENCE_END: Final = re.compile(r"(?:[.!?]\s+|\n)(?=[^\s\[])")
"""An end that no mark can follow: the next sentence has begun."""


class StopSequences:
    """Holds text back while it may be the start of a stop sequence."""

    def __init__(self, sequences: Sequence[str]) -> None:
        self._sequences = sequences
        self._held = ""
        self.reached: str | None = None
        """The sequence that ended the text."""

    def feed(self, text: str) -> str:
        """Add text; returns what may be shown."""
        if not self._sequences:
            return text
        waiting = self._held + text
        places = [(waiting.find(each), each) for each in self._sequences if each in waiting]
        if places:
            place, self.reached = min(places)
            self._held = ""
            return waiting[:place]
        kept = max(_overlap(waiting, sequence) for sequence in self._sequences)
        cut = len(waiting) - kept
        self._held = waiting[cut:]
        return waiting[:cut]

    def end(self) -> str:
        """The text that was held back."""
        rest, self._held = self._held, ""
        return rest


class SentenceWriter:
    """Writes text and replaces marks such as `[S1]` by citations of the sentence before them.

    Where there are sources, a sentence is written when it is complete. A mark without a source
    stays in the text.
    """

    def __init__(self, writer: TextWriter, sources: Mapping[str, Source]) -> None:
        self._writer = writer
        self._sources = sources
        self._held = ""

    def feed(self, text: str) -> None:
        """Add text."""
        if not self._sources:
            self._writer.say(text)
            return
        self._held += text
        self._write_cited(is_end=False)
        ends = [end.end() for end in _SENTENCE_END.finditer(self._held)]
        if ends:
            self._writer.say(self._held[: ends[-1]])
            self._held = self._held[ends[-1] :]

    def end(self) -> None:
        """Write the rest."""
        self._write_cited(is_end=True)
        self._writer.say(self._held)
        self._held = ""
        self._writer.end()

    def _write_cited(self, *, is_end: bool) -> None:
        at = 0
        while (group := _MARKS.search(self._held, at)) is not None:
            if group.end() == len(self._held) and not is_end:
                # Another mark may follow.
                return
            named = dict.fromkeys(_MARK.findall(group[0]))
            known = [self._sources[mark] for mark in named if mark in self._sources]
            before = self._held[: group.start()]
            if len(known) < len(named) or not before.strip():
                at = group.end()
                continue
            ends = [end.end() for end in _SENTENCE_END.finditer(before)]
            cut = ends[-1] if ends else 0
            self._writer.say(before[:cut])
            claim = before[cut:]
            self._writer.cite(claim, [source.citation(claim) for source in known])
            self._held, at = self._held[group.end() :], 0


def _overlap(text: str, sequence: str) -> int:
    """The length of the longest end of a text that a sequence begins with."""
    longest = min(len(text), len(sequence) - 1)
    return next((n for n in range(longest, 0, -1) if sequence.startswith(text[-n:])), 0)

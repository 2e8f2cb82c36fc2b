"""The text of an HTML page. It takes time in proportion to the page, whatever the page holds."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import Final

_RAW: Final = frozenset({"script", "style", "textarea", "title"})
"""Elements that hold no others: they go on to their own end."""

_SILENT: Final = frozenset({"head", "noscript", "svg", "template"})
_BLOCKS: Final = frozenset(
    {"p", "div", "section", "article", "li", "tr", "br", "table", "ul", "ol", "pre", "blockquote"}
    | {"h1", "h2", "h3", "h4", "h5", "h6", "main", "header", "footer", "nav", "aside", "dt", "dd"}
    | {"hr", "td", "th", "figcaption", "option", "body"}
)
_NAME: Final = re.compile(r"</?([A-Za-z][A-Za-z0-9-]{0,40})")
# A quote that nobody closes must not make every tag a search to the end of the page.
_REST: Final = re.compile(r"(?>[^>\"']{1,9999}|\"[^\"]{0,9999}\"|'[^']{0,9999}'){0,999}+>")
_ENDS: Final = {name: re.compile(f"</{name}", re.IGNORECASE) for name in _RAW}


@dataclass(slots=True)
class Page:
    """The title and the text of a page, in pieces."""

    title: str = ""
    pieces: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """Its lines, without the blanks that a browser would not show."""
        lines = (" ".join(line.split()) for line in "".join(self.pieces).splitlines())
        return "\n".join(line for line in lines if line)


def read_page(source: str) -> Page:
    """What a reader of the page would see."""
    reader = _Reader(source)
    while reader.at < len(source):
        reader.step()
    return reader.page


class _Reader:
    def __init__(self, source: str) -> None:
        self.page = Page()
        self.at = 0
        self._source = source
        self._silent = dict.fromkeys(_SILENT, 0)

    def step(self) -> None:
        """Take the text up to the next tag, and the tag."""
        begin = self._source.find("<", self.at)
        if begin < 0:
            begin = len(self._source)
        self._say(self._source[self.at : begin])
        self.at = begin
        if begin < len(self._source):
            self._markup()

    def _markup(self) -> None:
        if self._source.startswith("<!--", self.at):
            self._skip_to("-->")
        elif self._source.startswith(("<!", "<?"), self.at):
            self._skip_to(">")
        elif (named := _NAME.match(self._source, self.at)) is not None:
            self._tag(named[1].lower(), is_end=self._source.startswith("</", self.at))
        else:
            self._say("<")
            self.at += 1

    def _tag(self, name: str, *, is_end: bool) -> None:
        rest = _REST.match(self._source, self.at + 1)
        if rest is None:
            self._skip_to(">")
        else:
            self.at = rest.end()
        if name in _BLOCKS:
            self.page.pieces.append("\n")
        if name == "body":
            # The end of a head may be left out.
            self._silent["head"] = 0
        if name in _SILENT:
            self._hush(name, is_end=is_end)
        elif name in _RAW and not is_end:
            self._raw(name)

    def _hush(self, name: str, *, is_end: bool) -> None:
        if is_end:
            self._silent[name] = max(0, self._silent[name] - 1)
        elif not self._source.startswith("/", self.at - 2):
            self._silent[name] += 1

    def _raw(self, name: str) -> None:
        end = _ENDS[name].search(self._source, self.at)
        stop = len(self._source) if end is None else end.start()
        held = self._source[self.at : stop]
        self.at = stop
        if name == "title" and not self._silent["svg"]:
            self.page.title = self.page.title or " ".join(html.unescape(held).split())
        elif name == "textarea":
            self._say(held)

    def _say(self, text: str) -> None:
        if text and not any(self._silent.values()):
            self.page.pieces.append(html.unescape(text))

    def _skip_to(self, mark: str) -> None:
        found = self._source.find(mark, self.at)
        self.at = len(self._source) if found < 0 else found + len(mark)

"""Manual pages as plain text, for pipes and for machines without `man`: the macros of troff that kcli's pages use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import fill

_BODY, _TEXT_OF_ITEM = 7, 14  # columns of indentation, as in `man`
_REQUESTS = re.compile(r"\.(TH|SH|PP|TP|RS|RE|br|nf|fi|ft|nh)\b ?(.*)")


def plain_text(page: str, width: int) -> str:
    """Return the page as text of this width. A line that is preformatted may be longer."""
    return "\n".join(_Layout(width).lines(page.split("\n")[:-1])).strip("\n") + "\n"


class _Layout:
    """The lines of a page. Text is collected until a request ends its paragraph."""

    def __init__(self, width: int) -> None:
        self.width = max(width, 40)
        self.text: list[str] = []
        self.indent = _BODY
        self.is_filled = True
        self.is_heading = False  # the next line is the heading of an item
        self.heading = ""  # a short heading, before its text in the same line
        self.is_after_title = False

    def lines(self, source: list[str]) -> Iterator[str]:
        """Yield the lines of the page."""
        for line in source:
            request = _REQUESTS.match(line)
            if request is None:
                yield from self._text_line(_unescaped(line))
            else:
                yield from self._paragraph()
                yield from self._request(request[1], request[2])
        yield from self._paragraph()

    def _request(self, name: str, argument: str) -> Iterator[str]:
        if name == "TH":
            title, section = re.findall(r'"([^"]*)"', argument)[:2]
            yield f"{_unescaped(title)}({section})"
        elif name == "SH":
            self.indent, self.is_after_title = _BODY, True
            yield from ("", _unescaped(argument).strip('"'))
        elif name in ("PP", "TP"):
            self.indent, self.is_heading = _BODY, name == "TP"
            if not self.is_after_title:
                yield ""
        elif name == "RS":
            self.indent += int(argument or _BODY)
        elif name == "RE":
            self.indent = _BODY
        elif name in ("nf", "fi"):
            self.is_filled = name == "fi"

    def _text_line(self, line: str) -> Iterator[str]:
        self.is_after_title = False
        if self.is_heading:
            self.is_heading = False
            self.indent = _TEXT_OF_ITEM
            if len(line) < _TEXT_OF_ITEM - _BODY:
                self.heading = line
            else:
                yield " " * _BODY + line
        elif self.is_filled:
            self.text.append(line)
        else:
            yield (" " * self.indent + line).rstrip()

    def _paragraph(self) -> Iterator[str]:
        if text := " ".join(self.text).strip():
            first = " " * _BODY + self.heading if self.heading else ""
            yield fill(
                text,
                self.width,
                initial_indent=first.ljust(self.indent),
                subsequent_indent=" " * self.indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
        self.text.clear()
        self.heading = ""


def _unescaped(text: str) -> str:
    r"""Return text without fonts, and with the characters of \-, \e and \&."""
    return re.sub(r"\\(f[BIRP]|f\(CW|.)", lambda found: {"-": "-", "e": "\\"}.get(found[1], ""), text)

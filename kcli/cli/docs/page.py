"""A page of the manual as plain data, rendered for troff (man-pages(7), groff_man(7)) or as plain text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import fill
from typing import NamedTuple, TypeAlias

_BODY, _TEXT_OF_ITEM, _COMMENT = 7, 14, 11  # columns of indentation, as in `man`

#: A line with fonts: pieces of text, each in font R (roman), B (bold) or I (italic).
Line: TypeAlias = tuple[tuple[str, str], ...]


class Paragraph(NamedTuple):
    """Lines that are filled together; `is_literal`: that stay as they are."""

    lines: tuple[Line, ...]
    is_literal: bool = False


class Item(NamedTuple):
    """A heading, such as an option, and its text below it."""

    heading: Line
    text: str


class ExampleLine(NamedTuple):
    """A line for a shell, and a comment (may be empty)."""

    line: str
    comment: str


Block: TypeAlias = Paragraph | Item | ExampleLine


class Page(NamedTuple):
    """A page: its name, summary, and its sections by their titles. Section 1 has commands, 7 other subjects."""

    name: str
    summary: str
    sections: dict[str, list[Block]]
    section: int = 1

    @property
    def file_name(self) -> str:
        """The name of the file of the page in troff."""
        return f"{self.name}.{self.section}"


def roman(text: str) -> Line:
    """Return a line in the usual font."""
    return (("R", text),)


def bold(text: str) -> Line:
    """Return a line in bold."""
    return (("B", text),)


def items(pairs: Iterable[tuple[str, str]]) -> list[Block]:
    """Return items with headings in bold."""
    return [Item(bold(heading), text) for heading, text in pairs]


def paragraphs(text: str) -> list[Block]:
    """Return the help as paragraphs. One whose first line is the character \\b is literal."""
    parts = text.strip().split("\n\n")
    return [
        Paragraph(tuple(map(roman, part.removeprefix("\b\n").split("\n"))), part.startswith("\b\n")) for part in parts
    ]


def see_also(pages: Iterable[str]) -> list[Block]:
    """Return the list of other pages, such as kcli(1)."""
    names = list(pages)
    lines = [(("B", name[:-3]), ("R", name[-3:] + "," * (name is not names[-1]))) for name in names]
    return [Paragraph(tuple(lines))]


# troff


def troff(page: Page) -> str:
    """Return the page in troff's `man` macros."""
    name = f'.TH "{page.name.upper()}" "{page.section}" "" "kcli" "kcli manual"'
    lines = [name, ".SH NAME", _escaped(f"{page.name} - {page.summary}")]
    if page.section == 7:
        lines.append(".nh")  # names of properties and options are not hyphenated
    for title, blocks in page.sections.items():
        lines.append(f".SH {title}")
        for number, block in enumerate(blocks):
            lines += _troff_lines(block, is_first=number == 0)
    return "\n".join(lines) + "\n"


def _troff_lines(block: Block, *, is_first: bool) -> Iterator[str]:
    if isinstance(block, Item):
        yield from (".TP", _fonts(block.heading), _escaped(block.text) or "\\&")
    elif isinstance(block, ExampleLine):
        yield from (".PP", ".nf", _fonts(bold(block.line)), ".fi")
        if block.comment:
            yield from (".RS 4", _escaped(block.comment), ".RE")
    else:
        if not is_first:
            yield ".PP"
        lines = map(_fonts, block.lines)
        yield from (".nf", ".ft CW", *lines, ".ft", ".fi") if block.is_literal else lines


def _fonts(line: Line) -> str:
    return "".join(_escaped(text) if font == "R" else rf"\f{font}{_escaped(text)}\fR" for font, text in line)


def _escaped(text: str) -> str:
    """Escape text for troff: backslashes, hyphens, and a dot or quote at the start, which would begin a request."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return rf"\&{safe}" if safe.startswith((".", "'")) else safe


# Plain text


def plain_text(page: Page, width: int) -> str:
    """Return the page as text of this width. A line that is literal may be longer."""
    lines = [f"{page.name.upper()}({page.section})", "", "NAME"]
    lines += _filled(f"{page.name} - {page.summary}", width, _BODY)
    for title, blocks in page.sections.items():
        lines += ["", title]
        for number, block in enumerate(blocks):
            lines += [""] * (number > 0)
            lines += _plain_lines(block, max(width, 40))
    return "\n".join(lines) + "\n"


def _plain_lines(block: Block, width: int) -> Iterator[str]:
    if isinstance(block, Item):
        heading = _without_fonts(block.heading)
        first = " " * _BODY + heading
        if len(heading) < _TEXT_OF_ITEM - _BODY and block.text:
            yield from _filled(block.text, width, _TEXT_OF_ITEM, first.ljust(_TEXT_OF_ITEM))
        else:
            yield first
            yield from _filled(block.text, width, _TEXT_OF_ITEM)
    elif isinstance(block, ExampleLine):
        yield " " * _BODY + block.line
        yield from _filled(block.comment, width, _COMMENT)
    elif block.is_literal:
        yield from ((" " * _BODY + _without_fonts(line)).rstrip() for line in block.lines)
    else:
        yield from _filled(" ".join(map(_without_fonts, block.lines)), width, _BODY)


def _without_fonts(line: Line) -> str:
    return "".join(text for _, text in line)


def _filled(text: str, width: int, indent: int, first: str = "") -> list[str]:
    if not text:
        return []
    margin = " " * indent
    return [
        fill(
            text,
            max(width, 40),
            initial_indent=first or margin,
            subsequent_indent=margin,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]

"""Tables as Apache's group tool prints them: columns wide enough for their values and no narrower than ever. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

MISSING = "-"

Cells = Sequence[str]


def table(heading: Cells, rows: Iterable[Cells], widths: Sequence[int | None], growing: Collection[int] = ()) -> str:
    """Lines with a blank between columns, each at least as wide as its width says; None: as wide as its value.

    A column in `growing` is made as wide as its longest value; in the others a long value pushes what follows aside.
    """
    lines = [heading, *rows]
    grown = [
        max(width, *(len(line[at]) for line in lines)) if width is not None and at in growing else width
        for at, width in enumerate(widths)
    ]
    return "".join(
        " ".join(cell if width is None else cell.ljust(width) for cell, width in zip(line, grown, strict=True)) + "\n"
        for line in lines
    )


def shown(value: object | None) -> str:
    """A cell; `-` for what is not there. Nothing in it can command a terminal or begin a line."""
    if value is None:
        return MISSING
    text = str(value)
    if text.isprintable():
        return text
    from kcli.cli.output.escapes import visible

    return visible(text)

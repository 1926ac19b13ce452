"""The view for pipes and programs: a line for each topic at each look, in the output format that was asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.cli.group.watch_cells import COLUMNS, NUMBERS, as_row, row_cells, row_item
from kcli.cli.output.report import Report, cell, header
from kcli.text import format_time

if TYPE_CHECKING:
    from kcli.cli.environment import Environment
    from kcli.cli.group.rates import TopicRow

_DATA_COLUMNS = ["time", *(column if column != "drain" else "drain_ms" for column in COLUMNS)]


class Lines:
    """Prints each look as it comes, and flushes. Columns of a table only grow, so that lines stay below each other."""

    def __init__(self, env: Environment, output: str | None) -> None:
        self._env = env
        self._output = output
        self._widths = [0] * (len(COLUMNS) + 1)
        self._has_header = False

    def __repr__(self) -> str:
        return f"<Lines {self._output or 'table'}>"

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_exc: object) -> None:
        pass

    def show(self, rows: Sequence[TopicRow], wall_ms: int) -> None:
        """Print one look; a row that failed is told on standard error too."""
        time = format_time(wall_ms)
        if self._output == "jsonl":
            text = "".join(json.dumps({"time": time, **row_item(r)}, ensure_ascii=False) + "\n" for r in rows)
        elif self._output in ("csv", "tsv"):
            text = self._separated(rows, time)
        else:
            text = self._table(rows, time)
        self._has_header = True
        self._env.stdout.write(text)
        self._env.stdout.flush()
        for row in rows:
            if row.error is not None:
                self._env.say(f"kcli: {row.group}: {cell(str(row.error))}")

    def _separated(self, rows: Sequence[TopicRow], time: str) -> str:
        from kcli.cli.output.csv import as_csv, as_tsv

        items = [{"time": time, **row_item(row)} for row in rows]
        report = Report("group.watch", _DATA_COLUMNS, items, [as_row(item) for item in items])
        text = (as_csv if self._output == "csv" else as_tsv)(report)
        return text.partition("\n")[2] if self._has_header else text

    def _table(self, rows: Sequence[TopicRow], time: str) -> str:
        lines = [] if self._has_header else [["TIME", *map(header, COLUMNS)]]
        lines += [[time, *row_cells(row)] for row in rows]
        for line in lines:
            self._widths = [max(width, len(text)) for width, text in zip(self._widths, line, strict=True)]
        return "".join(self._aligned(line) for line in lines)

    def _aligned(self, line: list[str]) -> str:
        cells = [
            text.rjust(width) if name in NUMBERS else text.ljust(width)
            for text, width, name in zip(line, self._widths, ["time", *COLUMNS], strict=True)
        ]
        return "  ".join(cells).rstrip() + "\n"

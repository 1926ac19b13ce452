"""Page of charts and tables as one HTML file, which includes the chart library and loads nothing.

Source: plotly's documentation of `plotly.io.to_html`; "Content Security Policy Level 3" for the restrictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.cli.spark.files import check_file, write_text
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.spark.pipelines.result import Result

MOST_ROWS = 1000
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
.of { color: #666; margin: 0; }
table { border-collapse: collapse; font-size: 0.8rem; }
th, td { padding: 0.2rem 0.4rem; border-bottom: 1px solid #ddd; vertical-align: top; overflow-wrap: anywhere; }
th { text-align: left; } td { white-space: pre-wrap; } td.number { text-align: right; }
"""


class Section(NamedTuple):
    """A section of the page: a heading, and optionally a sentence, a chart (plotly's Figure) and a table."""

    title: str
    text: str = ""
    figure: Any = None
    table: Result | None = None


def check_page(path: str) -> None:
    """Raise ConfigError if the page cannot be written: plotly or the folder is missing."""
    from kcli.spark.deploy.session import INSTALL

    check_file("--report", path)
    try:
        import plotly  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"--report needs plotly ({error}): {INSTALL}") from error


def write_page(
    path: str, title: str, subject: str, now_ms: float, sections: Sequence[Section], about: Sequence[str] = ()
) -> None:
    """Write the page. OSError."""
    write_text(path, as_html(title, subject, now_ms, sections, about))


def as_html(title: str, subject: str, now_ms: float, sections: Sequence[Section], about: Sequence[str] = ()) -> str:
    """Return the page as HTML, with lines about the data after the subject. Data of topics is always escaped."""
    from kcli.text import format_time

    parts = [
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(f"{title}: {subject}")}</title>',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>{_STYLE}</style></head><body>',
        f'<h1>{escape(title)}</h1><p class="of">{escape(subject)}</p>',
        *(f'<p class="of">{escape(line)}</p>' for line in about),
        f'<p class="of">Made at {format_time(round(now_ms))}; all times are in UTC.</p>',
    ]
    has_library = False
    for section in sections:
        parts.append(f"<h2>{escape(section.title)}</h2>")
        if section.text:
            parts.append(f"<p>{escape(section.text)}</p>")
        if section.figure is not None:
            parts.append(_chart(section.figure, with_library=not has_library))
            has_library = True
        if section.table is not None:
            parts.append(_table(section.table))
    return "\n".join([*parts, "</body></html>\n"])


def _chart(figure: Any, *, with_library: bool) -> str:
    from plotly.io import to_html

    config = {"displaylogo": False, "responsive": True}
    return str(to_html(figure, config=config, full_html=False, include_plotlyjs=with_library, include_mathjax=False))


def _table(result: Result) -> str:
    from kcli.cli.output.report import cell
    from kcli.cli.spark.results import rounded

    rows = []
    for row in rounded(result._replace(rows=result.rows[:MOST_ROWS])).rows:
        cells = [row.get(name) for name in result.columns]
        rows.append(
            "<tr>" + "".join(f"<td{_class(value)}>{escape(_shown(value, cell))}</td>" for value in cells) + "</tr>"
        )
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in result.columns)
    more = len(result.rows) - MOST_ROWS
    remaining = f"<p>{more:,} rows more.</p>" if more > 0 else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"{table}{remaining}"


def _class(value: Any) -> str:
    return ' class="number"' if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _shown(value: Any, cell: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(cell(value))

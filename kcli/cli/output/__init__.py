"""Output formats that all commands share: tables, JSON, CSV and TSV, escapes, and the progress bar.

A command makes a `report.Report` (kind, items, columns, rows) and calls `printer.print_report`, which picks the format
and prints. `table` has the two layouts of tables (plain in a pipe, rich's on a terminal), `json` and `printer` the
formats for programs, `escapes` the escapes of control characters, `progress` the bar of bounded reads.

No threads, and no state apart from the progress bar, which its owner ticks.

**Non-obvious**

- Data goes to standard output, messages to stderr. A failed item is a row with `error`; if the table may not be seen,
  `show` reports the failure on stderr too.
- A JSON document has a version (`json.VERSION`). Fields may be added; renaming or removing one needs a new version.
- Tables omit the ERROR column when nothing failed; csv and tsv always have it, so that scripts see fixed columns.
- Everything from brokers and records is escaped before it reaches a terminal, but not in a pipe.
- rich is imported only when a table is printed on a terminal; that takes longer than most commands run. Large tables do
  not use it (`table.MOST_RICH`).

Tests: `test_report` tests all formats, by what is printed.
"""

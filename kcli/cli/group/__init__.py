"""The `kcli group` family: list, describe, lag, metrics, watch, explain, wait, delete and remove-members.

Each command parses its options, calls `kcli.admin.groups` or `kcli.admin.explain`, and prints. `selection` has the
options that select groups and the survey of the selected ones, `rows` the items and rows of their reports.
`watch_views` has the two displays of `watch`; `openmetrics` makes text of metrics for `lag` and `metrics`. `delete` and
`remove-members` follow the contract of `kcli.cli.mutation`.

No threads, except that prometheus_client serves the page of `metrics` from its own. `watch` reads single keys from the
terminal between two samples.

**Non-obvious**

- `selection` is imported by `--help`, so it imports the library only inside functions.
- A broker that does not return its groups is a row with an error: with --all it is unknown which groups are missing.
- Status 3 means that all failed groups do not exist; any other failure beside a success is status 1, because a part of
  the table is missing.
- `partition_table` builds columns, not rows, and the garbage collector is suspended: a table may have 100,000 rows.
- A `~` before a time lag marks a time that is not exact; the reasons are on standard error, the notes in json.
"""

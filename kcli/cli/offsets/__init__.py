"""The `kcli offsets` family: show, export, reset, apply, copy, delete and undo.

A mutating command builds a plan with `kcli.admin.offsets` and passes it to `offset_view.run_offset_plan`, which
previews it, and has `kcli.cli.run_plan` show it or, with --execute, apply it. `plan_output` has the rows and the lines
of plans and outcomes, `options` the targets, scopes, policies and files of the command line.

No threads.

**Non-obvious**

- Without --execute the exit status is the one that --execute would have, so that a script can check first.
- As a table, the plan is printed and flushed before anything is written; if that fails, nothing is written.
- json and csv of a plan are the plan file, which `offsets apply` reads; on a terminal their control characters are
  escaped.
- A closed pipe after the write does not change the status: the offsets are written.
- `apply` refuses a saved plan if a new offset is no longer in its log; plans of `undo` may have any offset.
- `options` is imported by `--help`, so it imports the library only inside functions.

Tests: `test_files` and `test_faults` test plans from any command; `test_requests` the requests of each.
"""

"""The commands: parse, call the library, print a report, return an exit status.

A family of commands is a folder, and a command is a module with a function `run`, whose signature declares its
arguments and options. `command_table` lists all commands; `app.run` finds the command, `parser` builds typer's tree for
it, and `environment.Environment` is all that a command sees of the process. `options` has the options that commands
share, `property_sources` the client properties and passwords in them, `exit_status` the statuses, `output` the formats.

One thread runs a command. Signals are handled by Python's default, except where a command enters
`environment.StopSignals`.

**Non-obvious**

- Start-up time is a feature. A run imports the module of its own command only, and `--help` imports nothing of client,
  network, protocol or broker; therefore most imports of the library are inside `run`.
- `kcli --version` is answered in `kcli/__main__.py`, before anything is imported.
- Only `parser` touches typer. It rewords typer's usage errors.
- A command that changes something makes a `kcli.admin.plan.Plan`, and passes it to `run_plan` with a `View` of it.
- A command reports an error by raising it; `app.report` prints one line and returns the status of
  `exit_status.status_of`.
- Options travel as one value: a NamedTuple whose fields are options, with a `check()` if they depend on each other.
  `run` takes it as one parameter, and the parser expands it. `Common` is made of one, the environment and files. Of two
  options with the same name, the first replaces the other.
- The options of several families are in `options`, those of one family in its own `options`. Modules with many of them
  have no `from __future__ import annotations`: it would have each annotation compiled again when it is evaluated.
- The docstring of `run` is the text of `--help` and of the manual page; `python -m kcli.cli.docs` regenerates the
  pages.
"""

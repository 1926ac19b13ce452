"""Completion of command lines in bash, zsh and fish.

`completion.run` prints the script of a shell (`scripts`). On each TAB the script starts `kcli __complete SHELL`, a
hidden word that `kcli.__main__` answers with `answer.main`. `command_line` finds, in a line, the value that is being
typed; `answer` collects its candidates and writes them in the form of the shell. Names that a cluster knows come from
`cluster_names`, through the cache of `cached_names`.

The foreground has no thread and opens no connection. A question to a cluster is asked by a child process, which is
forked without a terminal and ends after three seconds at the latest.

**Non-obvious**

- `command_table.json` has all commands and options. It is generated (`python -m kcli.cli.docs`), because a TAB must not
  import the parser: that takes longer than the rest of the answer.
- The line comes from standard input, not in the arguments, because it may have a password (`-X sasl.password=...`).
- A child without a terminal cannot ask for a password. Nothing is asked of a cluster whose profile has a password
  command, because that program could ask on a screen of its own.
- The names of a cluster are used for ten seconds. After that they are asked for again; older names are shown while the
  cluster does not answer. A failed attempt counts, too, so that a dead cluster costs its wait once in ten seconds.
- bash replaces only the part of a word after the last character of COMP_WORDBREAKS, such as `=` and `:`; the other
  shells replace the whole word.
"""

"""The `kcli compat` family: command lines of Apache's own tools, with their options, tables and messages.

`consumer_groups` is the command page for kafka-consumer-groups.sh. `options` parses the command line as the tool does,
`groups` has the actions that list, describe and delete, `offsets` has the reset, and `messages` has the tool's texts
and its table layout. A `groups.Session` is one run: streams, options, client, deadline.

No threads. What the commands do is in `kcli.admin`; this family only parses and prints.

**Non-obvious**

- Texts and tables are Apache's, word for word, and tests compare them with the real tool (tests/interop/compat). Change
  none of them for style. Lines that start with `kcli:`, and the help, are kcli's own.
- Errors of a cluster go to standard output, as in the tool; invalid usage and warnings go to stderr.
- The command has a parser of its own (`parser.UnparsedCommand`), because JOpt Simple accepts other command lines than
  typer. Its signature exists only for help, manual page and completion.
- Some errors are wrapped in `java.util.concurrent.ExecutionException`, where the tool gets them from a future.
- Exit statuses are kcli's unless --apache-exit-codes is given.
"""

"""The `kcli profile` family: named clusters in one file, and a check of the connection to one.

`profile_file` reads and changes the file. `kcli.cli.options` chooses the profile of a command and merges its settings
with the other sources, whose order is written there. `effects` is where each command that changes a cluster passes.

**Non-obvious**

- Nothing of this family is imported by a command without a profile: `kcli.cli.options` only looks whether the file
  exists.
- The properties of the current profile do not apply if another cluster is named with `-b`, `--command-config` or their
  variables, so that its password is not sent to another cluster. Its `read-only` applies all the same, because `-b` may
  name another broker of the same cluster; `-P none` is the way out.
- `read-only` is checked twice: by the command (`kcli.cli.command_table.CHANGES`), before anything is sent, and by the
  client (`kcli.client.consumer_network_client`), which sends only requests that are known to change nothing.
- The password command runs when the properties are needed, at most once, and never for `list` and `show`.
"""

"""The `kcli assignor` family: forecasts of the partition assignment of a group. It joins no group and commits nothing.

`show` forecasts for members that the command line describes, `diff` compares a group's current assignment with the next
one. Both parse their options with `grammar`, build a `situation.Situation` (members, topics, today's assignment) from
the cluster or from options, let `kcli.assignors.forecast` compute, and print with `forecast_report`.

No threads. A command connects only if it must look up a group or the partitions of a topic.

**Non-obvious**

- `range` names two assignors: in a group whose broker assigns it is the server's (`server-range` in this family).
- Members added with `--members` sort last, because their real ids are unknown; assignors that go by order depend on it.
- The `taken_up` and `given_up` fields of the JSON document count newly assigned and unassigned partitions.
- `options` is imported by `--help`; the modules that import assignors and the protocol are imported inside `run`.
"""

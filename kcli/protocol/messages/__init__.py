"""The messages: one module per API with its request and response, declared once for all versions.

A module is named after its API in snake_case, and holds `<Api>Request`, `<Api>Response` and their structs. The
annotation of a field is its wire type; `since` gives the versions that have it. This vocabulary is that of
`protocol.wire`, and each module imports all of it; mypy finds a name that it does not have. Fields and structs have
Kafka's names in snake_case, and every class docstring lists the changes by version.

**Non-obvious**

- Modules are imported by `registry` on first use, because a command needs few of them.
- Kafka names structs per API. Two APIs with an equal struct of the same name share one class; others of the same name
  are different classes.
- A field's default is Kafka's, so that a field not set is encoded as Kafka's own client does.
- Responses differ between versions in meaning, not only in fields: DescribeGroups reports an unknown group as "Dead" up
  to v5, and as error 69 from v6 on. The docstrings say so.

Tests: `tests/protocol` tests all messages together (`test_golden`, `test_audit`, `test_captures`), and there is no file
for each.
"""

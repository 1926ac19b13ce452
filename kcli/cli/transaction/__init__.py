"""The `kcli transaction` family: list, describe, hanging and abort.

Each command parses its options, calls `kcli.admin.transactions` (the view of coordinators) or
`kcli.admin.logs.hanging_transactions` (that of partition leaders), and prints. `rows` has the items of reports and the
shared options. `abort` follows the contract of `kcli.cli.mutation`.

**Non-obvious**

- A transactional id is listed by the broker that coordinates it. A broker that does not answer is a row with an error.
- `hanging` reports only what every coordinator has denied, twice: a transaction may end between two requests.
- `abort` has two forms because there are two owners: a coordinator ends a transaction in all its partitions; for one
  that no coordinator knows, each leader of a partition gets the abort.

Tests: `test_transaction` tests all commands, on one scene of transactions.
"""

"""Health of a cluster: findings about partitions, brokers, topics and transactions.

`inspection.inspect_cluster` requests facts from the brokers and returns an `Inventory` (plain data, in `inventory`).
`check.find_faults` applies every rule to it and returns findings of the same type as those of `kcli.admin.explain`. The
rules are pure functions: `partition_rules` on replicas and leaders, `broker_rules` on disks, versions and settings,
`safety_rules` on settings and transactions, and on the facts that are missing.

There is no thread. The requests go through the one client of the caller.

**Non-obvious**

- A missing fact is a `Failure` in the inventory, and the finding `unchecked` reports it: a refused request must not
  look like a healthy cluster.
- Metadata does not list topics without the right to describe them, and ListTransactions omits transactional ids in the
  same way. `Inventory.restricted` is true where an authorizer may do so.
- A broker that is down is not asked; `broker-offline` reports it. A listed broker that does not answer ApiVersions is
  `unreachable`, and is asked nothing else.
- Brokers do not return their version. Different ranges of API versions or features show that versions differ.
- The `kind` of a finding is an interface for scripts. Its sentences are not.

Tests: `test_check` tests all rules.
"""

"""Request handlers of the broker: one module per API, each with `handle(broker, request, context)`.

A module starts with the name and key of its API, the served versions, and the features that are deliberately missing.
`handle` returns the response message, a `Pending` of it if the request must wait, or None for no answer.

`api_table` maps API keys to modules and versions; ApiVersions is answered from it. Requests about which the controller
decides have no module there: see `kcli.broker.cluster.decide`. Modules that are not handlers: `acl_requests`,
`delegation_token_requests`, `current_leader` (for Produce and Fetch), `group_requests` (around the group APIs of a
node), and `rights` (for several).

A handler asks `broker.authorizer` before it answers. Its answers to clients without a right are those of Apache Kafka:
mostly a row with an error, or nothing in a list. `tests/interop/test_acl_stories.py` has them for each API.

**Threads and ownership**: handlers run in the broker's loop thread and keep no state of their own. State belongs to the
parts of `Broker`.

**Non-obvious**

- A handler module is imported with the first request of its API. Importing all of them would add more than a
  third to the start-up time.
- The version is in `context.api_version`. `api_table` limits it, except for ApiVersions, which must answer unknown
  versions, too (KIP-511).
- The records in a Produce request are views over its frame. An append writes the offset and leader epoch into that
  frame before it goes to the disk, so a handler must not keep or reuse it.
- A Fetch response carries file slices, not bytes: the selector sends them with sendfile where it can.
- An error of one partition is a row. Requests that name a resource twice are refused per resource, as in Apache Kafka.

Tests: handlers of one subject share a file, such as `test_topics` and `test_admin_requests`; those of groups and
transactions are tested in `tests/broker/group` and `tests/broker/transaction`, those of ACLs and tokens in
`tests/broker/security`.
"""

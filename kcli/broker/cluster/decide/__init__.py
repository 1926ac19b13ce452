"""Decisions: each request that changes a cluster becomes records for its metadata log, and a response.

- `draft.Draft`: the records of one decision, and the image as it will be with them: all of them or none.
- `parts.Parts`: what the decision about a client's request reads and changes: the draft, its topics and settings as a
  `draft_cluster.DraftCluster`, and the rights and quotas of the client.
- A module for each request of clients, with `handle(parts, request, context)`: `create_topics` and others;
  `alter_configs` and `token_changes` are for several requests. `config_resources`: types of resources with
  settings. `mutations` counts partitions against a quota.
- `partition_changes`, `feature_updates`, `quota_changes`: decisions that need only the draft. `placement`, `partitions`
  and `elections`: on which brokers a partition is, which of them leads it, and which are in its ISR and ELR.

`kcli.broker.controller.controller` has the table of all of them. Everything here is pure: no files, sockets or clock.

Tests: `tests/broker/controller` tests decisions by a quorum in memory, beside Kafka's controller;
`tests/broker/handlers` and `tests/broker/security` by a broker alone.
"""

"""Classic groups, consumer groups (KIP-848) and committed offsets of the embedded broker.

`GroupCoordinator` (group_coordinator) has one method per group API. It keeps a `ClassicGroup` per name: members,
generation and rules, pure and without a clock. `Rebalancer` acts on the groups: it parks and completes JoinGroup and
SyncGroup requests and owns every timer task of a group (join phase, sync phase, one session per member). The states and
the error codes that follow from them are tables in `states`.

`OffsetStore` holds committed offsets in memory and in `__consumer_offsets`, through `GroupLog` (appends and reads)
and `group_records` (encoding, replay at start). It stores groups as well, and knows the coordinator only as a
`GroupRegistry`.

A `ConsumerGroup` (consumer_group) is pure, too, and changes only by its records: `ConsumerChanges` writes them as one
batch, applies them, and owns the timers. `ConsumerHeartbeats` turns a heartbeat into records, by `target_assignment`
and `member_reconciliation`; `RegexSubscriptions` resolves regular expressions with `re2`. `ClassicMembers` serves
members of the classic protocol in a consumer group, and `group_conversion` makes one kind of group from the other while
its members live. These modules are imported with the first consumer group.

On a node of a cluster, `CoordinatorPartitions` loads the groups of a partition when the node becomes its leader, and
unloads them when it leads no longer. Every answer waits until the log that it is based on is replicated.

Threads: everything runs in the broker's one thread. A parked request is a `Pending`; completing it may run the next
request of that client at once, so the group's state is changed first and responses are completed last.

**Non-obvious**

* An offset or group is acknowledged after its append to `__consumer_offsets`; the memory changes after the append. A
  restart therefore restores exactly the acknowledged state.
* An id from MEMBER_ID_REQUIRED (KIP-394) is not a member: it has a session, delays the join phase, and is in
  `pending_join_ids`. A new member whose first join is parked cannot heartbeat and gets five minutes.
* The first rebalance of an Empty group lasts `group.initial.rebalance.delay.ms` although all known members have joined.
* A static member (KIP-345) that does not rejoin stays in the group until its session ends; one that restarts gets a new
  member id and keeps its assignment without a rebalance, if the chosen protocol does not change.
* Only the chosen protocol's metadata is stored with a group: after a restart each member has that one protocol.
* A "simple" group has offsets and no record of its own. Replay creates it, and it remains until expiry (KIP-211).
* A node answers from memory what its log says up to the end. Because the answer waits for the high watermark, no client
  sees an offset or a generation that the next coordinator may not have.
* A group's partition is Java's hashCode of its id modulo the partition count, so the count must never change.
* Offsets are stored with the topic id: a recreated topic does not inherit offsets whose tombstones failed.
* The generation of a classic member of a consumer group is its member epoch, and the coordinator is its leader: it
  joins again after each step of its reconciliation.
* A regular expression is resolved after the heartbeat that brings it is answered: the next one has the partitions.
* A commit in an older epoch than the member's is accepted for partitions that the member has had since that epoch.
* Offsets of a transaction are pending until its marker is in the partition of the group: see `offset_cache`. Members
  that require stable offsets wait for that (KIP-447).

Tests: a file tests a behaviour and not a module: `test_group_coordinator`, `test_consumer_heartbeats`,
`test_group_conversion`, `test_regex_subscriptions`, `test_consumer_groups_of_nodes`.
"""

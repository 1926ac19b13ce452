"""Classic consumer groups and committed offsets of the embedded broker.

`GroupCoordinator` (group_coordinator) has one method per group API. It keeps a `ClassicGroup` per name: members,
generation and rules, pure and without a clock. `Rebalancer` acts on the groups: it parks and completes JoinGroup and
SyncGroup requests and owns every timer task of a group (join phase, sync phase, one session per member). The states and
the error codes that follow from them are tables in `states`.

`OffsetStore` holds committed offsets in memory and in `__consumer_offsets`, through `GroupLog` (appends and reads)
and `group_records` (encoding, replay at start). It stores groups as well; it knows the coordinator only as a
`GroupRegistry`, and the coordinator knows it only as a `GroupStore`.

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
* A group's partition is Java's hashCode of its id modulo the partition count, so the count must never change.
* Offsets are stored with the topic id: a recreated topic does not inherit offsets whose tombstones failed.
* Transactional offset commits are not served, but replay handles them, because a Kafka data directory may hold some.
"""

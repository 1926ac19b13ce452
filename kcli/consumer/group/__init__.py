"""Consumer groups: membership by either group protocol, and offset commits.

`GroupClient` is the group side of a `Consumer`. It has a `CoordinatorLookup`, an `OffsetCommits`, and after
`subscribe` a `Membership`, of which there are two:

- Classic: `ConsumerCoordinator` decides in the application's thread; `ClassicMember` sends join, sync, heartbeat and
  leave requests. `classic_state` is the table of states, `classic_protocol` the requests and the reaction to each
  error code. The leader of a generation has a `Leadership`: it reads the metadata of all topics, assigns, and watches
  for changes.
- KIP-848: `ConsumerMembership` applies the broker's assignment in the application's thread; `Kip848Member` sends the
  heartbeats. `kip848_state`, `kip848_protocol` and `reconciliation` are pure.

Threads: `HeartbeatThread` calls `beat` of the member, and waits for the network only while the application does not.
Both threads may call `beat`, so a member has a lock; neither waits for the network while it holds the lock. Callbacks,
joins and changes of the assignment happen only in the application's thread, inside `poll`.

**Non-obvious**

- The coordinator has a connection and a node id of its own. A broker answers the requests of one connection in order,
  so on a shared connection a heartbeat would wait for a Fetch, and every request for a JoinGroup.
- An open JoinGroup replaces heartbeats: the broker keeps a joining member alive.
- A process that was suspended may find old, successful heartbeat responses. Therefore the time of sending confirms the
  membership, not the time of the response, and until then no records are returned (`may_be_expelled`).
- `revoked` partitions are still owned while the callback runs, so it may commit. `lost` partitions may have another
  owner already, so nothing is committed.
- During a rebalance a classic member commits for its old generation until SyncGroup completes; a commit that is
  refused for an old generation does not end the new one.
- A static member does not leave: it returns under its `group.instance.id` before its session ends (KIP-345).
- The exceptions of callbacks are raised after the rebalance (`CallbackErrors`), so that a failed callback does not
  leave the assignment half applied.
- KIP-848 assigns topics by id. A topic that was created again has another id: its old partitions are revoked before
  the new ones are added.
- An error code has exactly one reaction per request, in a table. A code outside the table has the default of its API.

Tests: `test_consumer_coordinator` and `test_consumer_coordinator_errors` test members of the classic protocol,
`test_consumer_membership` and `test_consumer_membership_errors` those of KIP-848.
"""

"""Transactions of the embedded broker (KIP-98, KIP-890).

The coordinator of a transactional id is the leader of its partition of `__transaction_state`:

- `transaction_coordinator.TransactionCoordinator`: the ids that this broker coordinates, one method per API.
- `transaction_state`: an id and its transitions, as pure functions of its present state and a request.
- `transaction_queries`: the answers of DescribeTransactions and ListTransactions.
- `transaction_log`: the records of ids. Appends and replay are those of `kcli.broker.coordinator_log`, as for groups.
- `markers`: `MarkerSender` has the leaders of a transaction's partitions write the marker that ends it, and
  `MarkerWriter` writes it in the partitions that are led here.

The leader of a partition that a producer writes to:

- `verification.PartitionVerifier`: asks the coordinator whether the partition is in the transaction, or has it added.
- `verified_append`: a Produce request with batches of a transaction. The checks of each batch are in `kcli.broker.log`.

**Threads**: everything runs in the broker's one thread. A parked request is a `Pending`.

**Non-obvious**

- Memory follows the log, unlike in the group coordinator: the next state of an id becomes the present one when its
  record is replicated. Until then, and while markers are written, the id has a pending transition, and requests get 51.
- The outcome is decided by the record PrepareCommit or PrepareAbort. The client has its answer before any marker is
  written, so its next Produce may come before the marker of the previous transaction.
- After a restart or a move of the coordinator, all markers of a decided transaction are sent again. A leader that has
  one already appends another; this ends nothing, because no transaction is open.
- The epoch of a client with transaction version 2 grows with each transaction; a marker has the next epoch already.
- Epoch 32767 is only in markers. The producer id changes with the next transaction.
- A record of the state Complete is repeated until it is written, whatever the error is, while this broker coordinates
  the id; otherwise the id would answer 51 forever.
- The timeout of a transaction is enforced by a scan (`transaction.abort.timed.out.transaction.cleanup.interval.ms`),
  so it may last some seconds longer.
- `last_producer_epoch` is not in the log, as in Apache Kafka: a retry of InitProducerId is not recognized after a
  restart, and the producer is fenced.
- The pattern of ListTransactions is matched in linear time (`patterns`), because one thread serves all clients.

Tests: `test_recovery`, `test_moving_coordinator` and `test_verification` test the coordinator and its log.
"""

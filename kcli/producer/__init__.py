"""The producer: records are collected into batches per partition, and batches are sent to the partitions' leaders.

The objects, in the order of a record's path: `Producer` (the public face) adds it to the `Intake`. `SendLoop` takes
many records at a time from there, chooses their partitions (`partitioner`) and puts them into a `ProducerBatch` each
(`Accumulator`: batches that wait, by partition; pure, time is an argument). `Sender` sends the batches that are full or
have lingered, one request per leader, with retries and producer ids. Each batch reports an `Outcome` to the receivers
of its records: a callback of `send_many`, or the futures of `send`.

Threads: any number may call a `Producer`, and so may a signal handler, but for calls that wait. They add to the intake,
whose queue needs no lock. All that comes after it belongs to the thread that drives the `SendLoop`: the background
thread of the producer, or for a moment a caller that ends a transaction. Other threads wait for a condition that the
driving thread evaluates in each pass. Without a background thread (`from_config(..., in_background=False)`: commands,
Spark's tasks, tests) each call makes the passes itself. The client (connections, metadata) is the caller's if it was
passed in.

**Outcomes of a record.** There are three: stored (the future has a value), not stored (an error), and unknown: an error
whose `possibly_stored` is True. It is unknown if one attempt left it open, and no later one found out:

| the attempt ended with | the record is |
|---|---|
| success; DUPLICATE_SEQUENCE_NUMBER (stored by an earlier attempt) | stored |
| acks=0: the request was written | sent; nobody knows more, and the future has offset -1 |
| a connection lost, a time-out, or a malformed answer after the request was written | possibly stored |
| REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND, KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR | possibly stored |
| NOT_LEADER_OR_FOLLOWER with an offset: the leader appended the batch, then lost the leadership | possibly stored |
| no connection, or one lost before the request was completely written | not stored |
| any other error code: the broker refused the batch | not stored |
| an error before the first attempt (too large, no such topic, no room, no producer id) | not stored |

With enable.idempotence a retry of the producer itself never stores a record twice, and the retry after a lost answer
finds out whether the record is stored, so an unknown outcome remains only if the time is up. Without it, each retry
after a doubtful attempt may store the batch once more. A record that the caller sends again is a new record in both
cases: to send a record that is not stored is always right, to send one that is possibly stored may store it twice.

**Transactions.** `Transactions` sends the requests to the coordinators; `producer_states` has the states and the
meaning of error codes. A record that fails makes its transaction fail; then it can only be aborted
(`TransactionFailed`), and the producer goes on. After a fatal error (fenced) it can only be closed. The outcome of a
commit is unknown (`OutcomeUnknown`) if a request was sent, and no response came in time; the next call repeats it.

**Non-obvious**

- One batch per partition is in flight at a time, so order holds over retries, and the next sequence number is known.
  Throughput comes from the number of partitions and the size of batches, not from pipelining: while one is in flight,
  the next full one is encoded and compressed, so the broker waits only for its transfer.
- Records stay columns (`NewRecords`) from the intake and from `send_many` to the encoder. A future of a record is made
  without `__init__`, and completed without a callback of its own: `send` costs about as much as its future.
- Records linger in the intake, not in batches, because many at a time are put into batches several times as fast.
- A batch is due at batch.size. While it waits for the one in flight before it, it grows up to 256 KiB, unless the user
  has set batch.size: one batch per partition and request would otherwise limit the throughput.
- A batch keeps its producer id and sequence number over retries. If it fails while it is not known whether a broker
  stored it, its numbers can be neither reused nor skipped: the producer requests a new producer id instead (KIP-98).
- `DUPLICATE_SEQUENCE_NUMBER` is a success whose offset is unknown: the broker stored the batch in an earlier attempt.
- A batch keeps its records encoded, not as objects: they are encoded in parts as they are added, while they are in the
  processor's cache. A split decodes them.
- `batch.size` limits when a batch is full, not how large it may be: one large record makes a batch of its own. After
  `MESSAGE_TOO_LARGE` a batch is split, and later batches of its topic are smaller.
- An error of a record is in its future or outcome; only errors before the record was accepted (unknown topic, no room
  in `buffer.memory`) are raised by `send_many`. `send` puts these into the future too.
"""

"""The producer: records are collected into batches per partition, and batches are sent to the partitions' leaders.

Three objects: `Producer` (the public face), `Accumulator` (batches that wait, by partition; pure, time is an argument)
and `Sender` (Produce requests, retries, producer id). A record's path: `Producer.send` chooses the partition
(`partitioner`), `Accumulator.append` puts it into a `ProducerBatch`, `Sender.run` sends the batches that are full or
have lingered, one request per leader, and each batch reports an `Outcome` to the calls that its records came from.

Threads: none. The producer works only while one of its methods runs, so a batch that lingers is sent by the next call.
It belongs to one thread. The client (connections, metadata) is the caller's if it was passed in, else the producer's.

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
- Records stay columns (`NewRecords`) from `send_many` to the encoder. The records of one call are a part of each batch.
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

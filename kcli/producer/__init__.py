"""The producer: records are collected into batches per partition, and batches are sent to the partitions' leaders.

Three objects: `Producer` (the public face), `Accumulator` (batches that wait, by partition; pure, time is an argument)
and `Sender` (Produce requests, retries, producer id). A record's path: `Producer.send` chooses the partition
(`partitioner`), `Accumulator.append` puts it into a `ProducerBatch`, `Sender.run` sends the batches that are full or
have lingered, one request per leader, and each batch reports an `Outcome` to the calls that its records came from.

Threads: none. The producer works only while one of its methods runs, so a batch that lingers is sent by the next call.
It belongs to one thread. The client (connections, metadata) is the caller's if it was passed in, else the producer's.

**Non-obvious**

- One batch per partition is in flight at a time, so order holds over retries, and the next sequence number is known.
  Throughput comes from the number of partitions and the size of batches, not from pipelining.
- A batch keeps its producer id and sequence number over retries. If it fails while it is not known whether a broker
  stored it, its numbers can be neither reused nor skipped: the producer requests a new producer id instead (KIP-98).
- `DUPLICATE_SEQUENCE_NUMBER` is a success whose offset is unknown: the broker stored the batch in an earlier attempt.
- `batch.size` limits when a batch is full, not how large it may be: one large record makes a batch of its own. After
  `MESSAGE_TOO_LARGE` a batch is split, and later batches of its topic are smaller.
- An error of a record is in its future or outcome; only errors before the record was accepted (unknown topic, no room
  in `buffer.memory`) are raised by `send_many`. `send` puts these into the future too.
"""

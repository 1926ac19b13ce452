"""The log of one partition on disk, in Kafka's format (https://kafka.apache.org/documentation/#log).

`Log` (Kafka's UnifiedLog) is a list of `LogSegment`s. An append validates a batch (`validator`), checks its producer
and transaction (`producer_checks` by `producer_state`), assigns offsets in place and writes it to the active segment; a
read returns a slice of one segment file, which the server sends without copying. `segment_index` has the sparse indexes
of a segment, `file_records` the batches of its file, `segments` the look-ups by offset and timestamp, and
`transaction_index` the aborted transactions.

`loader` and `recovery` open a directory; `segments` and `compaction` decide what to remove, and `Log` and `cleaner` do
it. `segment_swap` replaces segments so that a crash at any point leaves the old or the new ones. `checkpoint_files`,
`leader_epoch_cache` and the snapshots of `producer_state` are Kafka's small files beside the segments.

Threads: everything runs in the broker's one thread. The cleaner works in steps of 64 KB between requests.

**Non-obvious**

* An append does not move the high watermark; the partition does. Retention and DeleteRecords stop at it.
* `LogDamage` is a place in a file without a valid batch. A read there is CORRUPT_MESSAGE for the client and is reported
  once; the records after the damage stay readable, because the next valid batch gets an index entry.
* Damage at or after the recovery point is truncated at start, because a crash can cause it. Damage before it was
  flushed data: it is reported and kept.
* An index is never trusted alone: it is checked against the log at its first use, and rebuilt when it does not match.
* The active segment's index files are written when it is rolled or closed; after a crash they are rebuilt anyway.
* An empty segment file can be the only record of a log's end offset; `LogSegment.establish` writes it before the
  segments before it are deleted.
* The open file of an idle segment is released, not closed: a slice that is still being sent keeps it open.
* An index entry of Kafka's cleaner names the first of several batches with the last offset of the last one.
* The transaction index of a segment is rebuilt where it is missing, because an aborted record must never be read. Kafka
  takes a missing one as empty.
* The first batch of a transaction is appended only with the `Verification` that began before its coordinator was asked.
  A marker that comes in between removes it, so no record is written to a transaction that has ended (KIP-890).
* A producer is unknown after its expiry or after retention, so an unknown one may start at any sequence number.
* A follower's batches have the offsets and leader epochs of its leader, and are written many at a time. Its segments
  are rolled where those of the leader are, except for `segment.jitter.ms`.
* A truncation never splits a batch. A crash during it leaves a log that ends between the new end and the old one.
* Only an empty log can start within a batch: that of a follower whose leader's log does, after DeleteRecords.
* Compaction leaves offset gaps, and an empty batch when it was the last one of a known producer.

Tests: `test_recovery` tests the loader and swapped segments, `test_truncation` segments.
"""

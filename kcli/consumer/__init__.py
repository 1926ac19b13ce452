"""Reading records: positions, fetching, bounded reads; membership and commits (`group/`), share groups (`share/`).

Three readers share one fetch loop:

- `Consumer` reads partitions for an application, its own choice or those of its group, poll by poll.
- `RangeReader` reads a range of each of many partitions and reports the coverage; `kcli consume` and the tasks of Spark
  use it. On request it also follows partitions that are added later.
- `MergedReader` reads with a `RangeReader` in order of time; `MergeBuffer` decides which records are next. `tail` finds
  the offsets of the last records.

The objects below them:

- `SubscriptionState` owns the state of each partition: position, fetch position, reset, validation, pause, end.
- `OffsetFetcher` finds unknown positions (committed offset, reset policy) and validates them when a leader changes.
- `Fetcher` sends one Fetch per broker, with a `FetchSession` per broker. Responses go to the `FetchBuffer`, which
  decodes them in chunks when the caller polls.
- `FetchLoop` calls these in order. A `PollTask` (the group membership with its commits) runs before records are
  returned.
- `read_checkpoint` has the positions that an output has reached, as a file keeps them. Pure.
- `StallDetector` decides when a range that does not advance is given up. Pure.
- `ReadRange`, `ResolvedRange` and `coverage` are pure: the requested range, its offsets, and the offsets that were
  read.

Threads: everything runs in the thread of the caller, except the heartbeats of a group member (see `group`). The
network is driven by `ConsumerNetworkClient.poll`; no module here waits in another way.

**Non-obvious**

- `position` is the next record for the caller, `fetch_position` the next record to request. A response is dropped if
  its offset is no longer the fetch position, so a seek needs no cancellation.
- The next Fetch leaves before the last response is decoded: batch headers, which are not compressed, contain the end
  offset. Decoding happens in `FetchBuffer.take`, after that request was sent.
- Commits use `consumed_position`: the position, except while the caller iterates record by record; then it is the
  first record that the iteration has not returned.
- A partition's error is data (`PartitionFailure`) until all its earlier records were returned. `Consumer.poll` raises
  it; `RangeReader` ends the partition and puts it into its coverage, and the other partitions continue.
- A range is complete when the fetch position reaches its end, not when its last record arrives: markers, compacted
  offsets and aborted records have no record.
- A position outside the log is checked with ListOffsets at the leader before it is an error: a follower or a new
  leader may not know the end offset yet (KIP-207, KIP-392).
- After a leader change the position may be above the new leader's high watermark. Kafka answers such a fetch at once
  and empty, so the fetcher pauses by itself (`EarlyAnswers`).
- A `next_ms` in the past makes the poll return to the network without a pause: each module returns a time only while
  its own `send` or `poll` will act on it.
- A held partition is not fetched, but its received records are returned; a paused one drops them.
- All responses of a bulk read share one memory bound; without it, each broker may send `fetch.max.bytes`.
- Imports of messages and of numpy are inside functions: commands that do not read records start without them, and a
  read loads numpy while its first Fetch is in flight.

Tests: `test_consumer` and `test_range_reader` test fetching, with offsets and verdicts.
"""

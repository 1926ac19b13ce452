"""Facts about the logs of partitions, read from their leaders; no consumer and no group is involved.

- `log_bounds`: start and end offsets, and `learn_topics`, which requests missing metadata first.
- `record_times`: the first record at an offset, by small fetches, and its timestamp.
- `first_records`: the same with the key of the record, for previews.
- `sizes`: bytes on disk. `open_transactions`: transactions that hold back last stable offsets.

**Non-obvious**

- Most functions return `Results`: one partition without a leader must not fail the others.
- `log_bounds` waits only a second for a leader: an election is shorter, and without an eligible replica longer waits
  do not help.
- A Fetch returns at least one batch even above the size limit, but only for the first partition of a response. That is
  why `records_at` starts with 8 KiB per partition and raises the limit only for partitions without a whole batch.
- The record at an offset may be missing (compaction, control batches), so the result is the next one, with its offset.
- Parsing (`FetchedTimes`, `first_record`) is pure and needs no numpy for uncompressed batches.
"""

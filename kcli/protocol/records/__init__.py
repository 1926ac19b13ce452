"""Records: record batches of all formats, decoded jointly into numpy columns, and encoded from columns.

`decode.decode_sections` turns the record data of a fetch response into `RecordColumns`, all batches together: it opens
the sections (`sections`: batches, checks, selection), decompresses (`decompression`), finds the boundaries of records
(`record_boundaries`), reads their fields (`record_fields`, `varints`), and reads messages of formats 0 and 1
(`legacy`). `control_records` decodes the markers of transactions instead, and `batch_columns.decode_headers` only batch
headers, as `batch_table` has them. `arrow_arrays` makes Arrow of columns, for `RecordColumns.to_arrow` and for Spark.
`builder.build_batch` encodes a batch of `NewRecords`, columns of bytes objects.
`scan` and `summary` read the records of one batch in order, for the broker and for small lookups. `batch` has the
layout of headers, one header by value (`BatchInfo`), and the walk from batch to batch.

Threads and ownership: functions share no state. `OpenedSections` owns the state of one decode call. Columns are views
over the buffer of the response (or over the decompressed buffer) and keep it in memory.

**Non-obvious**

- Malformed data never raises in `decode_sections`: it is `DecodedSection.error`, with the records before it.
- One call decodes a bounded number of records, batches and bytes; `DecodedSection.remaining` has the others. A batch
  with more records than that is divided into uncompressed batches first.
- The decompressed size of a batch has one limit, `max.decompressed.batch.bytes` of clients and brokers. A larger batch
  is too large (`RecordTooLarge`), not damaged: its header is right, and names the offset to go on from.
- Every negative length of a key, a value or a header's value is null, as for Java's readers.
- Sections of one response share a buffer, so their batches are decoded together without copying.
- A record length can be followed only from the record before. `record_boundaries` guesses starts and proves them.
- Reads outside the buffer are clipped, not checked: a record is consistent exactly if it ends where it should.
- `batch`, `scan`, `summary`, `builder`, `compression` and `checksum` import no numpy, so that producers and the broker
  start fast; codec libraries are imported on first use.
- Spark's executors may lack crc32c, cramjam and lz4: numpy and pyarrow replace them there.
- Records that repeat offsets of earlier batches are dropped, and aborted transactions are skipped by their markers, as
  Java's consumer does.

Tests: `test_vectors`, `test_hostile`, `test_properties` and `test_sections` test reading, `test_scan` the summaries,
`test_arrow_table` and Spark's `test_arrow` the Arrow arrays.
"""

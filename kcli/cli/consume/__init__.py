"""The `kcli consume` family: read records of topics and print them.

`topic` is the command: it takes its `options`, builds a renderer and filters, and starts one of three sessions:

- `range_session`: a read without a group. It resolves the ranges, makes the source of the records, prints, and reports
  the coverage. `checkpointer` has the file of `--checkpoint`.
- `member_session`: a read as a member of a group. `committer` commits exactly the printed records.
- `share_session`: a read as a member of a share group, which acknowledges the printed records.

All use `read_loop`: poll, filter, render, write to the `sink`, count `printed_records`; and `reports`: the coverage
that `kcli.consumer.coverage` has decided, all other tables and sentences on stderr, and the exit status. `filters` are
masks over columns, found by `text_search` in many texts at once. `printing` chooses a `renderer`: `render_text` (raw
values and formats) or `render_structured` (json, csv, tsv, table), which join `text_columns` to rows. With -s, --where,
--select or --columns, `decoding` makes `decoded_columns` of the columns, and `expressions` are those of jq.

**Non-obvious**

- `kcli consume --help` imports `topic` and `options` and nothing else of this family; all other imports are in
  functions. A renderer's module is imported only if it is used.
- Records are written before the next poll, so between polls the consumer's position is the printed offset. While a
  batch is being written, `Committer` holds its offsets back.
- A full disk may cut a batch. The complete rows are found by rendering parts of the batch again, and are committed.
  For a closed pipe they are not: no process reads the remaining bytes in it.
- The first signal ends the read after the current batch, and filters and decoding within it; the second raises
  KeyboardInterrupt at once. `timeout` and shells send a signal twice, so the second one is ignored for a second.
- Nothing but `FollowReports` distinguishes a topic without news from brokers that are down: a follower retries without
  limit. An idle end while nothing can be read is not a success.
- However a read ends, a JSON document is whole, except after the second signal and after a failed write.
- After `-n` the coverage ends at the first unprinted record, and errors after it do not count.
- Without -s and expressions nothing is done for a record: `decoding` is None, and the renderers print bytes.
- With them, a batch is decoded and written in parts. Before each part, the committer of a member holds its offset, so
  that an unreachable registry does not commit records that are not printed.
- Output without -s is copied by numpy from the decode buffer without an object per record; see `text_columns`.
"""

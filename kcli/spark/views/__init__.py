"""Views of the data source beside `records`: one module for each, with its columns and its reader.

`registry.VIEWS` has the views by name, and `registry.read_task` reads one task of any view, including `records`. A
`table.View` names its columns and its `read` function, which yields pyarrow RecordBatches with exactly these columns,
or those that the option `columns` selects, in that order.

Two kinds: ranged views (batches, gaps, commits) are read by offset ranges, one task per range, like records, and can be
streamed. The others (offsets, groups, members, lag) are snapshots of the cluster, read in a single task.

**Non-obvious**

- A view with an error for one group or partition has a row with `error`, so that one broken group does not hide the
  others. Errors of the whole read are raised.
- A batch is a row of `batches` in the range that has its last offset, so ranges that split a batch count it once.
- `commits` reads __consumer_offsets, which is compacted: its rows are not the complete history.
- The modules import pyarrow and the admin package inside functions: the driver needs only the columns.

Tests: `test_views` tests all views without a JVM, `tests/spark/test_jvm_views.py` with one.
"""

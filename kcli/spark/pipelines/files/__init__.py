"""Topics as files, and back: `kcli spark export`, `compact` and `load`.

`export.export_batch` and `export_stream` write the rows that `shape` makes of records: bytes, text or decoded values,
whose fields `value_fields` turns into columns. `dedup` leaves out repeated records, `file_size` plans the number of
files, and `export_target` checks a local folder before and cleans it after. `compact` replaces small files,
`compact_files` is the exchange on disk, `load` writes files to a topic.

**Non-obvious**

- Each step can be interrupted: a stream continues at its checkpoint, an unfinished batch leaves no folder, and
  `compact_files` keeps a journal, so that the next run finishes an exchange.
- A file sink of Spark lists its files in `_spark_metadata`, and its readers follow that list; readers of other folders
  skip names that begin with an underscore or a dot.
"""

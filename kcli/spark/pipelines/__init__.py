"""Pipelines of `kcli spark`: one module for each computation, from a Kafka source to a small result or to files.

A pipeline has a `run` function that takes a SparkSession and a `source.KafkaSource` (cluster, topics, range, filter)
and returns a NamedTuple of `result.Result`s: rows of plain values, ready for a table, JSON, CSV or Parquet. The modules
know nothing of the command line, except that their ConfigErrors name the option.

Exports and their way back are in `files`.

The two objects to know: `source.KafkaSource`, from which `source.load` makes a DataFrame of any view, and
`result.Result`.

Work in tasks: `lag_tasks` and `profile_tasks` have the Python functions that run in Spark's workers (mapInArrow). The
other pipelines are DataFrame expressions only.

**Non-obvious**

- Workers of a remote cluster may not have kcli, so `lag_tasks` and `profile_tasks` import nothing of it, and
  `deploy.ship.by_value` pickles them whole. Call the Spark action within `by_value`, not only the transformation.
- A DataFrame of the source has fixed offsets from its first action on. Pipelines that need several passes persist an
  aggregate, not the records.
- Partitions without records are in no DataFrame: `source.log_starts` asks for them, so that reports list them with
  zeros.
- A filter (`where`) is applied by Spark; the source only prunes with it, if the session allows pushdown.
- Long values are compared by SHA-256 and size (`columns.digest`), so that a shuffle does not move them.
- A record without a timestamp (-1) is one millisecond before 1970 in Spark, as in the connector.

Tests: pipelines that are alike share a file, and `tests/spark/test_jvm_pipelines_*` runs them in a JVM.
"""

"""The `kcli spark` commands, with their options, messages and pages: one module per command.

A command parses its options, and calls a pipeline of `kcli.spark.pipelines` through `findings.report_findings` (or
`session.run_pipeline`), which does for all commands: the dry run, checks before Spark starts, the session with its
progress line, the result in the chosen output, `--fail-if` and `--report`.

Shared: `options` (options of all commands; `Job` is their value), `dry_run` (output of a survey: the offset ranges of a
read), `session` (a Spark session that ends with the command), `progress` (the line on the terminal, or one a
minute in a pipe), `metrics_file` (the same for Prometheus), `results` (output
of rows), `page` and `charts` (HTML), `files` (atomic writes).

Threads: `progress.ProgressLine` draws in a thread of its own, because the main thread waits for Spark. Signals raise
KeyboardInterrupt in the main thread.

**Non-obvious**

- Brokers are asked before Spark starts, so that a misspelled topic does not cost ten seconds; not with --remote, where
  only the server may reach the brokers.
- The JVM's output goes to a temporary file (`jvm_output`); lines in it that start with `kcli: ` are reports of the
  source and are printed once. -v shows everything.
- PySpark installs its own signal handlers when a session starts, so the commands install theirs again.
- Numbers are rounded for output only; conditions of --fail-if see the exact values.
- pyspark, pyarrow, plotly and rich are imported in functions, so that --help and errors are fast.

Tests: options of all commands in `tests/cli/spark` and `tests/spark/pipelines`, their results in
`tests/spark/test_jvm_pipelines_*`.
"""

"""Everything between `kcli spark` and a running Spark: its JVM, its session, and kcli on its machines.

`session.open_session` returns a SparkSession with the format "kcli", and `close_session` ends it with its JVM, which
`jvm_process` has started and recorded. `java` and `doctor` check an environment before and after the start;
`class_archive` makes later starts cheaper. `ship` brings kcli to the machines where Spark runs Python. `spark_errors`
makes one line with a cure of Spark's exceptions.

In an existing session `kcli.spark.register` alone is enough.

**Non-obvious**

- The source brings kcli to other machines itself: it is pickled by value and carries a zip (*inline*), which reaches
  executors, the planner of streams, and a Spark Connect server; pyFiles do not reach all of these. Functions for
  mapInArrow belong to no source, and may run where it never was: they are pickled *by value*, and import no kcli.
- What is pickled by value (`ship.carrying`, `lag_tasks`, `profile_tasks`) must not import kcli before it is unpacked:
  `carrying` defines functions within a function, which cloudpickle takes whole.
- PySpark has one gateway in a process, so there is one JVM.
"""

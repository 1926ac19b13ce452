"""The format "kcli" for Spark without a call of `register`: Spark finds this module by itself.

At the first use of a Python data source, Spark imports each top-level module whose name begins with `pyspark_` and
takes its `DefaultSource` (SPARK-45917). So this module cannot be a part of the package `kcli`.

**Non-obvious**

- Spark looks on the path of its Python workers on the driver's machine, not in `--py-files`: use `PYTHONPATH`, or
  `kcli.spark.register`.
- Without `kcli.spark.register` there is no listener that commits for the option `commitGroup`, and Spark redacts only
  the options whose names it knows: refer to passwords by `env:`, `file:` or `kafka.config.file`.
"""

from __future__ import annotations

from typing import Any

from kcli.errors import ConfigError
from kcli.spark.source import KcliDataSource


class DefaultSource(KcliDataSource):
    """`KcliDataSource` for sessions without a call of `register`."""

    def streamReader(self, schema: Any) -> Any:
        """Return the reader for `spark.readStream`. ConfigError for `commitGroup`, which would have no effect."""
        reader = super().streamReader(schema)
        if reader.options.commit_group is not None:
            raise ConfigError("commitGroup requires a call of kcli.spark.register(spark) before the query")
        return reader

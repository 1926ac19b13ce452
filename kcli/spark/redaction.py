"""Passwords among the options of a query: Spark hides them in plans, in its UI and in event logs.

Spark's own Kafka connector ships its options with the query, and so does this source. `explain` of a stream shows them;
Spark redacts those whose names match a setting of the session, which by default knows "password", "secret" and "token",
but not JAAS texts and private keys.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kcli.spark.option_table import KAFKA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.sql.redaction.options.regex"


def hide_passwords(spark: SparkSession) -> None:
    """Add the names of all passwords to the names that the session redacts. Repeated calls have no effect."""
    pattern = spark.conf.get(SETTING, "") or ""
    if (ours := redacted_names()) not in pattern:
        spark.conf.set(SETTING, f"{pattern}|{ours}" if pattern else ours)


def redacted_names() -> str:
    """Return a regular expression of Java that finds the options that are passwords, regardless of case."""
    from kcli.client.config import ClientConfig
    from kcli.client.librdkafka import KAFKA_NAMES
    from kcli.schemas.registry_client import RegistrySettings

    names = {
        name for name in (*ClientConfig.SETTINGS, *KAFKA_NAMES) if ClientConfig.is_secret(KAFKA_NAMES.get(name, name))
    }
    of_registry = {name for name in RegistrySettings.SETTINGS if RegistrySettings.is_secret(name)}
    client = "|".join(re.escape(name) for name in sorted(names))
    return f"(?i:{re.escape(KAFKA)}(?:{client})|{'|'.join(re.escape(name) for name in sorted(of_registry))})"

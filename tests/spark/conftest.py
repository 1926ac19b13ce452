"""The one SparkSession of a test run. Files named test_jvm_* use it, and one xdist worker runs them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.errors import ConfigError
from kcli.spark.session import close_session, open_session
from tests.needs import skip_or_fail
from tests.real_kafka import Kafka
from tests.spark.clusters import QUICK_JVM
from tests.spark.connector import ConnectorUnavailable, connector_jars
from tests.spark.known_topic import KnownTopic, make_known_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """local[2] with format "kcli" registered, and the JVM's own connector on the class path if it can be had."""
    folder = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "scratch"),
        **_class_path(),
    }
    with (folder / "spark.log").open("w+b") as noise:
        try:
            session = open_session(master="local[2]", conf=conf, app_name="kcli-tests", noise=noise)
        except ConfigError as missing:
            skip_or_fail(str(missing))
        yield session
        close_session(session)


@pytest.fixture(scope="session")
def connector() -> list[Path]:
    """The jars of the JVM's own connector; a machine that cannot have them skips the test."""
    try:
        return connector_jars()
    except ConnectorUnavailable as missing:
        skip_or_fail(str(missing))


def _class_path() -> dict[str, str]:
    try:
        jars: list[Path] = connector_jars()
    except ConnectorUnavailable:
        return {}
    return {"spark.driver.extraClassPath": ":".join(map(str, jars))}


@pytest.fixture(scope="session")
def known_topic(real_kafka: Kafka) -> KnownTopic:
    """A topic of which everything is known: see `tests.spark.known_topic`. Nobody writes to it."""
    return make_known_topic(real_kafka)

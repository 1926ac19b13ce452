"""The shared SparkSession of a test run. Files named test_jvm_* use it, in a single xdist worker."""

from __future__ import annotations

import os
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
    """A local[2] session with format "kcli" registered, and the JVM connector on the class path if available."""
    folder = tmp_path_factory.mktemp("spark")
    (folder / "events").mkdir()
    conf = {
        "spark.driver.memory": "1g",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.eventLog.enabled": "true",
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "scratch"),
        **_class_path(),
    }
    with (folder / "spark.log").open("w+b") as noise:
        try:
            session = open_session(master="local[2]", conf=conf, app_name="kcli-tests", jvm_output=noise)
        except ConfigError as missing:
            skip_or_fail(str(missing))
        yield session
        close_session(session)


@pytest.fixture(scope="session")
def java() -> None:
    """Skip tests that start a JVM of their own where there is no Java."""
    from kcli.spark.java import check_java

    try:
        check_java(os.environ)
    except ConfigError as missing:
        skip_or_fail(str(missing))


@pytest.fixture(scope="session")
def connector() -> list[Path]:
    """The jars of the JVM connector; tests are skipped if they cannot be downloaded."""
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
    """A topic with known content, see `tests.spark.known_topic`. Tests only read it."""
    return make_known_topic(real_kafka)

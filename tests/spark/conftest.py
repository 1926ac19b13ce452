"""The shared SparkSession of a test run. Files named test_jvm_* use it, in a single xdist worker."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.errors import ConfigError
from kcli.spark.deploy import session as spark_session
from kcli.spark.deploy.jvm_process import kill_jvm, running_jvm
from kcli.spark.deploy.session import close_session, open_session
from tests.cli.fake import Result, run_kcli
from tests.needs import skip_or_fail
from tests.real_kafka import Kafka
from tests.spark.clusters import QUICK_JVM
from tests.spark.connector import ConnectorUnavailable, connector_jars
from tests.spark.known_topic import KnownTopic, make_known_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LIMIT_S = 600
"""Limit of a test that uses the shared session: PySpark's calls have none."""
LOG = "spark.log"
_SHOWN = re.compile(r'"(Thread-|main"|stream execution|Executor task launch|Connection reader|serve)')


@contextmanager
def jvm_killed_after(limit_s: float, log: Path, awaited: str) -> Iterator[None]:
    """Kill the JVM after this time, so that a call that waits for it ends, and fail with the stacks of its threads."""
    stacks: list[str] = []

    def kill() -> None:
        jvm = running_jvm()
        if jvm is None:
            return
        before = log.stat().st_size
        jvm.send_signal(signal.SIGQUIT)  # it prints the stacks of its threads
        time.sleep(3)
        kill_jvm()
        text = log.read_bytes()
        stacks.append(text[max(0, before - 5_000) : before].decode(errors="replace"))
        stacks.extend(it for it in text[before:].decode(errors="replace").split("\n\n") if _SHOWN.match(it))

    timer = threading.Timer(limit_s, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # at once, or when the JVM is killed
        if stacks:
            text = "\n\n".join(stacks)[:40_000]
            pytest.fail(f"{awaited} did not end within {limit_s} s; the JVM was killed. Its log and threads:\n{text}")


@pytest.fixture(autouse=True)
def limit_of_spark(request: pytest.FixtureRequest) -> Iterator[None]:
    """Limit the time of each test that uses the shared session."""
    if "spark" not in request.fixturenames:
        yield
        return
    log = request.getfixturevalue("spark_folder") / LOG
    request.getfixturevalue("spark")
    jvm = running_jvm()
    assert jvm is None or jvm.poll() is None, "the JVM of the shared session ended in an earlier test"
    with jvm_killed_after(LIMIT_S, log, request.node.name):
        yield


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the shared session."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_folder: Path) -> Iterator[SparkSession]:
    """A local[2] session with format "kcli" registered, and the JVM connector on the class path if available."""
    folder = spark_folder
    (folder / "events").mkdir()
    conf = {
        "spark.driver.memory": "1g",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.eventLog.enabled": "true",
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.python.worker.tracebackDumpIntervalSeconds": "240",  # of tasks that take longer, into Spark's log
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "scratch"),
        **_class_path(),
    }
    with (folder / LOG).open("w+b") as noise:
        try:
            with jvm_killed_after(LIMIT_S, folder / LOG, "the start of Spark"):
                session = open_session(master="local[2]", conf=conf, app_name="kcli-tests", jvm_output=noise)
        except ConfigError as missing:
            skip_or_fail(str(missing))
        yield session
        close_session(session)


@pytest.fixture
def kcli(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`kcli spark ...` without a start of Spark."""
    monkeypatch.setattr(spark_session, "open_session", lambda **_: spark)
    monkeypatch.setattr(spark_session, "close_session", lambda _, **more: None)
    return run_kcli


@pytest.fixture
def here(spark: SparkSession, known_topic: KnownTopic, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`kcli spark NAME` over the known topic, in the session of the tests."""

    @contextmanager
    def ours(*_: object, preflight: Callable[[], object], **__: object) -> Iterator[SparkSession]:
        preflight()
        yield spark

    monkeypatch.setattr("kcli.cli.spark.session.spark_session", ours)
    address = known_topic.kafka.bootstrap_servers
    return lambda name, *words: run_kcli("spark", name, known_topic.name, "-b", address, *words)


@pytest.fixture(scope="session")
def java() -> None:
    """Skip tests that start a JVM of their own where there is no Java."""
    from kcli.spark.deploy.java import check_java

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

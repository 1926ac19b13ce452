"""Is everything there that Spark needs to read Kafka through kcli? Each check is a row; none of them raises."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.errors import ConfigError, DisconnectedError, KcliError, TimeoutExpired

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OK, WRONG, SKIPPED = "ok", "wrong", "skipped"
UNREACHED = "see that Spark's machines reach the brokers, under the names that these give themselves too"
_EXECUTOR = "python string, executable string, pyarrow string, numpy string"


class Finding(NamedTuple):
    """`status` is ok, wrong, or skipped (something before it is wrong); `cure` is for what is wrong."""

    check: str
    status: str
    detail: str
    cure: str | None = None


def look_here(remote: str | None, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What can be told without starting anything: Java, packages, the interpreter of the workers."""
    from kcli.spark.java import check_java
    from kcli.spark.session import INSTALL, check_pyspark

    if remote is None:
        yield _tried("java", lambda: "{0.version} ({0.path})".format(check_java(environ)))
    yield _tried("pyspark", check_pyspark)
    yield _tried("pyarrow", lambda: _version("pyarrow"), INSTALL)
    if remote is not None:
        yield _tried("pandas", lambda: _version("pandas"), "pip install 'pyspark[connect]'")
        yield _tried("grpc", lambda: _version("grpc"), "pip install 'pyspark[connect]'")
    else:
        yield _interpreter(environ)


def look_there(open_session: Callable[[], SparkSession], kafka: Mapping[str, str], way: str) -> Iterator[Finding]:
    """What only a running Spark can tell: that it starts, what its executors have, whether they reach the brokers."""
    started_s = time.monotonic()
    try:
        spark = open_session()
    except Exception as error:
        yield _wrong("session", error)
        for check in ("executor", "shipping", "brokers"):
            yield Finding(check, SKIPPED, "there is no session")
        return
    yield Finding("session", OK, f"Spark {spark.version}, ready in {time.monotonic() - started_s:.1f} s")
    yield _tried("executor", lambda: _executor(spark))
    brokers = _tried("brokers", lambda: _reach(spark, kafka))
    kcli_missing = brokers.status == WRONG and "kcli" in brokers.detail and "odule" in brokers.detail
    yield Finding("shipping", WRONG if kcli_missing else OK, way, brokers.cure if kcli_missing else None)
    yield brokers


def _interpreter(environ: Mapping[str, str]) -> Finding:
    """Local workers run PYSPARK_PYTHON, and have to have the same minor version as the driver."""
    import shutil

    chosen = environ.get("PYSPARK_PYTHON") or sys.executable
    if shutil.which(chosen, path=environ.get("PATH")) is None:
        return Finding("interpreter", WRONG, f"there is no {chosen}", "unset PYSPARK_PYTHON, or let it name a Python")
    where = "PYSPARK_PYTHON" if environ.get("PYSPARK_PYTHON") else "this one"
    return Finding("interpreter", OK, f"{chosen} ({where}, Python {'.'.join(map(str, sys.version_info[:3]))})")


def _executor(spark: SparkSession) -> str:
    def look(batches: Any) -> Any:
        import platform
        import sys

        import numpy
        import pyarrow

        for _ in batches:
            pass
        facts = [platform.python_version(), sys.executable, pyarrow.__version__, numpy.__version__]
        yield pyarrow.RecordBatch.from_arrays(
            [pyarrow.array([fact]) for fact in facts], ["python", "executable", "pyarrow", "numpy"]
        )

    row = spark.range(1).repartition(1).mapInArrow(look, _EXECUTOR).first()
    if row is None:
        raise KcliError("the executor answered nothing")
    return f"Python {row.python} ({row.executable}), pyarrow {row.pyarrow}, numpy {row.numpy}"


def _reach(spark: SparkSession, kafka: Mapping[str, str]) -> str:
    from kcli.spark.pipelines.source import KafkaSource, load

    found = load(spark, KafkaSource(kafka, {}), "offsets", ["topic"]).count()
    servers = kafka.get("bootstrap.servers", "")
    return f"{servers} answered an executor: {found:,} partitions"


def _version(module: str) -> str:
    from importlib import import_module

    return str(import_module(module).__version__)


def _tried(check: str, look: Callable[[], str], cure: str | None = None) -> Finding:
    try:
        return Finding(check, OK, look())
    except Exception as error:
        return _wrong(check, error, cure)


def _wrong(check: str, error: Exception, cure: str | None = None) -> Finding:
    """With the cure that the error's own sentence ends with, if it does; other sentences end with the reason."""
    if isinstance(error, ImportError):
        return Finding(check, WRONG, str(error), cure)
    from kcli.spark.spark_errors import explain

    ours = explain(error)
    if cure is None and isinstance(ours, (TimeoutExpired, DisconnectedError)):
        cure = UNREACHED
    if cure is not None:
        return Finding(check, WRONG, str(ours), cure)
    return Finding(check, WRONG, *_sentence_and_cure(ours))


def _sentence_and_cure(error: KcliError) -> tuple[str, str | None]:
    """Settings that are wrong are told as "what: cure", failures of Spark as "what: why; cure"."""
    from kcli.spark.session import SparkFailed

    signs = (": ", "; ") if isinstance(error, ConfigError) else ("; ",) if isinstance(error, SparkFailed) else ()
    text = str(error)
    sign = max(signs, key=text.rfind, default="")
    if not sign or sign not in text:
        return text, None
    sentence, _, cure = text.rpartition(sign)
    return sentence, cure


def look_all(
    open_session: Callable[[], SparkSession], kafka: Mapping[str, str], remote: str | None, way: str
) -> list[Finding]:
    """All checks in order; Spark is not started where what it needs is lacking."""
    findings = list(look_here(remote, os.environ))
    if any(found.status == WRONG for found in findings):
        checks = ("session", "executor", "shipping", "brokers")
        return [*findings, *(Finding(check, SKIPPED, "first the above") for check in checks)]
    return [*findings, *look_there(open_session, kafka, way)]

"""Checks of the environment that Spark needs to read Kafka through kcli. Each check is a row; none raises."""

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
UNREACHED = "check that Spark's machines reach the brokers, also at their advertised addresses"
MORE_OUTPUT = "run the command again with -v, which shows the output of Spark"
SAME_HERE = "try `kcli topic list` with the same options for the brokers"
_EXECUTOR = "python string, executable string, pyarrow string, numpy string"


class Finding(NamedTuple):
    """Result of a check. `status` is ok, wrong, or skipped (an earlier check failed); each wrong one has a `cure`."""

    check: str
    status: str
    detail: str
    cure: str | None = None


def local_checks(remote: str | None, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Run the checks that start nothing: Java, packages, the Python of the workers."""
    from kcli.spark.deploy.java import check_java
    from kcli.spark.deploy.session import INSTALL, check_pyspark

    if remote is None:
        yield _checked("java", lambda: "{0.version} ({0.path})".format(check_java(environ)))
    yield _checked("pyspark", check_pyspark)
    yield _checked("pyarrow", lambda: _version("pyarrow"), INSTALL)
    yield _checked("pandas", _check_pandas, INSTALL)
    if remote is not None:
        yield _checked("grpc", lambda: _version("grpc"), "pip install 'pyspark[connect]'")
    else:
        yield _interpreter(environ)


def session_checks(open_session: Callable[[], SparkSession], kafka: Mapping[str, str], ship: str) -> Iterator[Finding]:
    """Run the checks that need Spark: that it starts, the packages of its executors, their access to the brokers."""
    started_s = time.monotonic()
    try:
        spark = open_session()
    except Exception as error:
        yield _failed("session", error)
        for check in ("executor", "shipping", "brokers"):
            yield Finding(check, SKIPPED, "no session")
        return
    yield Finding("session", OK, f"Spark {spark.version}, ready in {time.monotonic() - started_s:.1f} s")
    yield _checked("executor", lambda: _check_executor(spark))
    brokers = _checked("brokers", lambda: _check_brokers(spark, kafka))
    kcli_missing = brokers.status == WRONG and "kcli" in brokers.detail and "odule" in brokers.detail
    yield Finding("shipping", WRONG if kcli_missing else OK, ship, brokers.cure if kcli_missing else None)
    yield brokers


def _interpreter(environ: Mapping[str, str]) -> Finding:
    """Check PYSPARK_PYTHON: local workers run it, and it must have the driver's minor version."""
    import shutil

    chosen = environ.get("PYSPARK_PYTHON") or sys.executable
    if shutil.which(chosen, path=environ.get("PATH")) is None:
        return Finding("interpreter", WRONG, f"{chosen} does not exist", "unset PYSPARK_PYTHON, or set it to a Python")
    origin = "PYSPARK_PYTHON" if environ.get("PYSPARK_PYTHON") else "the one of kcli"
    return Finding("interpreter", OK, f"{chosen} ({origin}, Python {'.'.join(map(str, sys.version_info[:3]))})")


def _check_executor(spark: SparkSession) -> str:
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
        raise KcliError("the executor returned no row")
    return f"Python {row.python} ({row.executable}), pyarrow {row.pyarrow}, numpy {row.numpy}"


def _check_brokers(spark: SparkSession, kafka: Mapping[str, str]) -> str:
    from kcli.spark.pipelines.source import KafkaSource, load

    count = load(spark, KafkaSource(kafka, {}), "offsets", ["topic"]).count()
    servers = kafka.get("bootstrap.servers", "")
    return f"an executor reached {servers}: {count:,} partitions"


def _check_pandas() -> str:
    """Return the version of pandas. ImportError if PySpark cannot use it."""
    from pyspark.sql.pandas.utils import require_minimum_pandas_version

    require_minimum_pandas_version()
    return _version("pandas")


def _version(module: str) -> str:
    from importlib import import_module

    return str(import_module(module).__version__)


def _checked(check: str, check_environment: Callable[[], str], cure: str | None = None) -> Finding:
    try:
        return Finding(check, OK, check_environment())
    except Exception as error:
        return _failed(check, error, cure)


def _failed(check: str, error: Exception, cure: str | None = None) -> Finding:
    """Return a finding for an error, with the cure at the end of the error's sentence if it has one."""
    if isinstance(error, ImportError):
        from kcli.spark.deploy.session import INSTALL

        return Finding(check, WRONG, str(error), cure or INSTALL)
    from kcli.spark.deploy.spark_errors import translate_error

    translated = translate_error(error)
    if cure is None and check == "brokers" and isinstance(translated, (TimeoutExpired, DisconnectedError)):
        cure = UNREACHED
    if cure is not None:
        return Finding(check, WRONG, str(translated), cure)
    sentence, cure = _sentence_and_cure(translated)
    return Finding(check, WRONG, sentence, cure or (SAME_HERE if check == "brokers" else MORE_OUTPUT))


def _sentence_and_cure(error: KcliError) -> tuple[str, str | None]:
    """Split "problem: cure" (ConfigError) or "problem: reason; cure" into problem and cure."""
    from kcli.spark.deploy.spark_errors import SparkFailed

    has_cure = isinstance(error, (SparkFailed, TimeoutExpired, DisconnectedError))
    signs = (": ", "; ") if isinstance(error, ConfigError) else ("; ",) if has_cure else ()
    text = str(error)
    sign = max(signs, key=text.rfind, default="")
    if not sign or sign not in text:
        return text, None
    sentence, _, cure = text.rpartition(sign)
    return sentence, cure


def all_checks(
    open_session: Callable[[], SparkSession], kafka: Mapping[str, str], remote: str | None, ship: str
) -> list[Finding]:
    """Run all checks in order. Spark is not started if something that it needs is missing."""
    findings = list(local_checks(remote, os.environ))
    if any(finding.status == WRONG for finding in findings):
        checks = ("session", "executor", "shipping", "brokers")
        return [*findings, *(Finding(check, SKIPPED, "an earlier check failed") for check in checks)]
    return [*findings, *session_checks(open_session, kafka, ship)]

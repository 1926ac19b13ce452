"""Checks of `kcli spark doctor` in incomplete environments. No JVM: sessions are fakes that fail like Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kcli.errors import ConfigError
from kcli.spark.deploy import doctor
from kcli.spark.deploy.doctor import (
    MORE_OUTPUT,
    OK,
    SAME_HERE,
    SKIPPED,
    UNREACHED,
    WRONG,
    Finding,
    all_checks,
    local_checks,
    session_checks,
)
from kcli.spark.deploy.spark_errors import SparkFailed
from tests.cli.fake import run_kcli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KAFKA = {"bootstrap.servers": "kafka:9092"}
VERSIONS = SimpleNamespace(python="3.11.9", executable="/usr/bin/python3", pyarrow="26.0.1", numpy="2.4.6")
TRACE = "An exception was thrown from the Python worker.\nTraceback (most recent call last):\n  File ...\n"
LATER = ("session", "executor", "shipping", "brokers")


def java_of(folder: Path) -> dict[str, str]:
    """Return an environment with a Java that passes the version check without being started."""
    (folder / "release").write_text('JAVA_VERSION="21.0.1"\n')
    (folder / "bin").mkdir()
    (folder / "bin" / "java").touch()
    return {"JAVA_HOME": str(folder), "PATH": "/usr/bin:/bin"}


def by_check(findings: list[Finding]) -> dict[str, Finding]:
    assert len({found.check for found in findings}) == len(findings)
    return {found.check: found for found in findings}


def no_session() -> SparkSession:
    raise AssertionError("Spark was started")


class FakeSession:
    """Fake session: answers with a row of its executor and a number of partitions, or raises."""

    version = "4.3.0"

    def __init__(self, executor: Any = VERSIONS, partitions: int | Exception = 3) -> None:
        self.executor, self.partitions = executor, partitions
        self.read = self
        self.options_seen: dict[str, str] = {}

    def _same(self, *_: Any, **options: str) -> Any:
        self.options_seen |= options
        return self

    range = repartition = mapInArrow = format = options = option = load = select = _same

    def first(self) -> Any:
        return _answer(self.executor)

    def count(self) -> Any:
        return _answer(self.partitions)


def _answer(what: Any) -> Any:
    if isinstance(what, Exception):
        raise what
    return what


def look_at(session: Any, way: str = "installed") -> dict[str, Finding]:
    return by_check(list(session_checks(lambda: session, KAFKA, way)))


# --- here


def test_passed_checks_show_versions(tmp_path: Path) -> None:
    found = by_check(list(local_checks(None, java_of(tmp_path))))
    assert list(found) == ["java", "pyspark", "pyarrow", "pandas", "interpreter"]
    assert {it.status for it in found.values()} == {OK}
    assert found["java"].detail == f"21.0.1 ({tmp_path}/bin/java)"
    assert found["interpreter"].detail.startswith(f"{sys.executable} (the one of kcli, Python {sys.version_info[0]}.")


def test_without_java_the_cure_is_to_install_one(tmp_path: Path) -> None:
    found = by_check(list(local_checks(None, {"PATH": str(tmp_path)})))
    assert found["java"] == Finding(
        "java",
        WRONG,
        "Spark needs Java, but there is no `java` on the PATH",
        "install a JRE 17 or newer, or set JAVA_HOME to one",
    )
    assert {found[name].status for name in ("pyspark", "pyarrow", "pandas", "interpreter")} == {OK}


def test_a_missing_interpreter_is_named(tmp_path: Path) -> None:
    found = by_check(list(local_checks(None, {**java_of(tmp_path), "PYSPARK_PYTHON": "/opt/gone/python3"})))
    assert found["interpreter"] == Finding(
        "interpreter", WRONG, "/opt/gone/python3 does not exist", "unset PYSPARK_PYTHON, or set it to a Python"
    )
    assert found["java"].status == OK


@pytest.mark.parametrize(
    ("package", "check", "cure"),
    [
        ("pyarrow", "pyspark", "pip install 'kcli-kafka[spark]'"),
        ("pyarrow", "pyarrow", "pip install 'kcli-kafka[spark]'"),
        ("grpc", "grpc", "pip install 'pyspark[connect]'"),
        ("pandas", "pyspark", "pip install 'kcli-kafka[spark]'"),
        ("pandas", "pandas", "pip install 'kcli-kafka[spark]'"),
    ],
)
def test_a_missing_package_is_named_with_the_cure(
    monkeypatch: pytest.MonkeyPatch, package: str, check: str, cure: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    found = by_check(list(local_checks("sc://host", {})))
    assert "java" not in found
    assert "interpreter" not in found
    assert (found[check].status, found[check].cure) == (WRONG, cure)
    assert package in found[check].detail.lower()


@pytest.mark.parametrize("lacking", ["java", "interpreter"])
def test_spark_is_not_started_if_a_local_check_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacking: str
) -> None:
    environ = java_of(tmp_path) | ({"PYSPARK_PYTHON": "/gone"} if lacking == "interpreter" else {"JAVA_HOME": "/gone"})
    monkeypatch.setattr(doctor.os, "environ", environ)
    findings = all_checks(no_session, KAFKA, None, "installed")
    assert [found.check for found in findings if found.status == WRONG] == [lacking]
    assert findings[-4:] == [Finding(check, SKIPPED, "an earlier check failed") for check in LATER]


def test_spark_is_checked_if_all_local_checks_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor.os, "environ", java_of(tmp_path))
    session: Any = FakeSession()
    found = by_check(all_checks(lambda: session, KAFKA, None, "inline"))
    assert list(found) == ["java", "pyspark", "pyarrow", "pandas", "interpreter", *LATER]
    assert {it.status for it in found.values()} == {OK}


# --- there


def test_packages_and_brokers_of_an_executor_are_shown() -> None:
    session = FakeSession()
    found = look_at(session, "inline")
    assert found["session"].detail.startswith("Spark 4.3.0, ready in ")
    assert found["executor"].detail == "Python 3.11.9 (/usr/bin/python3), pyarrow 26.0.1, numpy 2.4.6"
    assert found["shipping"] == Finding("shipping", OK, "inline")
    assert found["brokers"] == Finding("brokers", OK, "an executor reached kafka:9092: 3 partitions")
    assert session.options_seen["kafka.bootstrap.servers"] == "kafka:9092"


@pytest.mark.parametrize(
    ("error", "detail", "cure"),
    [
        (SparkFailed("Spark did not start: too small"), "Spark did not start: too small", MORE_OUTPUT),
        (
            SparkFailed("no Spark Connect server answered at sc://h:1: refused"),
            "no Spark Connect server answered at sc://h:1: refused",
            MORE_OUTPUT,
        ),
        (ConfigError("--remote needs more of pyspark (x): pip install y"), "--remote needs more of pyspark (x)",
         "pip install y"),
        (RuntimeError("java.lang.OutOfMemoryError: Java heap space"), "java.lang.OutOfMemoryError: Java heap space",
         "increase the memory, for example --conf spark.driver.memory=4g"),
    ],
)  # fmt: skip
def test_a_failed_start_of_spark_skips_the_later_checks(error: Exception, detail: str, cure: str | None) -> None:
    def broken() -> SparkSession:
        raise error

    findings = list(session_checks(broken, KAFKA, "installed"))
    assert findings[0] == Finding("session", WRONG, detail, cure)
    assert findings[1:] == [Finding(check, SKIPPED, "no session") for check in LATER[1:]]


def test_a_missing_pyarrow_on_the_executor_is_reported_with_the_cure() -> None:
    lacking = RuntimeError(TRACE + "ModuleNotFoundError: No module named 'pyarrow'\n")
    found = look_at(FakeSession(executor=lacking, partitions=lacking))
    assert found["executor"].status == found["brokers"].status == WRONG
    assert "No module named 'pyarrow'" in found["executor"].detail
    assert found["executor"].cure == "install it, or ship an environment"
    assert found["shipping"].status == OK


def test_a_package_that_the_driver_lacks_is_reported_with_the_cure() -> None:
    """PySpark checks for pandas on the driver before it sends a function over Arrow batches."""
    lacking = ImportError("[PACKAGE_NOT_INSTALLED] Pandas >= 2.2.0 must be installed; however, it was not found.")
    assert look_at(FakeSession(executor=lacking))["executor"] == Finding(
        "executor", WRONG, str(lacking), "pip install 'kcli-kafka[spark]'"
    )


def test_an_executor_without_a_row_is_wrong() -> None:
    assert look_at(FakeSession(executor=None))["executor"] == Finding(
        "executor", WRONG, "the executor returned no row", MORE_OUTPUT
    )


def test_missing_kcli_on_the_executor_fails_the_shipping_check() -> None:
    lacking = RuntimeError(TRACE + "ModuleNotFoundError: No module named 'kcli'\n")
    found = look_at(FakeSession(partitions=lacking))
    cure = "use --ship auto or inline"
    assert found["shipping"] == Finding("shipping", WRONG, "installed", cure)
    assert (found["brokers"].status, found["executor"].status) == (WRONG, OK)


@pytest.mark.parametrize(
    ("raised", "detail", "cure"),
    [
        ("TimeoutExpired: nobody answered: kcli-1:9092: refused", "nobody answered: kcli-1:9092: refused", UNREACHED),
        ("DisconnectedError: kcli-1:9092: cut off; again", "kcli-1:9092: cut off; again", UNREACHED),
        ("BrokerError: TOPIC_AUTHORIZATION_FAILED: not you", "TOPIC_AUTHORIZATION_FAILED: not you", SAME_HERE),
    ],
)
def test_unreachable_brokers_are_reported_with_the_reason(raised: str, detail: str, cure: str | None) -> None:
    found = look_at(FakeSession(partitions=RuntimeError(f"{TRACE}kcli.errors.{raised}\n")))
    assert found["brokers"] == Finding("brokers", WRONG, detail, cure)
    assert found["shipping"].status == OK


# --- the command


def items(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["items"]
    return found


def test_a_failed_check_is_a_row_with_a_cure_and_exit_status_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("kcli.spark.deploy.session.open_session", lambda **_: pytest.fail("Spark was started"))
    done = run_kcli("spark", "doctor", "-b", "127.0.0.1:1")
    assert (done.status, done.err) == (1, "")
    (line,) = (line for line in done.text.splitlines() if line.startswith("java"))
    assert "cannot be run" in line
    assert "install a JRE 17 or newer" in line
    rows = items(run_kcli("spark", "doctor", "-b", "127.0.0.1:1", "--output", "json").text)
    assert [(row["check"], row["status"]) for row in rows[-4:]] == [(check, SKIPPED) for check in LATER]


def answering(session: Any) -> Callable[..., Any]:
    def opened(*, master: str, remote: str | None, conf: Mapping[str, str], ship: str, **_: Any) -> Any:
        assert (master, remote, conf, ship) == ("spark://host:7077", None, {}, "auto")
        return session

    return opened


@pytest.mark.parametrize(("partitions", "status"), [(3, 0), (RuntimeError("No module named 'kcli'"), 1)])
def test_the_exit_status_depends_on_failed_checks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, partitions: int | Exception, status: int
) -> None:
    closed: list[Any] = []
    session = FakeSession(partitions=partitions)
    for name, value in java_of(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr("kcli.spark.deploy.session.open_session", answering(session))
    monkeypatch.setattr("kcli.spark.deploy.session.close_session", lambda spark, **_: closed.append(spark))
    monkeypatch.setattr("kcli.cli.spark.progress.ProgressLine.follow", lambda *_: None)
    done = run_kcli("spark", "doctor", "--master", "spark://host:7077", "-b", "kafka:9092", "--output", "json")
    assert done.status == status, done.err
    assert closed == [session]
    found = {row["check"]: row for row in items(done.text)}
    assert (found["shipping"]["status"], found["shipping"]["detail"]) == ((OK, WRONG)[status], "inline")


def test_a_usage_error_is_one_line_and_does_not_start_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.spark.deploy.session.open_session", lambda **_: pytest.fail("Spark was started"))
    done = run_kcli("spark", "doctor", "--ship", "boat", "-b", "127.0.0.1:1")
    assert (done.status, done.text, done.err.count("\n")) == (2, "", 1)
    assert "--ship: 'boat' is not valid; use auto" in done.err


@pytest.mark.parametrize(
    ("given", "home", "message"),
    [
        (("--remote", "sc://host"), None, "--class-archive cannot be combined with --remote"),
        ((), "/opt/spark", "--class-archive needs PySpark as pip installs it: unset SPARK_HOME"),
    ],
)
def test_a_class_archive_that_no_session_could_use_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: tuple[str, ...], home: str | None, message: str
) -> None:
    for name, value in {**java_of(tmp_path), **({"SPARK_HOME": home} if home else {})}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("kcli.spark.deploy.session.open_session", lambda **_: pytest.fail("Spark was started"))
    done = run_kcli("spark", "doctor", "--class-archive", *given, "-b", "127.0.0.1:1")
    assert (done.status, done.text, done.err.count("\n")) == (2, "", 1)
    assert message in done.err

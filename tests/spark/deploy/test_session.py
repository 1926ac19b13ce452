"""Addresses of Spark are checked before it starts, and a failed start is reported with its reason. No JVM."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.errors import ConfigError, DisconnectedError, TimeoutExpired
from kcli.spark.deploy.jvm_process import jvm_failure, recorded_jvm
from kcli.spark.deploy.session import (
    _limit_retries,
    check_reachable,
    limit_shuffle,
    open_session,
    spark_addresses,
)
from kcli.spark.deploy.spark_errors import SparkFailed, startup_reason
from tests.cli.fake import run_kcli
from tests.real_kafka import free_ports


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Host and port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    """Host and port where nothing listens."""
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.mark.parametrize(
    ("master", "remote", "addresses"),
    [
        ("local[*]", None, []),
        ("local-cluster[2,1,512]", None, []),
        ("yarn", None, []),
        ("spark://one:7077,two:7078", None, [("one", 7077), ("two", 7078)]),
        ("k8s://https://api.example:6443", None, [("api.example", 6443)]),
        ("k8s://api.example", None, [("api.example", 443)]),
        ("local[*]", "sc://host", [("host", 15002)]),
        ("local[*]", "sc://[::1]:15003/;use_ssl=true;token=secret", [("::1", 15003)]),
    ],
)
def test_addresses_of_spark(master: str, remote: str | None, addresses: list[tuple[str, int]]) -> None:
    assert spark_addresses(master, remote) == addresses


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--master", "nonsense"),
            "--master: 'nonsense' is not valid; use local[*], spark://HOST:PORT, yarn or k8s://",
        ),
        (("--master", "spark://host"), "--master: 'spark://host' is not valid; 'host' is not HOST:PORT"),
        (("--remote", "host:15002"), "--remote: 'host:15002' is not valid; use sc://HOST:PORT"),
        (("--remote", "sc://host:port"), "--remote: 'sc://host:port' is not valid; 'host:port' is not HOST:PORT"),
    ],
)
def test_an_invalid_address_is_a_usage_error(words: tuple[str, ...], message: str) -> None:
    done = run_kcli("spark", "skew", "t", *words)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert message in done.err


def test_one_reachable_master_of_several_suffices(silent_server: str, nobody: str) -> None:
    check_reachable(f"spark://{nobody},{silent_server}", None, 5)
    with pytest.raises(
        DisconnectedError, match=f"no Spark master can be reached at spark://{nobody}: Connection refused"
    ):
        check_reachable(f"spark://{nobody}", None, 5)


def test_a_dead_spark_connect_server_is_reported_at_once(nobody: str) -> None:
    started_s = time.process_time()
    done = run_kcli("spark", "skew", "t", "--remote", f"sc://{nobody}/;token=secret", "--timeout", "5")
    assert (done.status, done.text) == (5, "")
    assert done.err == (
        f"kcli: no Spark Connect server can be reached at sc://{nobody}: Connection refused; check the address\n"
    )
    assert time.process_time() - started_s < 5


def test_a_server_that_does_not_answer_ends_the_command_after_the_timeout(silent_server: str) -> None:
    pytest.importorskip("grpc")
    with pytest.raises(
        TimeoutExpired, match=f"sc://{silent_server} does not answer as a Spark Connect server within 0.3 s"
    ):
        open_session(remote=f"sc://{silent_server}", timeout_s=0.3)


def test_a_malformed_address_is_refused_before_a_connection() -> None:
    with pytest.raises(ConfigError):
        check_reachable("spark://", None, 1)


@pytest.mark.parametrize(
    ("of_server", "own", "result"),
    [
        ("200", {}, "16"),
        ("64", {}, "64"),
        ("200", {"spark.sql.shuffle.partitions": "200"}, "200"),
    ],
)
def test_sparks_default_of_shuffle_partitions_is_not_used_on_a_server(
    of_server: str, own: dict[str, str], result: str
) -> None:
    """Small aggregates over 200 partitions took 21.6 s, and 7.1 s over few."""
    settings = {"spark.sql.shuffle.partitions": of_server}
    conf: Any = SimpleNamespace(get=settings.__getitem__, set=settings.__setitem__)
    limit_shuffle(SimpleNamespace(conf=conf), own)  # type: ignore[arg-type]
    assert settings == {"spark.sql.shuffle.partitions": result}


def test_calls_to_a_server_that_has_died_are_repeated_within_the_time_limit() -> None:
    pytest.importorskip("grpc")
    for timeout_s, retries in ((0.01, 0), (5, 4), (30, 5)):
        policies: list[Any] = []
        client = SimpleNamespace(set_retry_policies=policies.extend)
        _limit_retries(SimpleNamespace(client=client), timeout_s)
        assert [policy.max_retries for policy in policies] == [retries]


@pytest.mark.parametrize(
    ("program", "how"), [("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"), ("exit(3)", "exit status 3")]
)
def test_a_jvm_that_dies_is_the_reason_of_all_later_errors(
    monkeypatch: pytest.MonkeyPatch, program: str, how: str
) -> None:
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        monkeypatch.setattr("kcli.spark.deploy.jvm_process._Jvm.started", process)
        assert str(jvm_failure()).startswith(f"the JVM of Spark has ended unexpectedly ({how}); if memory was short")
    monkeypatch.setattr("kcli.spark.deploy.jvm_process._Jvm.started", None)
    assert jvm_failure() is None


def test_a_jvm_that_ends_with_0_before_it_is_ready_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PySpark's launcher takes exit status 0 for a JVM that still starts, and waits without a limit."""
    java_gateway = pytest.importorskip("pyspark.java_gateway")
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\nexit 0\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr("kcli.spark.deploy.jvm_process._Jvm.started", None)
    with pytest.raises(SparkFailed, match="the JVM ended before it was ready, with exit status 0"), recorded_jvm():
        java_gateway.launch_gateway()


LOGGED = "26/11/22 15:34:43 ERROR"
FRAME = "\tat io.netty.channel.unix.Errors.handleConnectErrno(Errors.java:131)\n"


@pytest.mark.parametrize(
    ("error", "output", "reason"),
    [
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
            "WARNING: Using incubator modules\nInvalid maximum heap size: -Xmxx\n"
            "Error: Could not create the Java Virtual Machine.\n"
            "Error: A fatal exception has occurred. Program will exit.\n",
            "Invalid maximum heap size: -Xmxx",
        ),
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
            'Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn\n'
            "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)\n",
            "Master must either be yarn",
        ),
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": org.apache.spark.SparkIllegalArgumentException: [INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'x' in the "
            'config "a.b" is invalid. SQLSTATE: 22022\n\tat org.apache.spark.Error.f(Error.scala:1)\n',
            f"{LOGGED} SparkContext: Error initializing SparkContext.\n",
            "The value 'x' in the config \"a.b\" is invalid",
        ),
        (
            "odd",
            f"Caused by: java.net.ConnectException: finishConnect(..) failed: Connection refused\n{FRAME}"
            f"{LOGGED} StandaloneSchedulerBackend: Application has been killed. Reason: All masters are unresponsive! "
            f"Giving up.\n{FRAME}",
            "All masters are unresponsive! Giving up",
        ),
        ("odd", f"Caused by: java.net.UnknownHostException: nohost\n{FRAME}", "UnknownHostException: nohost"),
        ("odd", f"{LOGGED} SparkContext: Cannot bind.\n{FRAME}", "Cannot bind"),
        ("odd\nFile", "", "odd"),
        ("", "", "RuntimeError"),
    ],
)
def test_a_failed_start_is_reported_with_the_cause_and_not_a_frame(error: str, output: str, reason: str) -> None:
    assert startup_reason(RuntimeError(error), output) == reason

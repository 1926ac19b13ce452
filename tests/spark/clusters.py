"""Spark clusters from the pip package, as processes: a standalone one with two workers, and a Connect server.

Their Python has the requirements of Spark, but not kcli and its own requirements.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kcli.spark.deploy.session import lean_home
from tests.real_kafka import free_ports

QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # for short jobs the optimizing compiler does not pay
NOT_OF_SPARK = {
    *("crc32c", "cramjam", "lz4", "tabulate", "typer", "annotated_doc", "click", "shellingham", "rich", "pygments"),
    *("markdown_it", "mdurl", "pandas", "plotly", "narwhals", "zstandard", "kafka", "confluent_kafka", "pytest"),
    "hypothesis",
}
"""Packages installed for kcli and its tests only; PySpark, pyarrow, numpy and grpc do not need them.
The driver needs pandas, workers do not."""
WITHOUT_KCLI = f"""
import os, sys
from importlib.machinery import PathFinder


class OnlyShipped:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in {sorted(NOT_OF_SPARK)}:
            raise ModuleNotFoundError(f"No module named {{name!r}} (of this test)", name=name)
        if name != "kcli":
            return None
        shipped = [p for p in sys.path if os.path.basename(p).startswith("kcli")]
        found = PathFinder.find_spec(name, shipped)
        if found is None:
            raise ModuleNotFoundError("No module named 'kcli' (of this test)")
        return found


sys.meta_path.insert(0, OnlyShipped)
"""


def spark_home() -> Path:
    """Return a home with compiled modules, so that Python processes start within the 10 s that Spark waits."""
    import pyspark

    home = Path(pyspark.__file__).parent
    return lean_home(home, {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}) or home


def bare_environment(folder: Path) -> dict[str, str]:
    """Return the environment of Spark's processes: this interpreter, but with kcli only where Spark has put it, and
    without packages installed for kcli.
    """
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site" / "sitecustomize.py").write_text(WITHOUT_KCLI)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYTHON", "PYSPARK"))}
    own = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(folder / "site"), "SPARK_HOME": str(spark_home())}
    own |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "768m", "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM}
    return {**kept, **own, "SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOCAL_DIRS": str(folder / "scratch")}


@contextlib.contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Start a master and two workers with one core each; yield the master's URL."""
    port, web = free_ports(2)
    deploy = "org.apache.spark.deploy"
    master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)]
    url = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as running:
        running.enter_context(_process(folder, "master", ["bin/spark-class", *master], port))()
        waiting = []
        for number, web in enumerate(free_ports(2)):
            worker = [
                f"{deploy}.worker.Worker",
                "--host",
                "127.0.0.1",
                "-c",
                "1",
                "-m",
                "768m",
                "--webui-port",
                str(web),
            ]
            command = ["bin/spark-class", *worker, url]
            waiting.append(running.enter_context(_process(folder, f"worker{number}", command, web)))
        for wait in waiting:
            wait()
        yield url


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Start a Spark Connect server over local[2]; yield its URL."""
    (port,) = free_ports(1)
    confs = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.sql.shuffle.partitions": "2",
    }
    command = [
        "bin/spark-submit",
        "--master",
        "local[2]",
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]
    for name, value in confs.items():
        command += ["--conf", f"{name}={value}"]
    with _process(folder, "connect", [*command, "spark-internal"], port) as wait:
        wait()
        yield f"sc://127.0.0.1:{port}"


@contextlib.contextmanager
def _process(folder: Path, name: str, command: Sequence[str], port: int) -> Iterator[Callable[[], None]]:
    """Start a process of Spark in its own process group; yield a function that waits until it listens."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(spark_home() / command[0]), *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=bare_environment(folder),
            start_new_session=True,
        )
    try:
        yield functools.partial(_wait_for, port, process, log)
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path, timeout_s: float = 120) -> None:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"{log.name} did not come up; the end of its log:\n" + log.read_text(errors="replace")[-3000:])

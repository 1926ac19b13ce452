"""SparkSessions for kcli's own pipelines: start with checks, and stop together with the JVM.

Source: Spark's configuration page, and observations on 4.3.0. In an existing session `register` alone is enough.

The session uses a SPARK_HOME in which workers find PySpark's compiled modules. Spark puts `python/lib/pyspark.zip` of
its home first on the path of every Python that it starts, and that zip has sources only: each planner and task process
compiles them again, 1.5 s of CPU every time (measured on 4.3.0: 2.1 s against 0.5 s for the imports of a planner). On a
busy machine that is more than the 10 s for which the JVM waits. So the home is a folder of links to pip's, without that
zip; the interpreter has PySpark among its own packages.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kcli.errors import ConfigError, DisconnectedError, KcliError, TimeoutExpired
from kcli.private_files import make_folder
from kcli.spark import register
from kcli.spark.deploy.jvm_process import end_jvm, kill_jvm, recorded_jvm, text_of
from kcli.spark.deploy.spark_errors import SparkFailed, startup_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALL = "pip install 'kcli-kafka[spark]'"
OLDEST = (4, 2)
_NO_CONF: Mapping[str, str] = {}
_SHUFFLE = "spark.sql.shuffle.partitions"
_SPARKS_SHUFFLE, _REMOTE_SHUFFLE = "200", "16"
"""Spark's default, with which small aggregates take three times as long, and kcli's for a server with that default."""
_SQL_SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.python.filterPushdown.enabled": "true"}


def open_session(
    *,
    master: str = "local[*]",
    remote: str | None = None,
    conf: Mapping[str, str] = _NO_CONF,
    ship: str = "auto",
    app_name: str = "kcli",
    report: Callable[[str], None] = lambda _: None,
    jvm_output: IO[bytes] | None = None,
    timeout_s: float | None = None,
) -> SparkSession:
    """Return a session in which the format "kcli" is registered.

    `remote` is the address of a Spark Connect server (sc://host:port) and takes precedence over `master`. `conf` takes
    precedence over the settings made here. `ship` is the way to bring kcli to the executors: see `ship`.
    `report` is called with one line before slow steps. `jvm_output` receives the standard output and error of the JVM
    and the workers; None: a temporary file, which is read if the JVM does not start. `timeout_s` limits the wait for an
    answer of the master or the server; None: Spark's own limits (a minute, ten minutes). `ConfigError` for a missing or
    too old Java or PySpark, `DisconnectedError` if nothing answers, `TimeoutExpired`, `SparkFailed` if Spark does not
    start.
    """
    check_pyspark()
    if timeout_s is not None:
        check_reachable(master, remote, timeout_s)
    if remote is not None:
        return _connect(remote, conf, ship, app_name, report, timeout_s)
    from kcli.spark.deploy.java import check_java

    java = check_java(os.environ)
    local = master.startswith("local")
    home = _choose_interpreter(master)
    from kcli.spark.deploy.class_archive import using_archive
    from kcli.spark.deploy.ship import own_folder, prepend_python_path

    if local:
        prepend_python_path(os.environ, own_folder())
    settings = {**_defaults(local=local), **using_archive(home, java), **conf}
    report(f"starting Spark ({master})")
    session = _start(master, settings, app_name, jvm_output or tempfile.TemporaryFile(), timeout_s)  # noqa: SIM115
    try:
        _register(session, master, remote, ship)
    except BaseException:
        close_session(session)
        raise
    return session


def close_session(spark: SparkSession | None, *, patience_s: float = 10) -> None:
    """Stop the session and the JVM that `open_session` started; kill them after `patience_s` seconds. Never raises.

    None: `open_session` was interrupted. A JVM that it has started ends all the same.
    """
    if spark is not None:
        stopping = threading.Thread(target=_stop, args=(spark,), daemon=True)
        stopping.start()
        stopping.join(patience_s)
    end_jvm(patience_s, at_once=spark is None)


def check_pyspark() -> str:
    """Return PySpark's version. `ConfigError`, with the cure, if a package is missing, or PySpark is too old.

    PySpark needs pandas for functions over Arrow batches (mapInArrow), although those never use it.
    """
    from importlib.util import find_spec

    for name in ("pyspark", "pyarrow"):
        try:
            __import__(name)
        except ImportError as error:
            raise ConfigError(f"kcli spark needs {name} ({error}): {INSTALL}") from error
    if find_spec("pandas") is None:  # its import takes half a second
        raise ConfigError(f"kcli spark needs pandas: {INSTALL}")
    from pyspark.version import __version__ as version

    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise ConfigError(f"kcli spark needs pyspark {OLDEST[0]}.{OLDEST[1]} or newer, not {version}: {INSTALL}")
    return str(version)


_CONNECT_PORT = 15002
_K8S_PORT = 443


def spark_addresses(master: str, remote: str | None) -> list[tuple[str, int]]:
    """Return host and port of the Spark Connect server, or of the masters; none for a local master and YARN.

    ConfigError for an address that is not valid. Source: "Master URLs" in Spark's "Submitting Applications"; "Client
    Connection String" in the documentation of Spark Connect.
    """
    if remote is not None:
        if not remote.startswith("sc://"):
            raise ConfigError(f"--remote: {remote!r} is not valid; use sc://HOST:PORT")
        return [_address("--remote", remote, remote.removeprefix("sc://").partition("/")[0], _CONNECT_PORT)]
    if master.startswith("spark://"):
        return [_address("--master", master, address, None) for address in master.removeprefix("spark://").split(",")]
    if master.startswith("k8s://"):
        server = master.removeprefix("k8s://").split("://", 1)[-1].partition("/")[0]
        return [_address("--master", master, server, _K8S_PORT)]
    if master != "yarn" and not master.startswith("local"):
        raise ConfigError(
            f"--master: {master!r} is not valid; use local[*], spark://HOST:PORT, yarn or k8s://HOST:PORT"
        )
    return []


def _address(option: str, url: str, text: str, default_port: int | None) -> tuple[str, int]:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port or default_port
    except ValueError:
        host = port = None
    if not host or port is None:
        raise ConfigError(f"{option}: {url!r} is not valid; {text!r} is not HOST:PORT")
    return host, port


def check_reachable(master: str, remote: str | None, timeout_s: float) -> None:
    """Raise DisconnectedError if no address of Spark accepts a connection; Spark itself tries for minutes."""
    reason = None
    for host, port in spark_addresses(master, remote):
        try:
            with socket.create_connection((host, port), timeout_s):
                return
        except OSError as error:  # also of the look-up of the name, and the timeout
            timed_out = f"no answer within {timeout_s:g} s"
            reason = timed_out if isinstance(error, TimeoutError) else error.strerror or str(error)
    if reason is not None:
        server = "Spark Connect server" if remote is not None else "Spark master"
        raise DisconnectedError(
            f"no {server} can be reached at {_shown(remote or master)}: {reason}; check the address"
        )


def _shown(url: str) -> str:
    """Return the address without the parameters of Spark Connect, which have its token."""
    return url.partition("/;")[0]


def _choose_interpreter(master: str) -> Path | None:
    """Make workers run this interpreter: their default is `python3` of the PATH, which a venv that is not activated is
    not on. Return the lean home, if there is one.
    """
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_ours = os.environ.get("PYSPARK_PYTHON") == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    if is_ours and master.startswith(("local", "spark://")):  # YARN uploads the zip that a lean home does not have
        import pyspark

        home = lean_home(Path(pyspark.__file__).parent, os.environ)
        if home is not None:
            os.environ["SPARK_HOME"] = str(home)
        return home
    return None


def _defaults(*, local: bool) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **_SQL_SETTINGS,
        _SHUFFLE: str(2 * (os.cpu_count() or 2)),
    }
    if local:
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        # Workers and the JVM exchange data with less CPU than by TCP. Spark's own switch; Java 16 and newer have these.
        settings["spark.python.unix.domain.socket.enabled"] = str(hasattr(socket, "AF_UNIX")).lower()
        settings["spark.executor.heartbeatInterval"] = (
            "1s"  # interval at which running tasks report the records they have read
        )
    return settings


def _start(
    master: str, settings: Mapping[str, str], app_name: str, jvm_output: IO[bytes], timeout_s: float | None
) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items())).setMaster(master).setAppName(app_name)
    try:
        if SparkContext._gateway is None:
            with recorded_jvm():
                gateway = launch_gateway(conf, {"stdout": jvm_output, "stderr": jvm_output})
            SparkContext._ensure_initialized(gateway=gateway)
        on_interrupt = signal.getsignal(signal.SIGINT)
        with _time_limit(master, timeout_s):
            SparkContext.getOrCreate(conf)
        if threading.current_thread() is threading.main_thread():
            # PySpark's own handler would use the connection to the JVM while the interrupted call uses it.
            signal.signal(signal.SIGINT, on_interrupt)
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except KcliError:
        end_jvm(5)
        raise
    except Exception as error:
        try:
            reason = startup_reason(error, text_of(jvm_output))  # the text of an error in the JVM comes from there
        finally:
            end_jvm(5)
        raise SparkFailed(f"Spark did not start: {reason}") from error
    except BaseException:
        end_jvm(5, at_once=True)
        raise


@contextlib.contextmanager
def _time_limit(master: str, timeout_s: float | None) -> Iterator[None]:
    """Kill the JVM and raise TimeoutExpired if a standalone master does not answer in time: the JVM waits for it.

    Other masters have no limit: a local one has nobody to wait for, YARN and Kubernetes may take long.
    """
    if timeout_s is None or not master.startswith("spark://"):
        yield
        return
    limit = threading.Timer(timeout_s, kill_jvm)
    limit.start()
    try:
        yield
    except Exception as error:
        if limit.finished.is_set():
            reason = f"the Spark master at {master} did not answer within {timeout_s:g} s; check the address"
            raise TimeoutExpired(reason) from error
        raise
    finally:
        limit.cancel()


def _connect(
    remote: str,
    conf: Mapping[str, str],
    ship: str,
    app_name: str,
    report: Callable[[str], None],
    timeout_s: float | None,
) -> SparkSession:
    from pyspark.sql import SparkSession

    report(f"connecting to {_shown(remote)}")
    try:
        if timeout_s is not None:
            _await_server(remote, timeout_s)
        builder = SparkSession.builder.remote(remote).appName(app_name)
        for key, value in {**_SQL_SETTINGS, **conf}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        limit_shuffle(session, conf)
        if timeout_s is not None:
            _limit_retries(session, timeout_s)
    except ImportError as error:
        raise ConfigError(f"--remote needs pyspark[connect] ({error}): pip install 'pyspark[connect]'") from error
    except KcliError:
        raise
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise SparkFailed(f"no Spark Connect server answered at {_shown(remote)}: {reason}") from error
    _register(session, "", remote, ship)
    return session


def _limit_retries(session: Any, timeout_s: float) -> None:
    """Let calls to a server that has died fail after about this time; the client tries again for ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    retries, wait_s = 0, 0.05
    while wait_s <= timeout_s:
        retries, timeout_s, wait_s = retries + 1, timeout_s - wait_s, wait_s * 4
    session.client.set_retry_policies([DefaultPolicy(max_retries=retries)])


def limit_shuffle(session: SparkSession, conf: Mapping[str, str]) -> None:
    """Set the number of shuffle partitions on a server that has Spark's default, unless `conf` does."""
    if _SHUFFLE not in conf and session.conf.get(_SHUFFLE) == _SPARKS_SHUFFLE:
        session.conf.set(_SHUFFLE, _REMOTE_SHUFFLE)


def _await_server(remote: str, timeout_s: float) -> None:
    """Raise TimeoutExpired if the server does not speak HTTP/2 in time: a session tries again for ten minutes."""
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    with DefaultChannelBuilder(remote).toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout_s)
        except grpc.FutureTimeoutError as error:
            raise TimeoutExpired(
                f"{_shown(remote)} does not answer as a Spark Connect server within {timeout_s:g} s; check the address"
            ) from error


def _register(session: SparkSession, master: str, remote: str | None, ship: str) -> None:
    from kcli.spark.deploy.ship import resolve_ship

    register(session, carry=resolve_ship(master, remote, ship) == "inline")


def _stop(spark: Any) -> None:
    with contextlib.suppress(Exception):
        spark.stop()


_LINKED = ("bin", "sbin", "jars", "data", "licenses")


def lean_home(pyspark: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the lean home, made if necessary; None if it cannot be made, or SPARK_HOME is set."""
    if "SPARK_HOME" in environ or os.name != "posix" or not (pyspark / "jars").is_dir():
        return None
    base = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/nonexistent"), ".cache")) / "kcli"
    home = base / f"spark-home-{sha256(str(pyspark).encode()).hexdigest()[:16]}"
    try:
        if not home.is_dir():
            make_folder(base)
            _make_home(home, pyspark)
    except OSError:
        return None
    return home


def _make_home(home: Path, pyspark: Path) -> None:
    """Make the folder atomically, because another process may be making the same one."""
    scratch = Path(tempfile.mkdtemp(dir=home.parent, prefix="making-"))
    try:
        for name in _LINKED:
            if (pyspark / name).exists():
                (scratch / name).symlink_to(pyspark / name)
        with contextlib.suppress(OSError):
            scratch.rename(home)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

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
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kcli.errors import ConfigError, KcliError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALL = "pip install 'kcli[spark]'"
OLDEST = (4, 2)
_NO_CONF: Mapping[str, str] = {}
_SQL_SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.python.filterPushdown.enabled": "true"}


class SparkFailed(KcliError):
    """Spark could not be started, or a job failed. The message is the line with the reason."""


def open_session(
    *,
    master: str = "local[*]",
    remote: str | None = None,
    conf: Mapping[str, str] = _NO_CONF,
    ship: str = "auto",
    app_name: str = "kcli",
    report: Callable[[str], None] = lambda _: None,
    jvm_output: IO[bytes] | None = None,
) -> SparkSession:
    """Return a session in which the format "kcli" is registered.

    `remote` is the address of a Spark Connect server (sc://host:port) and takes precedence over `master`. `conf` takes
    precedence over the settings made here. `ship` is the way to bring kcli to the executors: see kcli.spark.ship.
    `report` is called with one line before slow steps. `jvm_output` receives the standard output and error of the JVM
    and the workers; None: a temporary file, which is read if the JVM does not start. `ConfigError` for a missing or too
    old Java or PySpark, `SparkFailed` if Spark does not start.
    """
    check_pyspark()
    if remote is not None:
        return _connect(remote, conf, ship, app_name, report)
    from kcli.spark.java import check_java

    check_java(os.environ)
    local = master.startswith("local")
    _choose_interpreter(master)
    from kcli.spark.ship import shipping_conf

    settings = {**_defaults(local=local), **shipping_conf(master, ship, os.environ), **conf}
    report(f"starting Spark ({master})")
    session = _start(master, settings, app_name, jvm_output or tempfile.TemporaryFile())  # noqa: SIM115
    _register(session)
    return session


def close_session(spark: SparkSession, *, patience_s: float = 10) -> None:
    """Stop the session and the JVM that `open_session` started; kill them after `patience_s` seconds. Never raises."""
    gateway = getattr(getattr(spark, "_sc", None), "_gateway", None)
    stopping = threading.Thread(target=_stop, args=(spark,), daemon=True)
    stopping.start()
    stopping.join(patience_s)
    if gateway is not None:
        _end_jvm(gateway, patience_s)


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


def _choose_interpreter(master: str) -> None:
    """Make workers run this interpreter: their default is `python3` of the PATH, which a venv that is not activated is
    not on.
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


def _defaults(*, local: bool) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **_SQL_SETTINGS,
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 2)),
    }
    if local:
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        settings["spark.executor.heartbeatInterval"] = (
            "1s"  # interval at which running tasks report the records they have read
        )
    return settings


def _start(master: str, settings: Mapping[str, str], app_name: str, jvm_output: IO[bytes]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items())).setMaster(master).setAppName(app_name)
    gateway = None
    try:
        if SparkContext._gateway is None:
            gateway = launch_gateway(conf, {"stdout": jvm_output, "stderr": jvm_output})
            SparkContext._ensure_initialized(gateway=gateway)
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:
        if gateway is not None:
            _end_jvm(gateway, 5)
        raise SparkFailed(f"Spark did not start: {_startup_error(jvm_output) or error}") from error
    except BaseException:  # Ctrl-C while Spark starts
        if gateway is not None:
            _end_jvm(gateway, 5)
        raise


def _connect(
    remote: str, conf: Mapping[str, str], ship: str, app_name: str, report: Callable[[str], None]
) -> SparkSession:
    from pyspark.sql import SparkSession

    from kcli.spark.ship import register_inline

    report(f"connecting to {remote}")
    try:
        builder = SparkSession.builder.remote(remote).appName(app_name)
        for key, value in {**_SQL_SETTINGS, **conf}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    except ImportError as error:
        raise ConfigError(f"--remote needs pyspark[connect] ({error}): pip install 'pyspark[connect]'") from error
    except Exception as error:
        raise SparkFailed(f"no Spark Connect server answered at {remote}: {str(error).splitlines()[0]}") from error
    if ship == "installed":
        _register(session)
    else:
        register_inline(session)
    return session


def _register(session: SparkSession) -> None:
    from kcli.spark import register

    register(session)


def _stop(spark: Any) -> None:
    with contextlib.suppress(Exception):
        spark.stop()


def _end_jvm(gateway: Any, patience_s: float) -> None:
    """End a gateway's JVM by closing its standard input; it then exits and removes its temporary files.

    The gateway is not called: after a Ctrl-C in one of its calls `shutdown` waits forever (observed).
    """
    from pyspark import SparkContext

    process = getattr(gateway, "proc", None)
    if process is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if SparkContext._gateway is gateway:
        SparkContext._gateway = SparkContext._jvm = None


def _startup_error(jvm_output: IO[bytes]) -> str:
    """Return the last line of the JVM's output with an error or exception, without the trace."""
    try:
        jvm_output.seek(0)
        lines = jvm_output.read().decode(errors="replace").splitlines()
    except OSError:  # a pipe or a terminal
        return ""
    errors = [line.strip() for line in lines if "rror" in line or "xception" in line]
    return errors[-1] if errors else ""


_LINKED = ("bin", "sbin", "jars", "data", "licenses")


def lean_home(pyspark: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the lean home, made if necessary; None if it cannot be made, or SPARK_HOME is set."""
    if "SPARK_HOME" in environ or os.name != "posix" or not (pyspark / "jars").is_dir():
        return None
    base = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/nonexistent"), ".cache")) / "kcli"
    home = base / f"spark-home-{sha256(str(pyspark).encode()).hexdigest()[:16]}"
    try:
        if not home.is_dir():
            base.mkdir(parents=True, exist_ok=True)
            _make_home(home, pyspark)
    except OSError:
        return None
    return home


def _make_home(home: Path, pyspark: Path) -> None:
    """Make the folder atomically, because another process may be making the same one."""
    scratch = Path(tempfile.mkdtemp(dir=home.parent, prefix="making-"))
    for name in _LINKED:
        if (pyspark / name).exists():
            (scratch / name).symlink_to(pyspark / name)
    try:
        scratch.rename(home)
    except OSError:
        shutil.rmtree(scratch, ignore_errors=True)

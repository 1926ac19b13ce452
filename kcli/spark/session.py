"""Build the SparkSession that kcli's own pipelines run on, and take it down again with its JVM.

Source: Spark's configuration page; what was seen on 4.3.0. `register` alone is enough in a session of somebody else's.
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
_NOTHING: Mapping[str, str] = {}
_OF_SQL = {"spark.sql.session.timeZone": "UTC", "spark.sql.python.filterPushdown.enabled": "true"}


class SparkFailed(KcliError):
    """Spark could not be started, or a job of it failed. The message is the last line that tells why."""


def open_session(
    *,
    master: str = "local[*]",
    remote: str | None = None,
    conf: Mapping[str, str] = _NOTHING,
    ship: str = "auto",
    app_name: str = "kcli",
    say: Callable[[str], None] = lambda _: None,
    noise: IO[bytes] | None = None,
) -> SparkSession:
    """A session in which format "kcli" is registered.

    `remote` is the address of a Spark Connect server (sc://host:port) and stands before `master`. `conf` wins over
    everything that is set here. `ship` says how executors get kcli: see kcli.spark.ship. `say` is told, in a line each,
    what takes long. `noise` is where the JVM's and the workers' standard output and error go; None: a file that is
    gone with the session, and is looked at when the JVM does not start. `ConfigError` for a Java or PySpark that is
    missing or too old, `SparkFailed` when Spark does not start.
    """
    check_pyspark()
    if remote is not None:
        return _connect(remote, conf, ship, app_name, say)
    from kcli.spark.java import check_java

    check_java(os.environ)
    local = master.startswith("local")
    _choose_interpreter(master)
    from kcli.spark.ship import shipping_conf

    settings = {**_defaults(local=local), **shipping_conf(master, ship, os.environ), **conf}
    say(f"starting Spark ({master})")
    session = _start(master, settings, app_name, noise or tempfile.TemporaryFile())  # noqa: SIM115
    _register(session)
    return session


def close_session(spark: SparkSession, *, patience_s: float = 10) -> None:
    """End the session and the JVM that `open_session` started; what does not end in time is killed. Never raises."""
    gateway = getattr(getattr(spark, "_sc", None), "_gateway", None)
    stopping = threading.Thread(target=_stop, args=(spark,), daemon=True)
    stopping.start()
    stopping.join(patience_s)
    if gateway is not None:
        _end_jvm(gateway, patience_s)


def check_pyspark() -> str:
    """The version of PySpark. `ConfigError`, with the cure, if it or pyarrow is missing, or it is too old."""
    for name in ("pyspark", "pyarrow"):
        try:
            __import__(name)
        except ImportError as error:
            raise ConfigError(f"kcli spark needs {name} ({error}): {INSTALL}") from error
    from pyspark.version import __version__ as version

    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise ConfigError(f"kcli spark needs pyspark {OLDEST[0]}.{OLDEST[1]} or newer, not {version}: {INSTALL}")
    return str(version)


def _choose_interpreter(master: str) -> None:
    """Workers run `python3` of the PATH unless told; that is another one than ours in a venv that is not activated."""
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_ours = os.environ.get("PYSPARK_PYTHON") == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    if is_ours and master.startswith(("local", "spark://")):  # YARN uploads the zip that a lean home lacks
        import pyspark

        home = lean_home(Path(pyspark.__file__).parent, os.environ)
        if home is not None:
            os.environ["SPARK_HOME"] = str(home)


def _defaults(*, local: bool) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **_OF_SQL,
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 2)),
    }
    if local:
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        settings["spark.executor.heartbeatInterval"] = "1s"  # how often running tasks tell what they have read
    return settings


def _start(master: str, settings: Mapping[str, str], app_name: str, noise: IO[bytes]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items())).setMaster(master).setAppName(app_name)
    gateway = None
    try:
        if SparkContext._gateway is None:
            gateway = launch_gateway(conf, {"stdout": noise, "stderr": noise})
            SparkContext._ensure_initialized(gateway=gateway)
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:
        if gateway is not None:
            _end_jvm(gateway, 5)
        raise SparkFailed(f"Spark did not start: {_last_words(noise) or error}") from error
    except BaseException:  # Ctrl-C in the seconds that starting takes
        if gateway is not None:
            _end_jvm(gateway, 5)
        raise


def _connect(
    remote: str, conf: Mapping[str, str], ship: str, app_name: str, say: Callable[[str], None]
) -> SparkSession:
    from pyspark.sql import SparkSession

    from kcli.spark.ship import register_inline

    say(f"connecting to {remote}")
    try:
        builder = SparkSession.builder.remote(remote).appName(app_name)
        for key, value in {**_OF_SQL, **conf}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    except ImportError as error:
        raise ConfigError(f"--remote needs more of pyspark ({error}): pip install 'pyspark[connect]'") from error
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
    """A gateway's JVM lives by its standard input: at the end of that it exits, and removes its scratch files.

    The gateway itself is not asked for anything: after a Ctrl-C in one of its calls `shutdown` waits forever (seen).
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


def _last_words(noise: IO[bytes]) -> str:
    """The last line of a JVM that did not start which tells something: an exception's, not its trace."""
    try:
        noise.seek(0)
        lines = noise.read().decode(errors="replace").splitlines()
    except OSError:  # a pipe, a terminal
        return ""
    telling = [line.strip() for line in lines if "rror" in line or "xception" in line]
    return telling[-1] if telling else ""


_LINKED = ("bin", "sbin", "jars", "data", "licenses")


def lean_home(pyspark: Path, environ: Mapping[str, str]) -> Path | None:
    """The folder, made if it is not there yet; None where there can be none, or where the person has chosen a home."""
    if "SPARK_HOME" in environ or os.name != "posix" or not (pyspark / "jars").is_dir():
        return None
    base = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/nonexistent"), ".cache")) / "kcli"
    home = base / f"spark-home-{sha256(str(pyspark).encode()).hexdigest()[:16]}"
    try:
        if not home.is_dir():
            base.mkdir(parents=True, exist_ok=True)
            _make(home, pyspark)
    except OSError:
        return None
    return home


def _make(home: Path, pyspark: Path) -> None:
    """Whole or not at all: another process may be making the same."""
    scratch = Path(tempfile.mkdtemp(dir=home.parent, prefix="making-"))
    for name in _LINKED:
        if (pyspark / name).exists():
            (scratch / name).symlink_to(pyspark / name)
    try:
        scratch.rename(home)
    except OSError:
        shutil.rmtree(scratch, ignore_errors=True)

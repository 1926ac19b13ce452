"""Packing of kcli for machines without it, and translation of Spark's failures."""

from __future__ import annotations

import ast
import io
import pickle
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from kcli import errors
from kcli.cli.exit_status import status_of
from kcli.errors import (
    BrokerError,
    ConfigError,
    DisconnectedError,
    KcliError,
    Refused,
    TimeoutExpired,
    TopicAuthorizationError,
)
from kcli.spark.deploy.session import lean_home
from kcli.spark.deploy.ship import carrying, prepend_python_path, resolve_ship, zip_kcli
from kcli.spark.deploy.spark_errors import SparkFailed, translate_error
from kcli.spark.loss import DataLoss
from tests.cli.fake import run_kcli

USE_THE_SOURCE = """
import sys, pickle
source = pickle.load(open(sys.argv[1], "rb"))
made = source({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "columns": "offset"})
print(made.schema())
from pyspark.sql.types import LongType, StructType
import kcli
reader = made.reader(schema=StructType().add("offset", LongType()))
from pyspark import cloudpickle
open(sys.argv[2], "wb").write(cloudpickle.dumps(reader))
print(kcli.__file__)
"""
USE_THE_READER = """
import sys, pickle
reader = pickle.load(open(sys.argv[1], "rb"))
import kcli
print(type(reader).__module__, kcli.__file__)
"""


def test_the_zip_is_deterministic_and_has_all_imports_of_the_source() -> None:
    names = zipfile.ZipFile(io.BytesIO(zip_kcli())).namelist()
    assert {"kcli/__init__.py", "kcli/spark/source.py", "kcli/protocol/codec.py"} <= set(names)
    assert not [name for name in names if name.startswith(("kcli/cli/", "kcli/broker/"))]
    again = zip_kcli.__wrapped__()
    assert again == zip_kcli()


def test_the_archive_is_found_by_spark_and_makes_itself_again(tmp_path: Path) -> None:
    """Spark imports each top-level module named pyspark_* and takes its DefaultSource (SPARK-45917)."""
    path = tmp_path / "kcli-spark.zip"
    assert run_kcli("spark", "archive", str(path)).status == 0
    program = """
from pkgutil import iter_modules
import io, sys
from importlib import import_module
from kcli.spark.deploy.ship import is_archived, zip_kcli
[name] = [it.name for it in iter_modules([sys.argv[1]]) if it.name.startswith("pyspark_")]
print(import_module(name).DefaultSource.name(), is_archived(), zip_kcli() == open(sys.argv[1], "rb").read())
"""
    pytest.importorskip("pyspark")
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": str(path)}, cwd=tmp_path, timeout=120
    )
    assert (done.stdout, done.returncode) == ("kcli True True\n", 0), done.stderr
    assert run_kcli("spark", "archive", str(tmp_path)).err == f"kcli: FILE: {tmp_path} is a folder; use a file\n"


def test_spark_finds_the_source_without_a_call_and_refuses_an_option_that_would_have_no_effect() -> None:
    pytest.importorskip("pyspark")
    from kcli.errors import ConfigError
    from kcli.spark.source import KcliDataSource
    from pyspark_kcli import DefaultSource

    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "commitGroup": "g"}
    source = DefaultSource(options)
    assert isinstance(source, KcliDataSource)
    from pyspark.sql.types import BinaryType, StructField, StructType

    with pytest.raises(ConfigError, match=r"commitGroup requires a call of kcli.spark.register\(spark\)"):
        source.streamReader(StructType([StructField("value", BinaryType())]))


def test_the_source_carries_kcli_to_all_but_local_masters() -> None:
    assert resolve_ship("local[2]", None, "auto") == "installed"
    assert [resolve_ship(master, None, "auto") for master in ("spark://host:7077", "yarn")] == ["inline", "inline"]
    assert resolve_ship("local[*]", "sc://host", "auto") == "inline"
    assert resolve_ship("spark://host:7077", None, "installed") == "installed"
    assert resolve_ship("local[*]", None, "inline") == "inline"
    assert resolve_ship("spark://host:7077", None, "zip") == "inline", "the name of a way that is gone"


def test_a_path_is_added_once() -> None:
    environ = {"PYTHONPATH": "/mine"}
    for path in ("/kcli", "/kcli", ""):
        prepend_python_path(environ, path)
    assert environ["PYTHONPATH"] == "/kcli:/mine"


def test_an_inline_source_and_its_reader_work_without_kcli(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    payload = zip_kcli()
    files = [tmp_path / name for name in ("source", "reader")]
    files[0].write_bytes(cloudpickle.dumps(carrying(payload, sha256(payload).hexdigest()[:16])))
    for program, words in ((USE_THE_SOURCE, files), (USE_THE_READER, files[1:])):
        command = [sys.executable, "-c", program, *map(str, words)]
        bare = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=bare, timeout=120)
        assert done.returncode == 0, done.stderr
        assert str(tmp_path / "kcli-") in done.stdout.splitlines()[-1]
    assert done.stdout.startswith("kcli.spark.source ")


@pytest.mark.parametrize(
    ("text", "kind", "messages"),
    [
        (
            "An error.\nTraceback (most recent call last):\n  File ...\nkcli.errors.ConfigError: no such thing\n",
            ConfigError,
            "no such thing",
        ),
        (
            "Traceback:\nkcli.errors.BrokerError: TOPIC_AUTHORIZATION_FAILED: not you (topic t)\n",
            TopicAuthorizationError,
            "TOPIC_AUTHORIZATION_FAILED: not you (topic t)",
        ),
        ("Traceback\nkcli.errors.TimeoutExpired: nothing came\n\tat org.apache", TimeoutExpired, "nothing came"),
        ("Traceback\nkcli.spark.loss.DataLoss: 5 records are gone\n", DataLoss, "5 records are gone"),
        (
            "Traceback:\nkcli.admin.offsets.inspection.GroupInUse: group g is Stable: stop it\n",
            Refused,
            "group g is Stable: stop it",
        ),
        (
            "Traceback:\nkcli.errors.NotFound: no topic\n\nDuring handling of the above exception, another exception "
            "occurred:\n\nTraceback:\nkcli.spark.stream_checkpoint.CheckpointError: 5 MB and more (topic t)\n",
            SparkFailed,
            "5 MB and more (topic t)",
        ),
        (
            "Traceback:\nkcli.errors.TopicAuthorizationError: TOPIC_AUTHORIZATION_FAILED: no (topics a)\n",
            TopicAuthorizationError,
            "TOPIC_AUTHORIZATION_FAILED: no (topics a)",
        ),
        ("Traceback:\nkcli.errors.BrokerError: NOT_KNOWN_YET: new\n", SparkFailed, "NOT_KNOWN_YET: new"),
        ("Traceback:\nsubprocess.TimeoutExpired: the command ran\n", SparkFailed, "TimeoutExpired: the command ran"),
        (
            "[PATH_ALREADY_EXISTS] Path file:/x already exists. Set mode. SQLSTATE: 42K04",
            Refused,
            "Path file:/x already exists. Set mode; use another --to, or --mode append or overwrite",
        ),
        ("Job aborted.\nCaused by: java.lang.OutOfMemoryError: Java heap space", SparkFailed, "spark.driver.memory"),
        (
            "An error occurred while calling o65.parquet.\n: java.lang.RuntimeException: "
            "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found\n\tat x",
            ConfigError,
            "Spark needs another package for s3a:// addresses: add it with --conf "
            "spark.jars.packages=org.apache.hadoop:hadoop-aws:3.",
        ),
        (
            "An error occurred while calling o84.parquet.\n: java.lang.RuntimeException: java.lang."
            "ClassNotFoundException: Class org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem not found\n\tat x",
            ConfigError,
            "org.apache.hadoop:hadoop-azure:3.",
        ),
        (
            'An error occurred.\n: org.apache.hadoop.UnsupportedFileSystemException: No FileSystem for scheme "s3"\n',
            ConfigError,
            "Spark has no file system for s3:// addresses: use s3a://",
        ),
        (
            'An error occurred.\n: org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "x"\n',
            ConfigError,
            "spark.jars.packages=GROUP:ARTIFACT:VERSION",
        ),
        (
            "<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n"
            '\tdetails = "failed to connect to all addresses; last error: refused"\n\tdebug_error_string = "x"\n>',
            DisconnectedError,
            "the Spark Connect server does not answer: failed to connect to all addresses; last error: refused",
        ),
        (
            "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.INTERNAL\n"
            '\tdetails = "it said "no""\n\tdebug_error_string = "x"\n>',
            SparkFailed,
            'the Spark Connect server answered INTERNAL: it said "no"',
        ),
        (
            '[UNSUPPORTED_DATATYPE] Unsupported data type "GEOMETRY(4326)". SQLSTATE: 0A000',
            ConfigError,
            'Unsupported data type "GEOMETRY(4326)"',
        ),
        ("Traceback (most recent call last):\nValueError: odd\n", SparkFailed, "ValueError: odd"),
        (
            "An error occurred while calling o70.count.\n: org.apache.spark.SparkException: Job aborted: "
            "Lost task 0.3 in stage 2.0: org.apache.spark.SparkException: \nError from python worker:\n"
            "  /usr/bin/python3: No module named 'pyspark'\nPYTHONPATH was:\n  /x\n\tat java.base/java.lang.Thread.run",
            SparkFailed,
            "/usr/bin/python3: No module named 'pyspark'; pyspark is not installed on Spark's machines; set PYSPARK",
        ),
        (
            "An error occurred while calling o81.count.\n: org.apache.spark.SparkException: Job 0 cancelled because "
            "SparkContext was shut down\n\tat org.apache.spark.scheduler.DAGScheduler.f(DAGScheduler.scala:1)\n",
            SparkFailed,
            "Job 0 cancelled because SparkContext was shut down",
        ),
    ],
)
def test_a_spark_error_is_its_reason_and_the_cure(text: str, kind: type[KcliError], messages: str) -> None:
    found = translate_error(RuntimeError(text))
    assert type(found) is kind
    assert messages in str(found)
    assert "\n" not in str(found)
    assert pickle.loads(pickle.dumps(found)).message == found.message


def test_kcli_errors_keep_their_exit_status() -> None:
    """All error classes that tasks and planners can raise."""
    root = Path(errors.__file__).parent
    paths = [path for path in root.rglob("*.py") if path.relative_to(root).parts[0] not in ("cli", "broker")]
    nodes = {
        node.name: (ast.unparse(node.bases[0]), path.stem)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.bases
    }
    seen = set()
    for name in nodes:
        kind = name
        while kind in nodes and not hasattr(errors, kind):
            kind = nodes[kind][0]
        found = getattr(errors, kind, None)
        if isinstance(found, type) and issubclass(found, KcliError) and not issubclass(found, BrokerError):
            result = translate_error(RuntimeError(f"Traceback:\nkcli.{nodes[name][1]}.{name}: the reason\n"))
            assert (status_of(result), str(result)) == (status_of(found("")), "the reason"), name
            seen.add(name)
    assert {"ConfigError", "GroupInUse", "LogTruncated", "DataLoss", "CommitFailed"} <= seen


def test_a_lean_home_links_everything_except_the_source_zip(tmp_path: Path) -> None:
    pyspark = tmp_path / "pyspark"
    for name in ("bin", "jars", "python"):
        (pyspark / name).mkdir(parents=True)
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    home = lean_home(pyspark, environ)
    assert home is not None
    assert sorted(path.name for path in home.iterdir()) == ["bin", "jars"]
    assert lean_home(pyspark, environ) == home
    assert lean_home(pyspark, {**environ, "SPARK_HOME": "/mine"}) is None
    assert lean_home(pyspark, {"XDG_CACHE_HOME": "/proc/nowhere"}) is None

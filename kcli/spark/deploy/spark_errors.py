"""PySpark's exceptions as KcliErrors: one line, a cure, and the class that the exit status depends on.

A KcliError that was raised in a worker or in the planner comes back as the text of a Python traceback inside a Spark
error; the last line of the traceback has class and message.
"""

from __future__ import annotations

import os
import re

from kcli import errors
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, DisconnectedError, KcliError, Refused
from kcli.spark.loss import DataLoss
from kcli.spark.record_schema import ALL
from kcli.text import closest_name


class SparkFailed(KcliError):
    """Spark could not be started, or a job failed. The message is the line with the reason."""


_ERROR_CLASSES: dict[str, type[KcliError]] = {
    **{name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, KcliError)},
    "DataLoss": DataLoss,
    **dict.fromkeys(("GroupInUse", "PlanOutdated", "PlanRefused", "WrongCluster"), Refused),
}
"""Error classes by name. Errors of other classes keep their reason only."""
_KCLI_ERROR = re.compile(r"^kcli\.(?:\w+\.)*([A-Z]\w*): (.+)$", re.M)
_RAISED = re.compile(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Expired|Found|Refused|Loss|Version|Records)): (.+)$", re.M)
_CONDITION = re.compile(r"\[([A-Z_]+)(?:\.[A-Z_]+)?\] *")
_UNRESOLVED = re.compile(
    r"A column, variable, or function parameter with name `(?P<name>[^`]+)` cannot be resolved\. "
    r"Did you mean one of the following\? \[(?P<known>[^\]]+)\]"
)
_SQL_STATE = re.compile(r" *SQLSTATE: \w+")
# Py4J's text of an exception in the JVM: a first line without information, then Java's trace.
_IN_THE_JVM = re.compile(r"\AAn error occurred while calling .+\n: [\w.$]+: *(.*)")
# The text of gRPC's errors, on several lines.
_RPC = re.compile(r'terminated with:\s+status = StatusCode\.(?P<status>\w+)\s+details = "(?P<details>[^\n]*?)"\s*\n')
_NO_WORKER = re.compile(r"^Error from python worker:\s*(.+)", re.M)

# Error conditions of Spark (see its documentation) that users can correct: error class and cure.
_USER_ERRORS: dict[str, tuple[type[KcliError], str]] = {
    "DATA_SOURCE_NOT_FOUND": (
        ConfigError,
        "add the format's package with --conf spark.jars.packages=GROUP:ARTIFACT:VERSION",
    ),
    "PATH_ALREADY_EXISTS": (Refused, "use another --to, or --mode append or overwrite"),
    "UNRESOLVED_COLUMN": (ConfigError, ""),
    "PARSE_SYNTAX_ERROR": (ConfigError, ""),
    "PARSE_EMPTY_STATEMENT": (ConfigError, ""),
    "UNRESOLVED_ROUTINE": (ConfigError, ""),
    "TABLE_OR_VIEW_NOT_FOUND": (ConfigError, ""),
    "TABLE_OR_VIEW_ALREADY_EXISTS": (ConfigError, ""),
    "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS": (ConfigError, ""),
    "WRONG_NUM_ARGS": (ConfigError, ""),
    "MISSING_AGGREGATION": (ConfigError, ""),
    "MISSING_GROUP_BY": (ConfigError, ""),
    "AMBIGUOUS_REFERENCE": (ConfigError, ""),
    "DATATYPE_MISMATCH": (ConfigError, ""),
    "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE": (
        ConfigError,
        "exclude those columns with --columns, or use another --format",
    ),
    "CODEC_NOT_AVAILABLE": (ConfigError, ""),
    "UNSUPPORTED_DATATYPE": (ConfigError, ""),
    "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION": (ConfigError, ""),
    "STREAM_FAILED": (SparkFailed, ""),
}
_HINTS = {
    "failed to connect back": "the workers' Python cannot be started; set PYSPARK_PYTHON to one with pyarrow",
    "No module named 'kcli": "kcli is not installed on Spark's machines; use --ship auto or inline",
    "No module named 'pyspark": "pyspark is not installed on Spark's machines; set PYSPARK_PYTHON to one with it",
    "No module named 'pyarrow": "pyarrow is not installed on Spark's machines; install it, or ship an environment",
    "No module named 'numpy": "numpy is not installed on Spark's machines; install it, or ship an environment",
    "PYTHON_VERSION_MISMATCH": "driver and workers run different Python versions; set PYSPARK_PYTHON for the workers",
    "OutOfMemoryError": "increase the memory, for example --conf spark.driver.memory=4g",
    "No space left on device": "free disk space for the result and for Spark's temporary files (spark.local.dir)",
}


def translate_error(error: BaseException) -> KcliError:
    """Return a KcliError for an exception of a Spark job. KcliErrors are returned unchanged."""
    if isinstance(error, KcliError):
        return error
    text = str(error)
    raised = _kcli_error(text)
    if raised is not None:
        return raised
    if (missing := _missing_file_system(text)) is not None:
        return missing
    if rpc := _RPC.search(text):
        if rpc["status"] == "UNAVAILABLE":
            return DisconnectedError(f"the Spark Connect server does not answer: {rpc['details']}")
        return SparkFailed(f"the Spark Connect server answered {rpc['status']}: {rpc['details']}")
    line = _last_line(text) or type(error).__name__
    for sign, cure in _HINTS.items():
        if sign in text:
            return SparkFailed(f"{line}; {cure}")
    if name := _UNRESOLVED.match(line):
        return ConfigError(_unknown_column(name["name"], re.findall(r"`([^`]+)`", name["known"])))
    condition = _CONDITION.search(text)
    kind, cure = _USER_ERRORS.get(condition[1] if condition else "", (SparkFailed, ""))
    return kind(f"{line}; {cure}" if cure else line)


def _unknown_column(name: str, known: list[str]) -> str:
    """Return the error text for an unknown column. Spark suggests only columns that are read, without those that
    were pruned because nothing uses them.
    """
    if set(known) <= {column for column, _ in ALL}:
        known = [column for column, _ in ALL]
    close = closest_name(name, known)
    return f"there is no column {name}; " + (f"did you mean {close}?" if close else f"use {', '.join(known)}")


_LAUNCHER_FAILED = re.compile(r"^(.+)\nError: Could not create the Java Virtual Machine", re.M)
_GAVE_UP = re.compile(r" ERROR .+ Reason: (.+)$", re.M)
# An exception in the output of the JVM: its class and message, not the frames of its trace.
_THROWN = re.compile(
    r'^(?:Exception in thread ".+?" |Caused by: )?(?:[\w$]+\.)+([\w$]+(?:Exception|Error)): *(\S.*)$', re.M
)
_LOGGED = re.compile(r" ERROR \w+: (.+)$", re.M)


def startup_reason(error: BaseException, jvm_output: str) -> str:
    """Return the reason for which Spark did not start: the exception in the JVM, otherwise its output, otherwise the
    error of PySpark.
    """
    text = str(error)
    thrown = _THROWN.findall(jvm_output)
    if _IN_THE_JVM.match(text) and _last_line(text):
        return _last_line(text)
    if found := _LAUNCHER_FAILED.search(jvm_output) or _GAVE_UP.search(jvm_output):
        return _without_codes(found[1])
    if thrown:
        name, message = thrown[-1]
        return _without_codes(message if name.startswith("Spark") else f"{name}: {message}")
    if logged := _LOGGED.findall(jvm_output):
        return _without_codes(logged[-1])
    return _last_line(text) or type(error).__name__


_NO_FILE_SYSTEM = re.compile(
    r'Class org\.apache\.hadoop\.fs\.(?P<package>\w+)\.\w+ not found|No FileSystem for scheme "?(?P<scheme>[\w+.-]+)'
)
# Packages of Hadoop's file systems, and the schemes of their addresses.
_FILE_SYSTEMS = {
    "s3a": ("s3a://", "hadoop-aws"),
    "azurebfs": ("abfs:// and abfss://", "hadoop-azure"),
    "gs": ("gs://", "hadoop-gcp"),
}


def _missing_file_system(text: str) -> ConfigError | None:
    """Return the error for a file system whose package Spark does not have."""
    missing = _NO_FILE_SYSTEM.search(text)
    if missing is None:
        return None
    if missing["package"] in _FILE_SYSTEMS:
        schemes, artifact = _FILE_SYSTEMS[missing["package"]]
        package = f"org.apache.hadoop:{artifact}:{_hadoop_version()}"
        return ConfigError(
            f"Spark needs another package for {schemes} addresses: add it with --conf spark.jars.packages={package}"
        )
    scheme = missing["scheme"] or missing["package"]
    cure = (
        "use s3a://"
        if scheme in ("s3", "s3n")
        else "add its package with --conf spark.jars.packages=GROUP:ARTIFACT:VERSION"
    )
    return ConfigError(f"Spark has no file system for {scheme}:// addresses: {cure}")


def _hadoop_version() -> str:
    """Return the version of Hadoop in Spark's jars, which its other packages must have."""
    from pathlib import Path

    import pyspark

    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent, "jars")
    names = (re.fullmatch(r"hadoop-client-api-(.+)\.jar", path.name) for path in jars.glob("hadoop-client-api-*.jar"))
    return next((name[1] for name in names if name), "VERSION")


def _kcli_error(text: str) -> KcliError | None:
    """Return the last KcliError in the text of a traceback."""
    raised = _KCLI_ERROR.findall(text)
    if not raised:
        return None
    name, message = raised[-1]
    kind = _ERROR_CLASSES.get(name, SparkFailed)
    if not issubclass(kind, BrokerError):
        return kind(message)
    code, _, text = message.partition(": ")
    known = next((entry for entry in ErrorCode.all() if entry.name == code), None)
    return SparkFailed(message) if known is None else BrokerError(known, text)


def _last_line(text: str) -> str:
    """Return the line with the reason, without Spark's codes: that of a Python exception, otherwise the first one."""
    raised = _RAISED.findall(text)
    lines = [f"{name}: {message}" for name, message in raised if name not in ("PythonException", "SparkException")]
    if lines and "Traceback" in text:
        line = lines[-1]
    elif match := _NO_WORKER.search(text) or _IN_THE_JVM.match(text):
        line = match[1]
    else:
        line = next(iter(text.strip().splitlines()), "")
    return _without_codes(line)


def _without_codes(line: str) -> str:
    return _SQL_STATE.sub("", _CONDITION.sub("", line)).strip().rstrip(";.").strip()

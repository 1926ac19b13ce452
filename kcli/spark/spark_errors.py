"""Turn what PySpark raises into an error with one line, its cure, and the kind that our exit statuses go by.

An error of ours that was raised in a worker, or in the planner, comes back as the text of a Python traceback inside a
Spark error: its last line names the class and tells the rest.
"""

from __future__ import annotations

import re

from kcli import errors
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError, ConfigError, KcliError, Refused
from kcli.spark.loss import DataLoss
from kcli.spark.session import SparkFailed

_OURS: dict[str, type[KcliError]] = {
    **{name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, KcliError)},
    "DataLoss": DataLoss,
    **dict.fromkeys(("GroupInUse", "PlanOutdated", "PlanRefused", "WrongCluster"), Refused),
}
"""By name; of others only the reason is kept."""
_OURS_RAISED = re.compile(r"^kcli\.(?:\w+\.)*([A-Z]\w*): (.+)$", re.M)
_RAISED = re.compile(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Expired|Found|Refused|Loss|Version|Records)): (.+)$", re.M)
_CONDITION = re.compile(r"\[([A-Z_]+)(?:\.[A-Z_]+)?\] *")
_SQL_STATE = re.compile(r" *SQLSTATE: \w+")
# Py4J's text of an exception in the JVM: a first line that tells nothing, then Java's trace.
_IN_THE_JVM = re.compile(r"\AAn error occurred while calling .+\n: [\w.$]+: *(.*)")
_NO_WORKER = re.compile(r"^Error from python worker:\s*(.+)", re.M)

# Spark's error conditions (its documentation has the list) that the person can mend: class of ours, and what to do.
_MENDED: dict[str, tuple[type[KcliError], str]] = {
    "DATA_SOURCE_NOT_FOUND": (
        ConfigError,
        "add the format's package, as in --conf spark.jars.packages=GROUP:ARTIFACT:VERSION",
    ),
    "PATH_ALREADY_EXISTS": (Refused, "choose another --to, or --mode append or overwrite"),
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
        "leave those columns out with --columns, or choose a --format",
    ),
    "CODEC_NOT_AVAILABLE": (ConfigError, ""),
    "STREAM_FAILED": (SparkFailed, ""),
}
_HINTS = {
    "failed to connect back": "the workers' Python cannot be started: set PYSPARK_PYTHON to one with pyarrow",
    "No module named 'kcli": "kcli is not on Spark's machines: let --ship bring it (auto, zip, inline)",
    "No module named 'pyspark": "the Python of Spark's machines lacks pyspark: set PYSPARK_PYTHON to one that has it",
    "No module named 'pyarrow": "pyarrow is not on Spark's machines: install it there, or ship an environment",
    "No module named 'numpy": "numpy is not on Spark's machines: install it there, or ship an environment",
    "PYTHON_VERSION_MISMATCH": "driver and workers run different Pythons: set PYSPARK_PYTHON for the workers",
    "OutOfMemoryError": "give it more memory, as in --conf spark.driver.memory=4g",
    "No space left on device": "there is no room for the result or for Spark's scratch files (spark.local.dir)",
}


def explain(error: BaseException) -> KcliError:
    """One of ours for whatever a Spark job raised; those of ours are themselves."""
    if isinstance(error, KcliError):
        return error
    text = str(error)
    ours = _ours(text)
    if ours is not None:
        return ours
    line = _last_line(text) or type(error).__name__
    for sign, cure in _HINTS.items():
        if sign in text:
            return SparkFailed(f"{line}; {cure}")
    condition = _CONDITION.search(text)
    kind, cure = _MENDED.get(condition[1] if condition else "", (SparkFailed, ""))
    return kind(f"{line}; {cure}" if cure else line)


def _ours(text: str) -> KcliError | None:
    """The error of ours that is told in a traceback; the last one is the one that was raised."""
    raised = _OURS_RAISED.findall(text)
    if not raised:
        return None
    name, message = raised[-1]
    if name != "BrokerError":
        return _OURS.get(name, SparkFailed)(message)
    code, _, words = message.partition(": ")
    known = next((it for it in ErrorCode.all() if it.name == code), None)
    return SparkFailed(message) if known is None else BrokerError(known, words)


def _last_line(text: str) -> str:
    """The line that tells why: a Python exception's, else the first one that does, without Spark's codes."""
    raised = _RAISED.findall(text)
    telling = [f"{name}: {message}" for name, message in raised if name not in ("PythonException", "SparkException")]
    if telling and "Traceback" in text:
        line = telling[-1]
    elif found := _NO_WORKER.search(text) or _IN_THE_JVM.match(text):
        line = found[1]
    else:
        line = next(iter(text.strip().splitlines()), "")
    return _SQL_STATE.sub("", _CONDITION.sub("", line)).strip().rstrip(";.").strip()

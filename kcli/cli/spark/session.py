"""Run of a Spark command: checks before Spark starts, session, progress, result.

Order of the steps: the options are checked; brokers are asked for the topics, and a dry run ends; PySpark and Java are
checked; then Spark is started. So wrong usage and a misspelled topic are reported at once, also without Java.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kcli.cli import exit_status
from kcli.cli.environment import Environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.cli.options import Common
    from kcli.cli.spark.options import Cluster, Job
    from kcli.spark.pipelines.result import Result
    from kcli.spark.pipelines.source import KafkaSource
    from kcli.spark.pipelines.survey import Survey


def run_pipeline(
    job: Job,
    kind: str,
    source: KafkaSource,
    run: Callable[[SparkSession], Result],
    *,
    view: str = "records",
    columns: Sequence[str] | None = None,
    judge: Callable[[Result], int] = lambda _: exit_status.DONE,
    preflight: Callable[[], Survey] | None = None,
) -> int:
    """Call `run` in a session and show its result as a report of this kind ("spark.skew"); return the exit status of
    `judge`.

    `view` and `columns` name the rows that `run` loads from `source`, for the dry run and the checks; `preflight`
    replaces both for a command that loads more.
    """
    from kcli.cli.spark.dry_run import show_survey
    from kcli.cli.spark.results import show_result
    from kcli.spark.pipelines.survey import survey

    preflight = preflight or (lambda: survey(source, view, columns))
    if job.dry_run:
        return show_survey(job, preflight())
    with spark_session(job.env, job.common, job.cluster, preflight=preflight) as spark:
        result = run(spark)
        show_result(job, kind, result)
        return judge(result)


@contextmanager
def spark_session(
    env: Environment, common: Common, cluster: Cluster, *, preflight: Callable[[], Survey | None] = lambda: None
) -> Iterator[SparkSession]:
    """A session; its JVM ends with the context. Spark's errors are raised as KcliErrors.

    `preflight` is called before everything else; not with --remote, where only the server may reach the brokers.
    """
    import os

    from kcli.spark.java import check_java
    from kcli.spark.session import check_pyspark
    from kcli.spark.spark_errors import translate_error

    planned = preflight() if cluster.remote is None else None
    check_pyspark()
    if cluster.remote is None:
        check_java(os.environ)
    with session_factory(env, common, cluster, 0 if planned is None else planned.records) as start:
        try:
            yield start()
        except Exception as error:
            if _is_output_error(error):
                raise
            raise translate_error(error) from error


def _is_output_error(error: Exception) -> bool:
    """Return whether the error is of kcli's own output, not of Spark: a closed pipe, or a file that cannot be
    written.
    """
    return isinstance(error, BrokenPipeError) or (isinstance(error, OSError) and error.filename is not None)


@contextmanager
def session_factory(
    env: Environment, common: Common, cluster: Cluster, expected: int = 0
) -> Iterator[Callable[[], SparkSession]]:
    """Yield a function that starts Spark, and stop it at the end. Errors are not translated.

    `expected` is the number of records to read, for the progress line; 0: unknown.
    """
    import tempfile

    from kcli.cli.spark.progress import ProgressLine
    from kcli.spark.session import close_session, open_session

    spark: Any = None
    jvm_output = sys.stderr.buffer if common.verbose else tempfile.TemporaryFile()  # noqa: SIM115
    progress = ProgressLine(env, None if common.verbose else jvm_output)
    with _without_warnings(common), _interrupted_by_signals(), progress as line:

        def start() -> SparkSession:
            nonlocal spark
            spark = open_session(**cluster._asdict(), report=line.show, jvm_output=jvm_output)
            _install_handlers()
            line.follow(spark, expected)
            return spark

        try:
            yield start
        finally:
            line.stop()
            if spark is not None:
                close_session(spark)
            line.print_reports()


@contextmanager
def _without_warnings(common: Common) -> Iterator[None]:
    """Suppress PySpark's warnings and logged traces, unless -v is given."""
    import logging
    import warnings

    previous = logging.root.manager.disable
    with warnings.catch_warnings():
        if not common.verbose:
            warnings.simplefilter("ignore")
            logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(previous)


_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    _install_handlers()
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _install_handlers() -> None:
    """Raise KeyboardInterrupt for each signal. PySpark installs its own handler when its context is made."""
    for number in _SIGNALS:
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt

"""Carry out a Spark command: look before Spark starts, open the session, show how far it is, tell what it found.

What every command goes through, in this order: the dry run ends here; Java and PySpark are there; the topics are; then
Spark is started. So nobody waits ten seconds for a mistyped topic.
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
    from kcli.cli.spark.survey import Survey
    from kcli.spark.pipelines.result import Result
    from kcli.spark.pipelines.source import KafkaSource


def carry_out(
    job: Job,
    kind: str,
    source: KafkaSource,
    work: Callable[[SparkSession], Result],
    *,
    view: str = "records",
    columns: Sequence[str] | None = None,
    judge: Callable[[Result], int] = lambda _: exit_status.DONE,
    look: Callable[[], Survey] | None = None,
) -> int:
    """Run `work` in a session and show its result as a report of this kind ("spark.skew"); the exit status is that of
    `judge`.

    `view` and `columns` are what `work` will load from `source`, for the dry run and the look before the start; `look`
    does that for a command that loads more.
    """
    from kcli.cli.spark.results import show_result
    from kcli.cli.spark.survey import show_survey, survey

    look = look or (lambda: survey(source, view, columns))
    if job.dry_run:
        return show_survey(job, look())
    with spark_session(job.env, job.common, job.cluster, look=look) as spark:
        result = work(spark)
        show_result(job, kind, result)
        return judge(result)


@contextmanager
def spark_session(
    env: Environment, common: Common, cluster: Cluster, *, look: Callable[[], Survey | None] = lambda: None
) -> Iterator[SparkSession]:
    """A session for a `with`: whatever ends it, the JVM ends too. Errors of Spark come out as ours.

    `look` is done once all that is needed is there and before Spark is started; not with --remote, where the brokers
    may be for the server alone to reach.
    """
    import os

    from kcli.spark.java import check_java
    from kcli.spark.session import check_pyspark
    from kcli.spark.spark_errors import translate_error

    check_pyspark()
    found = None
    if cluster.remote is None:
        check_java(os.environ)
        found = look()
    with opened(env, common, cluster, 0 if found is None else found.records) as start:
        try:
            yield start()
        except Exception as error:
            if _is_of_our_output(error):
                raise
            raise translate_error(error) from error


def _is_of_our_output(error: Exception) -> bool:
    """The reader of our pipe went away, or a file could not be written: Spark has no part in it."""
    return isinstance(error, BrokenPipeError) or (isinstance(error, OSError) and error.filename is not None)


@contextmanager
def opened(
    env: Environment, common: Common, cluster: Cluster, expected: int = 0
) -> Iterator[Callable[[], SparkSession]]:
    """Yields what starts Spark, its errors as they are. Whatever it has started is gone behind the `with`.

    `expected` are the records that will be read, for the progress line; 0 if nobody knows.
    """
    import tempfile

    from kcli.cli.spark.progress import ProgressLine
    from kcli.spark.session import close_session, open_session

    spark: Any = None
    noise = sys.stderr.buffer if common.verbose else tempfile.TemporaryFile()  # noqa: SIM115
    shown = ProgressLine(env, None if common.verbose else noise)
    with _silenced(common), _stopped_by_signals(), shown as line:

        def start() -> SparkSession:
            nonlocal spark
            spark = open_session(**cluster._asdict(), say=line.say, noise=noise)
            _take_signals()
            line.follow(spark, expected)
            return spark

        try:
            yield start
        finally:
            line.stop()
            if spark is not None:
                close_session(spark)
            line.tell_reports()


@contextmanager
def _silenced(common: Common) -> Iterator[None]:
    """PySpark's warnings, and the traces that it logs, are for programmers; -v shows them."""
    import logging
    import warnings

    before = logging.root.manager.disable
    with warnings.catch_warnings():
        if not common.verbose:
            warnings.simplefilter("ignore")
            logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(before)


_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    _take_signals()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _take_signals() -> None:
    """Every wish to end is a KeyboardInterrupt. PySpark puts a handler of its own there when its context is made."""
    for number in _SIGNALS:
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt

"""Run of a Spark command: checks before Spark starts, session, progress, result.

Order of the steps: the options are checked; brokers are asked for the topics, and a dry run ends; PySpark and Java are
checked; then Spark is started. So wrong usage and a misspelled topic are reported at once, also without Java.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

from kcli.cli import exit_status
from kcli.cli.environment import Environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.cli.options import Common
    from kcli.cli.spark.metrics_file import MetricsFile
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
    env: Environment,
    common: Common,
    cluster: Cluster,
    *,
    preflight: Callable[[], Survey | None] = lambda: None,
    clean_up: Callable[[], str | None] = lambda: None,
    metrics: MetricsFile | None = None,
) -> Iterator[SparkSession]:
    """A session; its JVM ends with the context. Spark's errors are raised as KcliErrors.

    `preflight` is called before everything else; not with --remote, where only the server may reach the brokers.
    `clean_up` is called when Spark has ended after a failure or an interruption; it returns what it has done, for the
    user. `metrics` gets the progress.
    """
    from kcli.spark.deploy.java import check_java
    from kcli.spark.deploy.jvm_process import jvm_failure
    from kcli.spark.deploy.session import check_pyspark
    from kcli.spark.deploy.spark_errors import translate_error

    with interruptible(env):
        planned = None
        if cluster.remote is None:
            with _reporting_a_long_wait(env, common):
                planned = preflight()
        check_pyspark()
        if cluster.remote is None:
            check_java(os.environ)
        try:
            expected = 0 if planned is None else planned.records
            with session_factory(env, common, cluster, expected, metrics) as start:
                try:
                    yield start()
                except Exception as error:
                    if _is_output_error(error):
                        raise
                    raise jvm_failure() or translate_error(error) from error
        except KeyboardInterrupt as interruption:
            cleaned = clean_up()
            if cleaned is None:
                raise
            raise KeyboardInterrupt(f"{str(interruption) or INTERRUPTED}; {cleaned}") from None
        except Exception:
            cleaned = clean_up()
            if cleaned is not None:
                env.report(cleaned)
            raise


_LONG_WAIT_S = 5.0


@contextmanager
def _reporting_a_long_wait(env: Environment, common: Common) -> Iterator[None]:
    """Report once that brokers do not answer, while the time limit is not yet reached."""
    servers = common.properties["bootstrap.servers"]
    line = f"no answer from {servers} yet; waiting up to {common.timeout_ms / 1000:g} s"
    timer = threading.Timer(_LONG_WAIT_S, env.report, (line,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_output_error(error: Exception) -> bool:
    """Return whether the error is of kcli's own output, not of Spark: a closed pipe, or a file that cannot be
    written.
    """
    return isinstance(error, BrokenPipeError) or (isinstance(error, OSError) and error.filename is not None)


@contextmanager
def session_factory(
    env: Environment,
    common: Common,
    cluster: Cluster,
    expected: int = 0,
    metrics: MetricsFile | None = None,
    patience_s: float = 10,
) -> Iterator[Callable[[], SparkSession]]:
    """Yield a function that starts Spark, and stop it at the end. Errors are not translated. Use it in `interruptible`.

    `expected` is the number of records to read, for the progress line; 0: unknown. A JVM that does not end within
    `patience_s` seconds is killed.
    """
    import tempfile

    from kcli.cli.spark.progress import ProgressLine
    from kcli.spark.deploy.jvm_process import running_jvm
    from kcli.spark.deploy.session import close_session, open_session

    spark: Any = None
    jvm_before = running_jvm()
    jvm_output = sys.stderr.buffer if common.verbose else tempfile.TemporaryFile()  # noqa: SIM115
    progress = ProgressLine(env, None if common.verbose else jvm_output, metrics)
    with _without_warnings(common), progress as line:

        def start() -> SparkSession:
            nonlocal spark
            timeout_s = common.timeout_ms / 1000
            spark = open_session(**cluster._asdict(), report=line.show, jvm_output=jvm_output, timeout_s=timeout_s)
            line.follow(spark, expected)
            return spark

        succeeded = False
        try:
            yield start
            succeeded = True
        finally:
            with _killing_at_once():
                line.stop()
                if metrics is not None:
                    metrics.finish(succeeded=succeeded)
                if spark is not None or running_jvm() is not jvm_before:  # a signal can arrive before the assignment
                    close_session(spark, patience_s=patience_s)
                line.print_reports()


@contextmanager
def _without_warnings(common: Common) -> Iterator[None]:
    """Suppress PySpark's warnings and logged traces, unless -v is given."""
    import logging
    import socketserver
    import warnings

    disabled = logging.root.manager.disable
    handle_error, excepthook = socketserver.BaseServer.handle_error, threading.excepthook
    with warnings.catch_warnings():
        if not common.verbose:
            warnings.simplefilter("ignore")
            logging.disable(logging.CRITICAL)
            # PySpark's threads would print a trace each if the JVM dies.
            socketserver.BaseServer.handle_error = lambda *_: None  # type: ignore[method-assign]
            threading.excepthook = lambda _: None
        try:
            yield
        finally:
            logging.disable(disabled)
            socketserver.BaseServer.handle_error = handle_error  # type: ignore[method-assign]
            threading.excepthook = excepthook


INTERRUPTED = "kcli: interrupted"


@contextmanager
def interruptible(env: Environment) -> Iterator[None]:
    """Raise KeyboardInterrupt at the first signal that asks the process to end, and report it in one line.

    The line is the message of the KeyboardInterrupt, if it has one. A second signal within a second is the same
    request: `timeout` and shells signal the process and its process group.

    Python drops an exception that is raised in a finalizer, Py4J may raise another one for it, and a signal just before
    a system call does not end its wait. So the signal is repeated until the block ends, and any other error after it is
    its consequence.
    """
    interrupted_s: float | None = None
    arrived: SimpleQueue[int | None] = SimpleQueue()  # a handler may call `put`, but not start a thread

    def interrupt(number: int, _frame: Any) -> None:
        nonlocal interrupted_s
        if interrupted_s is None or monotonic() - interrupted_s > min(1, _REPEAT_S / 2):
            interrupted_s = monotonic()
            arrived.put(number)
            raise KeyboardInterrupt

    def repeat() -> None:
        main = threading.main_thread().ident or 0
        repeated = arrived.get()
        while (number := repeated) is not None:
            try:
                repeated = arrived.get(timeout=_REPEAT_S)
            except Empty:
                if signal.getsignal(number) is interrupt:
                    signal.pthread_kill(main, number)  # it also ends a wait for a socket
                else:  # Spark is being stopped
                    repeated = arrived.get()

    repeating = threading.Thread(target=repeat, name="kcli-interruption", daemon=True)
    repeating.start()
    with _handling_signals(interrupt):
        try:
            yield
        except KeyboardInterrupt as interruption:
            env.report(str(interruption) or INTERRUPTED)
            raise
        except Exception:
            if interrupted_s is None:
                raise
            env.report(INTERRUPTED)
            raise KeyboardInterrupt from None
        finally:
            arrived.put(None)
            repeating.join()  # while the handler is in place: another one could end the process


_REPEAT_S = 3.0


@contextmanager
def _killing_at_once() -> Iterator[None]:
    """While Spark is stopped, let a signal kill it. A repeated signal within a second is the one that stopped it."""
    from kcli.spark.deploy.jvm_process import kill_jvm

    started_s = monotonic()

    def kill(_number: int, _frame: Any) -> None:
        if monotonic() - started_s > 1:
            kill_jvm()

    with _handling_signals(kill):
        yield


@contextmanager
def _handling_signals(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Call the handler for each signal that asks the process to end, except one that is ignored, as under nohup."""
    from kcli.spark.deploy.jvm_process import STOP_SIGNALS

    handled = [
        number for number in STOP_SIGNALS if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN
    ]
    previous = {number: signal.signal(number, handler) for number in handled}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)

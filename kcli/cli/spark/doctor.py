"""`kcli spark doctor`: check the environment that Spark needs to read Kafka."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.parser import Option
from kcli.cli.spark.options import Cluster
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from subprocess import Popen

    from kcli.spark.deploy.class_archive import NewArchive
    from kcli.spark.deploy.doctor import Finding

COLUMNS = ["check", "status", "detail", "cure"]


_WRITING_S = 120.0
"""The time that the JVM has to write the archive when it ends."""


def run(
    env: Environment,
    common: Common,
    cluster: Cluster,
    class_archive: Annotated[
        bool, Option("--class-archive", help="Write an archive of Java classes (170 MB): Spark then starts faster.")
    ] = False,
) -> int:
    """Check the environment that Spark needs to read Kafka, up to its executors.

    The checks: Java and packages; the Python of the workers; the start of Spark; the packages of an executor; kcli on
    the executor; access of the executor to the brokers. A row that is wrong has a cure. Exit status 1 if any is wrong.

    --class-archive writes the archive that later commands use, in $XDG_CACHE_HOME/kcli, by default ~/.cache/kcli. It
    fits this version of Java and PySpark; write it again after an update of either.
    """
    from kcli.cli import exit_status
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report
    from kcli.cli.spark.session import interruptible, session_factory
    from kcli.spark.deploy.jvm_process import running_jvm
    from kcli.spark.deploy.ship import resolve_ship

    common.config()
    archive = _new_archive(cluster) if class_archive else None
    if archive is not None:
        cluster = cluster._replace(conf=archive.settings(cluster.conf))
    findings: list[Finding] = []
    ship = resolve_ship(cluster.master, cluster.remote, cluster.ship)
    patience_s = 10 if archive is None else _WRITING_S
    with interruptible(env):
        with session_factory(env, common, cluster, patience_s=patience_s) as start:
            from kcli.spark.deploy.doctor import WRONG, all_checks

            kafka = {**common.properties, **common.time_limit}
            findings = all_checks(start, kafka, cluster.remote, ship)
            jvm = running_jvm()
            if archive is not None and jvm is not None:
                env.report("writing the class archive")
        if archive is not None:
            findings.append(_published(archive, jvm))
    print_report(env, Report("spark.doctor", COLUMNS, [dict(finding._asdict()) for finding in findings]), common.output)
    return exit_status.FAILED if any(finding.status == WRONG for finding in findings) else exit_status.DONE


def _new_archive(cluster: Cluster) -> NewArchive:
    """Return the archive to be written. ConfigError if later sessions could not use it."""
    from pathlib import Path

    from kcli.spark.deploy.class_archive import NewArchive
    from kcli.spark.deploy.java import check_java
    from kcli.spark.deploy.session import check_pyspark, lean_home

    if cluster.remote is not None:
        raise ConfigError("--class-archive cannot be combined with --remote: the server has a JVM of its own")
    check_pyspark()
    import pyspark

    java = check_java(os.environ)
    home = lean_home(Path(pyspark.__file__).parent, os.environ)
    if home is None:
        raise ConfigError("--class-archive needs PySpark as pip installs it: unset SPARK_HOME, and check ~/.cache")
    return NewArchive(home, java)


def _published(archive: NewArchive, jvm: Popen[bytes] | None) -> Finding:
    from kcli.spark.deploy.doctor import MORE_OUTPUT, OK, WRONG, Finding

    if archive.publish(jvm):
        return Finding("class archive", OK, str(archive.path))
    return Finding("class archive", WRONG, "the JVM of Spark did not write it", MORE_OUTPUT)

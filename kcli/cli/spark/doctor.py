"""`kcli spark doctor`: check the environment that Spark needs to read Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.spark.options import Cluster

if TYPE_CHECKING:
    from kcli.spark.doctor import Finding

COLUMNS = ["check", "status", "detail", "cure"]


def run(env: Environment, common: Common, cluster: Cluster) -> int:
    """Check the environment that Spark needs to read Kafka, up to its executors.

    The checks: Java and packages; the Python of the workers; the start of Spark; the packages of an executor; kcli on
    the executor; access of the executor to the brokers. A row that is wrong has a cure. Exit status 1 if any is wrong.
    """
    from kcli.cli import exit_status
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report
    from kcli.cli.spark.session import interruptible, session_factory
    from kcli.spark.ship import resolve_ship

    common.config()
    findings: list[Finding] = []
    ship = resolve_ship(cluster.master, cluster.remote, cluster.ship)
    with interruptible(env), session_factory(env, common, cluster) as start:
        from kcli.spark.doctor import WRONG, all_checks

        kafka = {**common.properties, **common.time_limit}
        findings = all_checks(start, kafka, cluster.remote, ship)
    print_report(env, Report("spark.doctor", COLUMNS, [dict(finding._asdict()) for finding in findings]), common.output)
    return exit_status.FAILED if any(finding.status == WRONG for finding in findings) else exit_status.DONE

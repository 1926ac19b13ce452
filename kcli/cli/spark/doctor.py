"""`kcli spark doctor`: is everything there that Spark needs to read Kafka?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.spark.options import Cluster

if TYPE_CHECKING:
    from kcli.spark.doctor import Finding

COLUMNS = ["check", "status", "detail", "cure"]


def run(env: Environment, common: Common, cluster: Cluster) -> int:
    """Check what Spark needs to read Kafka, from here to its executors.

    Java and packages; the interpreter of the workers; that Spark starts; what an executor has; that kcli gets there;
    and that brokers answer an executor. Each row that is wrong names its cure, and the status is 1.
    """
    from kcli.cli import exit_status
    from kcli.cli.output.report import Report, show
    from kcli.cli.spark.session import opened
    from kcli.spark.ship import resolve_ship

    common.config()
    findings: list[Finding] = []
    way = resolve_ship(cluster.master, cluster.remote, cluster.ship)
    with opened(env, common, cluster) as start:
        from kcli.spark.doctor import WRONG, all_checks

        findings = all_checks(start, common.properties, cluster.remote, way)
    show(env, Report("spark.doctor", COLUMNS, [dict(found._asdict()) for found in findings]), common.output)
    return exit_status.FAILED if any(found.status == WRONG for found in findings) else exit_status.DONE

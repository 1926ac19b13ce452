"""`kcli cluster describe`: cluster id, controller and brokers."""

from contextlib import closing

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common

COLUMNS = ["cluster_id", "node", "host", "port", "rack", "controller", "fenced"]


def run(env: Environment, common: Common) -> int:
    """Show the id, the controller and the brokers of the cluster.

    A fenced broker is registered but does not serve clients. In a KRaft cluster the controller shown is the broker that
    forwards changes to the controller quorum.
    """
    from kcli.admin.cluster import describe_cluster
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    with closing(common.connect()) as client:
        cluster = describe_cluster(client, common.deadline_ms())
    brokers = [
        {
            "node": broker.id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "controller": broker.id == cluster.controller_id,
            "fenced": broker.fenced,
        }
        for broker in cluster.brokers
    ]
    controller = cluster.controller_id if cluster.controller_id >= 0 else None
    item = {"cluster_id": cluster.cluster_id, "controller": controller, "brokers": brokers}
    rows = [{"cluster_id": cluster.cluster_id, **broker} for broker in brokers]
    print_report(env, Report("cluster.describe", COLUMNS, [item], rows), common.output)
    return exit_status.DONE

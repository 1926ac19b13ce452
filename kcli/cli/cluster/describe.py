"""`kcli cluster describe`: id, controller and brokers."""

from contextlib import closing

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common

COLUMNS = ["cluster_id", "node", "host", "port", "rack", "controller", "fenced"]


def run(env: Environment, common: Common) -> int:
    """Id, controller and brokers of the cluster.

    A fenced broker is registered but does not serve. In KRaft, brokers name one of themselves as controller: the one to
    send changes to.
    """
    from kcli.admin.cluster import describe_cluster
    from kcli.cli.output.report import Report, show

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
    show(env, Report("cluster.describe", COLUMNS, [item], rows), common.output)
    return exit_status.DONE

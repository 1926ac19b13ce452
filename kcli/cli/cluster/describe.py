"""`kcli cluster describe`: cluster id, controller and brokers, and the partitions that have a fault."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.options import Common

if TYPE_CHECKING:
    from kcli.admin.health.partition_faults import PartitionFaults
    from kcli.cli.output.report import Item

KIND = "cluster.describe"
COLUMNS = ["cluster_id", "node", "host", "port", "rack", "controller", "fenced"]
FAULT_COLUMNS = ["fault", "partitions", "names"]


def run(env: Environment, common: Common) -> int:
    """Show the id, the controller and the brokers of the cluster, and its partitions with a fault.

    A fenced broker is registered but does not serve clients. In a KRaft cluster the controller shown is the broker that
    forwards changes to the controller quorum.

    A second table counts the partitions that are offline (no live replica), leaderless (live replicas, but none in
    sync), under-min-isr (fewer replicas in sync than min.insync.replicas) and under-replicated (a replica is not in
    sync); kcli topic describe --unhealthy shows each of them. Without such partitions there is no second table. csv and
    tsv have the brokers only, and stderr the counts.
    """
    from kcli.admin.cluster import describe_cluster
    from kcli.admin.health.partition_faults import find_partition_faults
    from kcli.admin.topics import list_topics
    from kcli.cli.output.printer import print_report
    from kcli.cli.output.report import Report

    deadline_ms = common.deadline_ms()
    with closing(common.connect()) as client:
        cluster = describe_cluster(client, deadline_ms)
        topics = list_topics(client, deadline_ms)
        faults = find_partition_faults(client, topics, deadline_ms)
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
    rows = [{"cluster_id": cluster.cluster_id, **broker} for broker in brokers]
    by_fault = _by_fault(faults)
    item = {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id if cluster.controller_id >= 0 else None,
        "brokers": brokers,
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        "faults": by_fault,
    }
    print_report(env, Report(KIND, COLUMNS, [item], rows), common.output)
    if by_fault and common.output in (None, "table"):
        env.stdout.write("\n")
        print_report(env, Report(KIND, FAULT_COLUMNS, by_fault, list(map(_shortened, by_fault))), common.output)
    elif by_fault and common.output in ("csv", "tsv"):
        counts = ", ".join(f"{len(row['names'])} {row['fault']}" for row in by_fault)
        env.report(f"kcli: partitions with a fault: {counts}; see kcli topic describe --unhealthy")
    if faults.errors:
        reason = next(iter(faults.errors.values()))
        env.report(f"kcli: note: min.insync.replicas is unknown, so under-min-isr is not shown: {reason}")
    return exit_status.DONE


def _by_fault(faults: PartitionFaults) -> list[Item]:
    """Return an item for each fault that a partition has, the most severe first."""
    from kcli.admin.health.partition_faults import FAULTS

    names: dict[str, list[str]] = {fault: [] for fault in FAULTS}
    for topic, by_partition in faults.by_topic.items():
        for number, found in sorted(by_partition.items()):
            for fault in found:
                names[fault].append(f"{topic}-{number}")
    return [{"fault": fault, "partitions": len(some), "names": some} for fault, some in names.items() if some]


def _shortened(item: Item) -> Item:
    from kcli.admin.explain.findings import join_names

    return {**item, "names": join_names(item["names"])}

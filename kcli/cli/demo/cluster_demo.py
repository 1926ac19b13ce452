"""The demo of a cluster: the leader of a partition is killed and returns, and no acknowledged record is lost."""

from __future__ import annotations

from contextlib import closing
from time import monotonic, sleep
from typing import TYPE_CHECKING

from kcli.cli import exit_status
from kcli.cli.demo.steps import Step, run_step
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.cli.demo.own_broker import OwnCluster
    from kcli.cli.environment import Environment
    from kcli.client.metadata import PartitionInfo

_TIMEOUT_S = 30.0
_PARTITION = 0


def run_cluster_demo(env: Environment, nodes: int, *, keep: bool) -> int:
    """Run the demo on a cluster of so many nodes; return the exit status."""
    from kcli.cli.demo.fill import TOPIC, fill
    from kcli.cli.demo.own_broker import own_cluster

    out = env.stdout
    with own_cluster(nodes, keep=keep) as cluster:
        out.write(f"{nodes} brokers run at {cluster.address}; their data is deleted when they stop.\n")
        lines = fill({"bootstrap.servers": cluster.address}, env.clock, min(3, nodes))
        out.writelines(f"{line}\n" for line in lines)
        out.write(f"\n$ export KCLI_BOOTSTRAP_SERVER={cluster.address}\n")
        status = _Tour(env, cluster, TOPIC).run()
        if status == exit_status.INTERRUPTED:
            return status
        if keep:
            pids = " ".join(map(str, [*cluster.restarted, cluster.pid]))
            out.write(f"\nThe brokers are still running; `kill {pids}` stops them and deletes their data.\n")
        else:
            out.write(
                "\nThe demo is complete: the brokers are stopped and their data is deleted. `kcli broker run --nodes "
                f"{nodes}` starts a cluster that stays.\n"
            )
    return status


class _Interrupted(Exception):
    pass


class _Tour:
    """The steps of the demo."""

    def __init__(self, env: Environment, cluster: OwnCluster, topic: str) -> None:
        self._env = env
        self._cluster = cluster
        self._topic = topic
        self._failed = False

    def run(self) -> int:
        try:
            self._before_the_kill()
            self._kill_and_return(self._partition().leader)
        except _Interrupted:
            return exit_status.INTERRUPTED
        return exit_status.FAILED if self._failed else exit_status.DONE

    def _before_the_kill(self) -> None:
        self._step("Show the brokers.", "cluster", "describe")
        self._step(
            "Each partition has a leader, and replicas that are in sync (ISR).", "topic", "describe", self._topic
        )
        self._write("Write an order to partition 0. It is acknowledged when all replicas in sync have it.", "before")

    def _kill_and_return(self, leader: int) -> None:
        cluster, topic = self._cluster, self._topic
        self._say(f"Broker {leader} leads partition {_PARTITION}. Kill its process.", f"kill -9 {cluster.pids[leader]}")
        notice = cluster.kill(leader)
        killed_s = monotonic()
        self._env.stdout.write(f"{notice}\n")
        self._write("Write again at once: the order waits for the new leader.", "after")
        waited_s = monotonic() - killed_s
        self._env.stdout.write(f"(acknowledged {waited_s:.1f} s after the kill)\n")
        successor = self._partition().leader
        comment = f"Broker {successor} leads now, and a replica is missing."
        self._step(comment, "topic", "describe", "--unhealthy")
        find = ("-p", str(_PARTITION), "-o", "-2", "-e", "-f", r"%p:%o %s\n")
        self._step("Both orders are there.", "consume", topic, *find)
        self._say("Start the broker again.", f"kcli broker run --node {leader} --data-dir ... &")
        cluster.start(leader)
        self._wait_until_in_sync()
        self._step("It has copied what it missed; no partition has a fault.", "topic", "describe", "--unhealthy")
        self._step("It follows the new leaders.", "topic", "describe", topic)
        self._step("The groups are where they were.", "group", "lag", "--all")

    def _step(self, comment: str, *words: str, piped: str | None = None) -> None:
        variables = {"KCLI_BOOTSTRAP_SERVER": self._cluster.address}
        status = run_step(self._env, variables, Step(comment, words, piped))
        if status == exit_status.INTERRUPTED:
            raise _Interrupted
        self._failed = self._failed or status != exit_status.DONE

    def _write(self, comment: str, event: str) -> None:
        self._step(comment, "produce", self._topic, "-p", str(_PARTITION), piped=f"an order {event} the kill")

    def _say(self, comment: str, command: str) -> None:
        self._env.stdout.write(f"\n# {comment}\n$ {command}\n")
        self._env.stdout.flush()

    def _partition(self) -> PartitionInfo:
        return self._partitions()[_PARTITION]

    def _partitions(self) -> dict[int, PartitionInfo]:
        from kcli.admin.topics import describe_topics
        from kcli.client.config import ClientConfig
        from kcli.client.connect import connect

        clock = self._env.clock
        config = ClientConfig.from_properties({"bootstrap.servers": self._cluster.address})
        with closing(connect(config, clock)) as client:
            found = describe_topics(client, [self._topic], clock.now_ms() + _TIMEOUT_S * 1000)
        for error in found.errors.values():
            raise error
        return found.values[self._topic].partitions

    def _wait_until_in_sync(self) -> None:
        until_s = monotonic() + _TIMEOUT_S
        while any(set(partition.isr) != set(partition.replicas) for partition in self._partitions().values()):
            if monotonic() > until_s:
                raise KcliError(f"the broker was not in sync within {_TIMEOUT_S:.0f} s")
            sleep(0.1)
